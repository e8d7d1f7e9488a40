"""The states of a series: each can be left by data."""

import random

import pytest

from mosaico.alerts.evaluation.incident_rules import MAX_INCIDENT_RUNS, advance_series
from mosaico.alerts.evaluation.series_evidence import PagePolicy
from mosaico.kpis.series_types import OpenIncident, SeriesEvent, SeriesState, SeriesStatus
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel, limit_of
from tests.unit.alerts.incident_series import (
    NOISE,
    POLICY,
    Series,
    firing,
    recovered_from_a_small_fall,
    reference_level,
)


def test_advance_series__the_first_runs_are_warmup() -> None:
    series = Series()
    assert series.add(0.8).status is SeriesStatus.WARMUP
    assert series.add(0.8).status is SeriesStatus.WARMUP
    assert series.add(0.8).status is SeriesStatus.OK


def test_advance_series__a_large_fall_opens_an_incident_and_is_dated() -> None:
    series = firing()
    evidence = series.evidence[-1]
    assert evidence.event is SeriesEvent.OPENED
    assert (evidence.width, evidence.reference, evidence.since) == (1, 20, 21)
    assert evidence.effect == pytest.approx(-0.3, abs=0.03)
    assert evidence.low is not None
    assert evidence.high is not None
    assert -0.5 < evidence.low < evidence.high < 0
    assert 21 not in series.state.levels[-1]


def test_advance_series__a_rise_of_a_cost_opens_an_incident() -> None:
    series = Series(PagePolicy(0.25, 0.03, falls_harm=False))
    series.add_around(0.2, 20)
    evidence = series.add(0.5)
    assert evidence.event is SeriesEvent.OPENED
    assert evidence.effect == pytest.approx(0.3, abs=0.03)
    assert evidence.level == pytest.approx(0.5)


def test_advance_series__recovery_closes_the_incident_and_a_second_fall_opens_another() -> None:
    series = firing()
    series.add_around(0.8, 3)
    assert series.events()[-1][1] is SeriesEvent.RESOLVED
    assert not series.is_open()
    series.add_around(0.8, 5)
    assert series.add(0.5).event is SeriesEvent.OPENED


def test_advance_series__bad_runs_do_not_close_the_incident_and_stay_outside_the_reference() -> (
    None
):
    series = firing()
    series.add_around(0.5, 40)
    assert series.evidence[-1].status is SeriesStatus.FIRING
    assert max(series.state.levels[-1]) == 20
    assert series.events()[1:] == []


def test_advance_series__keep_firing_counts_runs_with_evidence_of_recovery() -> None:
    series = firing()
    series.policy = POLICY._replace(keep_firing_for_runs=2)
    series.add(0.8, 0.8)
    assert series.is_open()
    assert series.add(0.8).event is SeriesEvent.RESOLVED


def test_advance_series__a_further_fall_is_worse() -> None:
    series = firing()
    series.add_around(0.5, 6)
    evidence = series.add(0.2)
    assert evidence.event is SeriesEvent.WORSE
    assert evidence.since == 21


def test_advance_series__recovery_from_a_further_fall_is_seen_when_the_first_one_was_chance() -> (
    None
):
    series = Series()
    series.add_around(0.8, 20)
    series.add_around(0.78, 12)
    chance = tuple(range(21, 33))
    series.state = SeriesState(
        levels=(tuple(range(1, 21)),),
        incident=OpenIncident(started=21, opened=22, runs=chance, level_runs=(21, 22)),
    )
    assert series.add_around(0.65, 3).status is SeriesStatus.FIRING
    assert SeriesEvent.WORSE in dict(series.events()).values()
    series.add_around(0.8, 3)
    assert not series.is_open()


def test_advance_series__a_partial_recovery_pages_nobody() -> None:
    series = firing()
    series.add_around(0.5, 6)
    series.add_around(0.68, 6)
    events = [event for _, event in series.events()[1:]]
    assert events == [SeriesEvent.PARTLY_BACK]
    assert not SeriesEvent.PARTLY_BACK.pages


def test_advance_series__a_rise_starts_a_new_reference() -> None:
    series = Series()
    series.add_around(0.6, 20)
    series.add_around(0.9, 4)
    assert series.events()[0][1] is SeriesEvent.IMPROVED
    # Back on the old level is a fall now.
    series.add(0.6)
    assert series.events()[-1] == (25, SeriesEvent.OPENED)


def test_advance_series__an_incident_that_may_be_chance_takes_a_part_of_the_promise() -> None:
    series = recovered_from_a_small_fall()
    # RECOVERY_PARTS: the incident takes six parts, and one is left for the next page.
    assert series.add_around(0.8, 1).limit == limit_of(0.25 / 7)
    series.add_around(0.8, MAX_REFERENCE)
    # The reference has no run from before the incident any more.
    assert series.evidence[-1].limit == limit_of(0.25)


