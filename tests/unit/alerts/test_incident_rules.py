"""The states of a series: each can be left by data."""

import math
import random

import pytest

from mosaico.alerts.evaluation.incident_rules import MAX_INCIDENT_RUNS, advance_series
from mosaico.alerts.evaluation.series_decision import decide_step
from mosaico.alerts.evaluation.series_evidence import PagePolicy
from mosaico.alerts.rules import Condition, RuleSpec
from mosaico.kpis.series_types import SeriesEvent, SeriesState, SeriesStatus
from mosaico.statistics.sequential import RunLevel, limit_of
from mosaico.statistics.verdict_rules import Scale, Side
from tests.unit.alerts.incident_series import NOISE, POLICY, Series, firing, reference_level


def test_advance_series__the_first_run_is_warmup() -> None:
    series = Series()
    assert series.add(0.8).status is SeriesStatus.WARMUP
    assert series.add(0.8).status is SeriesStatus.OK


def test_advance_series__run_2_pages_only_beyond_what_whole_runs_may_vary() -> None:
    """One reference run: sd = sqrt(2 · (0.02² / 2 + 0.015²)) = 0.029, and 3.2 of it is a fall of 9.3 points."""
    for fall, event in ((0.09, None), (0.1, SeriesEvent.OPENED)):
        series = Series()
        series.add(0.8)
        assert series.add(0.8 - fall).event is event


@pytest.mark.parametrize(
    ("scale", "level", "least"),
    # 3.2 · sqrt(2) of 1.5 points, of 5 % and of 2 % of the mean of both levels.
    [(Scale.RATE, 0.8, 0.068), (Scale.RATIO, 3.0, 0.226), (Scale.NUMBER, 50.0, 4.3)],
)
def test_decide_step__run_2_assumes_how_whole_runs_vary(
    scale: Scale, level: float, least: float
) -> None:
    rule = RuleSpec(condition=Condition.REGRESSED)
    for factor, event in ((0.95, None), (1.08, SeriesEvent.OPENED)):
        fallen = level - factor * least
        levels = {1: RunLevel(1, level), 2: RunLevel(2, fallen, noise=1e-9)}
        state = SeriesState(reference=(1,))
        step = decide_step(state, levels, 2, scale, Side.LOW, rule, 0.25)
        assert step.evidence.event is event


def test_advance_series__a_value_without_known_noise_does_not_page_at_run_2() -> None:
    levels = {1: RunLevel(1, 0.8), 2: RunLevel(2, 0.1)}
    step = advance_series(SeriesState(reference=(1,)), levels, 2, POLICY)
    assert step.evidence.event is None


def test_advance_series__a_large_fall_opens_an_incident_and_is_dated() -> None:
    series = firing()
    evidence = series.evidence[-1]
    assert evidence.event is SeriesEvent.OPENED
    assert (evidence.width, evidence.reference, evidence.since) == (1, 20, 21)
    assert evidence.effect == pytest.approx(-0.3, abs=0.03)
    assert evidence.low is not None
    assert evidence.high is not None
    assert -0.5 < evidence.low < evidence.high < 0
    assert 21 not in series.state.reference


def test_advance_series__a_certain_fall_below_the_minimum_effect_does_not_page() -> None:
    series = Series(POLICY._replace(min_effect=0.4))
    series.add_around(0.8, 20)
    evidence = series.add(0.5)
    assert (evidence.z or 0) > evidence.limit
    assert not series.is_open()


@pytest.mark.parametrize(
    ("side", "value", "minimum_effect", "is_paged"),
    [
        # Milliseconds around 2000: the minimum effect is one of milliseconds, and not of logarithms.
        (Side.HIGH, 3000, 500, True),
        (Side.HIGH, 3000, 1500, False),
        (Side.LOW, 1000, 500, True),
        (Side.LOW, 1000, 1500, False),
        (Side.LOW, 1000, 2500, False),
    ],
)
def test_decide_step__minimum_effect_of_a_time_is_in_its_unit(
    side: Side, value: float, minimum_effect: float, is_paged: bool
) -> None:
    rng = random.Random(7)
    rule = RuleSpec(condition=Condition.REGRESSED, minimum_effect=minimum_effect)
    state = SeriesState()
    levels: dict[int, RunLevel] = {}
    events: list[SeriesEvent | None] = []
    for run, mean in enumerate([2000.0] * 20 + [value], 1):
        levels[run] = RunLevel(run, math.log(mean) + rng.gauss(0, 0.02), 0.02**2 / 2)
        step = decide_step(state, levels, run, Scale.RATIO, side, rule, 0.25)
        state, events = step.state, [*events, step.evidence.event]
    assert (SeriesEvent.OPENED in events) is is_paged


