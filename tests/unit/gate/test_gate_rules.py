"""Which checks a gate makes, and the outcome of each."""

import pytest

from mosaico.gating.reports import (
    gate_junit,
)
from mosaico.gating.rules import GateOutcome, GateTerms, NothingToGate, decide
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Side,
    Verdict,
    VerdictNote,
    without_change,
)
from tests.unit.gate.changes import NO_TERMS, SAME, UNSURE, WORSE, compared, judged


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        (WORSE, GateOutcome.REGRESSION),
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (judged(0.2, 0.1, 0.001), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
    ],
)
def test_gate__outcome_follows_the_verdict(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    assert decide(compared({"quality": kpi}), NO_TERMS).outcome is outcome


def test_gate__outcome_is_the_worst_of_its_checks() -> None:
    result = decide(compared({"a": SAME, "b": UNSURE, "c": WORSE}), NO_TERMS)
    assert result.outcome is GateOutcome.REGRESSION
    assert [check.outcome for check in result.checks] == [
        GateOutcome.PASS,
        GateOutcome.INCONCLUSIVE,
        GateOutcome.REGRESSION,
    ]


def test_gate__regression_outranks_an_unmeasured_kpi() -> None:
    without_items = without_change(Verdict.INVALID, VerdictNote.NO_ITEMS)
    for further_kpis, outcome in (
        ({"b": WORSE}, "REGRESSION"),
        ({"b": SAME, "c": UNSURE}, "INVALID"),
    ):
        assert decide(compared({"a": without_items, **further_kpis}), NO_TERMS).outcome == outcome


def test_gate__checks_only_gate_kpis_when_there_are_some() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}, gates=("a",)), NO_TERMS)
    assert (result.outcome, [check.name for check in result.checks]) == (GateOutcome.PASS, ["a"])


def test_gate__checks_only_named_kpis() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}), GateTerms(max_drop={"a": 0.05}))
    assert [check.name for check in result.checks] == ["a"]


def test_gate__several_checks_are_judged_by_their_adjusted_intervals() -> None:
    # The interval of the change alone excludes 0; adjusted for the other check it does not.
    wider = judged(-0.2, 0.15, 0.01, adjusted_half_width=0.25)
    result = decide(compared({"a": wider, "b": SAME}), NO_TERMS)
    assert [check.outcome for check in result.checks] == ["INCONCLUSIVE", "PASS"]


def test_gate__too_few_clusters_prove_nothing() -> None:
    few = judged(-0.9, 0.05, 0.001, notes=(VerdictNote.FEW_CLUSTERS,))
    assert few.verdict is Verdict.INCONCLUSIVE
    result = decide(compared({"quality": few}), NO_TERMS)
    # As the verdict: a gate fails exactly where the run regressed.
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "clusters" in result.checks[0].reason


def test_gate__jumping_kpi_without_an_interval_fails_by_its_test() -> None:
    jumped = judged(-1.0, None, 0.01)
    assert decide(compared({"passed": jumped}), NO_TERMS).outcome is GateOutcome.REGRESSION
    assert (
        decide(compared({"passed": judged(-1.0, None, 0.2)}), NO_TERMS).outcome
        is GateOutcome.INCONCLUSIVE
    )


def test_gate__without_kpis_judges_what_decides_and_shows_the_others() -> None:
    comparison = compared({}, metrics={"ACCURACY": SAME, "ROUGE": WORSE}, primary="ACCURACY")
    result = decide(comparison, GateTerms(max_drop={}))
    assert [check.name for check in result.checks] == ["ACCURACY"]
    assert [figure.name for figure in result.figures] == ["ROUGE"]
    assert result.choice is not None
    assert "ACCURACY decides" in result.choice
    assert result.outcome is not GateOutcome.REGRESSION


def test_gate__invalid_run_never_passes() -> None:
    reason = "the candidate is invalid: coverage is 10.0 %"
    verdict = RunVerdict(verdict=Verdict.INVALID, reason=reason, explanation="")
    result = decide(compared({"quality": SAME}, verdict=verdict), NO_TERMS)
    assert (result.outcome, result.reason) == (GateOutcome.INVALID, reason)
    assert "<error" in gate_junit(result)


def test_gate__refuses_empty_runs_and_unknown_kpis() -> None:
    with pytest.raises(NothingToGate, match="no trace"):
        decide(compared({"quality": SAME}, traces=0), NO_TERMS)
    with pytest.raises(NothingToGate, match=r"'speed'.*quality"):
        decide(compared({"quality": SAME}), GateTerms(max_drop={"speed": 0.1}))
    with pytest.raises(NothingToGate, match="neither"):
        decide(compared({}), NO_TERMS)
