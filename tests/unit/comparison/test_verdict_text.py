"""The sentences of verdicts: none says what another one, or its numbers, deny."""

from dataclasses import replace

import pytest

from mosaico.comparison.verdict_text import describe_runs_evidence, explain
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.statistics.verdict_rules import (
    ChangeMethod,
    ChangeVerdict,
    Scale,
    Verdict,
    VerdictNote,
)

CHANGE = ChangeVerdict(
    verdict=Verdict.INCONCLUSIVE,
    effect=-0.25,
    low=-0.5,
    high=0.0,
    low_adjusted=-0.5,
    high_adjusted=0.0,
    p=0.05,
    p_adjusted=0.05,
    mde=0.24,
    n_items=40,
    trials=1.0,
    method=ChangeMethod.PAIRED_T,
    baseline_value=0.95,
    value=0.7,
    min_effect=0.02,
    margin=0.05,
)


def test_explain__detectable_effect_below_the_observed_change_is_not_named() -> None:
    assert "detected reliably" not in explain("quality", CHANGE, Scale.RATE)
    assert "only a change of 0.300 or more" in explain(
        "quality", replace(CHANGE, mde=0.3), Scale.RATE
    )


def test_explain__items_that_detect_nothing_name_the_number_that_would_do() -> None:
    text = explain("cost", replace(CHANGE, mde=None, items_needed=24), Scale.NUMBER)
    assert "cannot reliably detect any change: at least 24 items are required" in text


def test_explain__a_proved_small_change_is_not_called_chance() -> None:
    small = replace(CHANGE, effect=-0.015, p_adjusted=0.01)
    text = explain("quality", small, Scale.RATE)
    assert "the value changed, but possibly by less than 0.02" in text
    assert "chance alone" not in text


def test_explain__identical_runs_rule_nothing_out_for_other_items() -> None:
    same = replace(
        CHANGE, verdict=Verdict.NO_EVIDENCE, effect=0.0, value=0.95, notes=(VerdictNote.IDENTICAL,)
    )
    text = explain("quality", same, Scale.RATE)
    assert "ruled out" not in text
    assert text.endswith(VerdictNote.IDENTICAL.sentence)


def test_explain__few_items_are_the_reason() -> None:
    text = explain("quality", replace(CHANGE, notes=(VerdictNote.FEW_ITEMS,)), Scale.RATE)
    assert "chance alone explains" not in text
    assert VerdictNote.FEW_ITEMS.sentence in text


def test_explain__a_p_value_is_labelled_as_adjusted() -> None:
    text = explain("quality", replace(CHANGE, p=0.02, p_adjusted=0.05), Scale.RATE)
    assert "adjusted p 0.05" in text
    assert "quality fell from 0.950 to 0.700: −0.250 (95 % CI −0.500 to 0.000" in text


@pytest.mark.parametrize("event", [None, *SeriesEvent])
@pytest.mark.parametrize("status", SeriesStatus)
def test_describe_runs_evidence__each_state_has_words(
    status: SeriesStatus, event: SeriesEvent | None
) -> None:
    text = describe_runs_evidence(RunsEvidence(status=status, event=event, limit=2.8))
    assert text.startswith("over runs: ")


def test_describe_runs_evidence__an_event_says_more_than_the_status() -> None:
    opened = RunsEvidence(status=SeriesStatus.FIRING, event=SeriesEvent.OPENED, limit=2.8)
    assert describe_runs_evidence(opened) == "over runs: incident opened"