def test_advance_series__a_rise_of_a_cost_opens_an_incident() -> None:
    series = Series(PagePolicy(0.25, 0.015, falls_harm=False))
    series.add_around(0.2, 20)
    evidence = series.add(0.5)
    assert evidence.event is SeriesEvent.OPENED
    assert evidence.effect == pytest.approx(0.3, abs=0.03)
    assert evidence.level == pytest.approx(0.5)


def test_advance_series__five_good_runs_close_the_incident_and_four_do_not() -> None:
    series = firing()
    level = reference_level(series)
    series.add(*[level] * 4)
    assert series.is_open()
    assert series.add(level).event is SeriesEvent.RESOLVED
    # The bad run was no chance: it stays outside of the reference.
    assert series.state.reference == (*range(1, 21), *range(22, 27))


@pytest.mark.parametrize(("below", "is_open"), [(0.9, False), (1.1, True)])
def test_advance_series__recovered_runs_are_within_one_standard_error(
    below: float, is_open: bool
) -> None:
    series = firing()
    series.add(*[reference_level(series, below)] * 5)
    assert series.is_open() is is_open


def test_advance_series__runs_nearer_to_the_bad_level_are_no_recovery() -> None:
    """After three runs the level before is so uncertain that one standard error reaches the bad level."""
    series = Series(POLICY._replace(false_pages_per_month=2.0))
    series.item_noise = 0.06**2
    series.add(0.9, 0.9, 0.9, 0.6)
    assert series.is_open()
    [bad] = series.state.incident.level_runs if series.state.incident else ()
    series.levels[bad] = RunLevel(bad, 0.88, series.item_noise)
    series.add(*[0.889] * 5)
    assert series.is_open()
    series.add(*[0.895] * 5)
    assert not series.is_open()


def test_advance_series__a_second_fall_opens_another_incident() -> None:
    series = firing()
    series.add_around(0.8, 12)
    assert not series.is_open()
    limits = {evidence.limit for evidence in series.evidence}
    assert series.add(0.5).event is SeriesEvent.OPENED
    # One limit, for the first and for every later incident.
    assert limits == {limit_of(0.25)}


def test_advance_series__an_incident_that_may_be_chance_returns_to_the_reference() -> None:
    """Without its run, the series would look quieter than it is."""
    series = Series()
    series.add_around(0.8, 20)
    opened = series.add(0.71)
    assert opened.event is SeriesEvent.OPENED
    assert opened.limit < (opened.z or 0) < 4.5
    series.add(*[reference_level(series)] * 5)
    assert not series.is_open()
    assert series.state.reference == tuple(range(1, 27))
    # No window reaches into the incident, which would open it again.
    assert series.state.returned == (21,)
    assert series.add(0.78).width == 1


def test_advance_series__bad_runs_do_not_close_the_incident_and_stay_outside_the_reference() -> (
    None
):
    series = firing()
    series.add_around(0.5, 40)
    assert series.evidence[-1].status is SeriesStatus.FIRING
    assert max(series.state.reference) == 20
    assert series.events()[1:] == []


def test_advance_series__keep_firing_counts_runs_with_evidence_of_recovery() -> None:
    series = firing()
    series.policy = POLICY._replace(keep_firing_for_runs=2)
    series.add(*[reference_level(series)] * 6)
    assert series.is_open()
    assert series.add(reference_level(series)).event is SeriesEvent.RESOLVED


def test_advance_series__a_further_fall_is_worse() -> None:
    series = firing()
    series.add_around(0.5, 6)
    evidence = series.add(0.2)
    assert evidence.event is SeriesEvent.WORSE
    assert evidence.since == 21