def test_advance_series__an_incident_that_was_no_chance_leaves_the_promise_as_it_is() -> None:
    series = firing()
    series.add_around(0.8, 3)
    assert not series.is_open()
    assert series.add_around(0.8, 1).limit == limit_of(0.25)


def test_advance_series__a_long_incident_without_its_first_runs_is_closed() -> None:
    """The runs that paged are 60 runs ago: none of those that are left is bad."""
    series = Series()
    series.add_around(0.8, 20)
    series.add(0.5)
    incident = series.state.incident
    assert incident is not None
    last = 22 + MAX_INCIDENT_RUNS
    for run in range(22, last):
        # The last 14 alone are not clean; all together are as good as the runs before the incident.
        series.levels[run] = RunLevel(run, 0.803 if run < last - 14 else 0.789, NOISE**2 / 2)
    runs = tuple(range(22, last))
    series.state = series.state.model_copy(
        update={"incident": incident.model_copy(update={"runs": runs})}
    )
    assert series.add(0.789).event is SeriesEvent.RESOLVED
    assert not series.is_open()


def test_advance_series__runs_that_paged_are_no_level_to_rise_from() -> None:
    """Two good runs are evidence of recovery after two bad runs, and not yet after one."""
    is_open = []
    for bad_runs in (1, 2):
        series = Series()
        series.add_around(0.8, 20)
        series.add(*[0.69] * bad_runs)
        assert series.is_open()
        series.add(0.8, 0.8)
        is_open.append(series.is_open())
    assert is_open == [True, False]


def test_advance_series__a_rise_is_measured_with_the_noise_of_bad_runs() -> None:
    """Runs that vary more when they are bad rise as far without a recovery."""
    is_open = []
    for factor in (1, 4):
        series = Series()
        series.add_around(0.8, 20)
        series.item_noise *= factor
        series.add(*[0.73] * 10)
        assert series.is_open()
        series.add(0.79, 0.79, 0.79)
        is_open.append(series.is_open())
    assert is_open == [False, True]


def test_advance_series__a_run_whose_interval_has_the_old_level_is_a_recovery() -> None:
    """Far above the bad runs, a run may lie up to 1.96 standard errors below the runs before those."""
    for below, is_open in ((1.8, False), (2.1, True)):
        series = Series()
        series.add_around(0.8, 40)
        level = reference_level(series, below=below, runs=1)
        series.add(*[0.5] * 10)
        series.add(level)
        assert series.is_open() is is_open


def test_advance_series__ten_runs_together_end_an_incident_of_a_small_fall() -> None:
    """Fewer are too few to tell so small a rise from chance."""
    series = Series()
    series.add_around(0.8, 40)
    series.add(*[0.761] * 20)
    series.add(*[0.792] * 9)
    assert series.is_open()
    series.add(0.792)
    assert not series.is_open()


def test_advance_series__a_reference_without_common_items_ends_the_incident() -> None:
    series = firing()
    series.levels = {run: level for run, level in series.levels.items() if run > 20}
    series.levels[22] = RunLevel(22, 0.5, NOISE**2)
    step = advance_series(series.state, series.levels, 22, POLICY)
    assert step.evidence.event is SeriesEvent.REFERENCE_LOST
    assert step.state.levels == ((21, 22),)
    assert step.state.incident is None


def test_advance_series__a_second_collapse_after_few_runs_pages_like_the_first() -> None:
    series = Series()
    # The noise of 37 items: five runs say little.
    series.item_noise = 0.06**2
    series.add(0.91, 0.92, 0.9, 0.93, 0.91)
    assert series.add(0.5).event is SeriesEvent.OPENED
    series.add(0.91, 0.92, 0.9)
    assert not series.is_open()
    assert series.add(0.5).event is SeriesEvent.OPENED


@pytest.mark.parametrize("good_runs", [8, 20])
def test_advance_series__a_second_drop_after_a_short_incident_pages(good_runs: int) -> None:
    is_paged = []
    for seed in range(40):
        noise, series = random.Random(seed), Series()
        series.item_noise = 0.06**2
        for level, runs in ((0.9, good_runs), (0.7, 4), (0.9, 6)):
            series.add(*(level + noise.gauss(0, 0.067) for _ in range(runs)))
        if SeriesEvent.OPENED in dict(series.events()).values() and not series.is_open():
            series.add(*(0.7 + noise.gauss(0, 0.067) for _ in range(5)))
            is_paged.append(series.events()[-1][0] > good_runs + 10)
    assert len(is_paged) >= 20
    assert sum(is_paged) >= 0.85 * len(is_paged)


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
    assert sum(is_paged) >= 0.87 * len(is_paged)