def test_advance_series__a_partial_recovery_takes_several_runs_and_pages_nobody() -> None:
    series = firing()
    series.add_around(0.5, 6)
    series.add_around(0.68, 4)
    assert series.events()[1:] == []
    series.add_around(0.68, 4)
    events = [event for _, event in series.events()[1:]]
    assert events == [SeriesEvent.PARTLY_BACK]
    assert not SeriesEvent.PARTLY_BACK.pages


def test_advance_series__several_better_runs_start_a_new_reference_and_one_does_not() -> None:
    series = Series()
    series.add_around(0.6, 20)
    series.add_around(0.9, 4)
    assert series.events() == []
    series.add_around(0.9, 1)
    assert series.events()[0][1] is SeriesEvent.IMPROVED
    # Back on the old level is a fall now.
    series.add(0.6)
    assert series.events()[-1] == (26, SeriesEvent.OPENED)


def test_advance_series__a_long_incident_without_its_first_runs_is_closed() -> None:
    series = firing()
    series.add_around(0.5, MAX_INCIDENT_RUNS)
    assert series.state.incident is not None
    assert 21 not in series.state.incident.runs
    series.add(*[reference_level(series)] * 5)
    assert not series.is_open()


def test_advance_series__a_reference_without_common_items_ends_the_incident() -> None:
    series = firing()
    series.levels = {run: level for run, level in series.levels.items() if run > 20}
    series.levels[22] = RunLevel(22, 0.5, NOISE**2)
    step = advance_series(series.state, series.levels, 22, POLICY)
    assert step.evidence.event is SeriesEvent.REFERENCE_LOST
    assert step.state.reference == (21, 22)
    assert step.state.incident is None


def test_advance_series__a_second_collapse_after_few_runs_pages_like_the_first() -> None:
    series = Series()
    # The noise of 37 items: five runs say little.
    series.item_noise = 0.06**2
    series.add(0.91, 0.92, 0.9, 0.93, 0.91)
    assert series.add(0.5).event is SeriesEvent.OPENED
    series.add(0.91, 0.92, 0.9, 0.93, 0.91)
    assert not series.is_open()
    assert series.add(0.5).event is SeriesEvent.OPENED


def test_advance_series__one_item_that_fails_once_does_not_page() -> None:
    """Ten items that nearly always pass: one failure is 10 points, and no evidence; two in one run are."""
    for failures, is_open in ((1, False), (2, True)):
        # Of ten items one failure has a variance of (1 - 1/10) / (10 · 9) / 2.
        noise = failures * (10 - failures) / 10 / 90 / 2
        levels = {run: RunLevel(run, 1.0, 0.0, 10.0) for run in range(1, 31)}
        levels[30] = RunLevel(30, 1 - failures / 10, noise, 10.0, grain=0.1)
        state = SeriesState(reference=tuple(range(1, 30)))
        step = advance_series(state, levels, 30, POLICY)
        assert (step.state.incident is not None) is is_open


@pytest.mark.parametrize(("good_runs", "size"), [(4, 0.2), (6, 0.15)])
def test_advance_series__a_drop_in_the_first_runs_pages(good_runs: int, size: float) -> None:
    """Not to page it would make it a part of its own reference."""
    is_paged = []
    for seed in range(60):
        noise, series = random.Random(seed), Series()
        series.item_noise = 0.06**2
        for level, runs in ((0.9, good_runs), (0.9 - size, 20)):
            series.add(*(level + noise.gauss(0, 0.065) for _ in range(runs)))
        is_paged.append(SeriesEvent.OPENED in dict(series.events()).values())
    assert sum(is_paged) >= 0.7 * len(is_paged)


def test_series_state__of_version_1_is_read() -> None:
    """Its earlier levels told only how runs vary; noise stood before older runs, where no window had it."""
    incident = {"started": 9, "opened": 9, "runs": [9], "levelRuns": [9]}
    stored = {"version": 1, "levels": [[1, 2], [5, 3, 4]], "incident": incident, "recoveries": [2]}
    state = SeriesState.model_validate(stored)
    assert (state.version, state.reference, state.returned) == (2, (3, 4, 5), (5,))
    assert state.incident is not None
    assert SeriesState.model_validate_json(state.model_dump_json()) == state
