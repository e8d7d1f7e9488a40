"""Properties of a series after any history: each state can be left by data."""

import random
from collections.abc import Callable

from hypothesis import assume, given
from hypothesis import strategies as st

from mosaico.alerts.evaluation.incident_rules import accept_level, advance_series, return_runs
from mosaico.alerts.evaluation.series_evidence import SeriesView
from mosaico.kpis.series_types import SeriesEvent, SeriesState, SeriesStatus
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel
from tests.unit.alerts.incident_series import NOISE, POLICY, Series, reference_level

LEVELS = st.lists(st.floats(0, 1), min_size=1, max_size=60)
# Half of the runs get no answer, or no incident would last.
ANSWERS = st.sampled_from((None, None, accept_level, return_runs))
Answers = Callable[[SeriesState], SeriesState] | None
HISTORY = st.lists(st.tuples(st.floats(0, 1), ANSWERS), min_size=1, max_size=60)
ORDINARY = st.lists(st.tuples(st.floats(0.6, 1), ANSWERS), min_size=3, max_size=40)
BAD = st.lists(st.tuples(st.floats(0, 0.7), st.none()), min_size=1, max_size=30)


def after(history: list[tuple[float, Answers]], keep_firing: int) -> Series:
    series = Series(POLICY._replace(keep_firing_for_runs=keep_firing))
    for level, answer in history:
        series.add(level)
        if answer is not None:
            series.state = answer(series.state)
    return series


# 0.9 is within one standard error: such runs count as recovered.
@given(ORDINARY, BAD, st.integers(0, 3), st.sampled_from((0.0, 0.9)))
def test_advance_series__every_incident_is_left_at_its_reference_and_within_the_margin(
    ordinary: list[tuple[float, Answers]],
    bad: list[tuple[float, Answers]],
    keep_firing: int,
    below: float,
) -> None:
    """Recovered runs are hardly ever better than those before the incident."""
    series = after([*ordinary, *bad], keep_firing)
    assume(series.is_open())
    assert series.state.incident is not None
    view = SeriesView(series.levels, series.policy)
    # Of a reference that is very uncertain, one standard error may reach the bad level.
    depth = view.mean(series.state.reference) - view.mean(series.state.incident.runs)
    level = max(reference_level(series, below), reference_level(series) - max(0.0, 0.1 * depth))
    # Later the same level without any noise may page as a small lasting fall.
    # A partial recovery needs five runs after it, too.
    for _ in range(10 + keep_firing):
        if series.is_open():
            series.add(level)
    assert not series.is_open()
    assert SeriesEvent.RESOLVED in dict(series.events()[-1:]).values()


@given(HISTORY, st.integers(0, 3))
def test_advance_series__every_state_is_left(
    history: list[tuple[float, Answers]], keep_firing: int
) -> None:
    """After any history and any answers to it, good runs end in OK and then a collapse opens an
    incident.
    """
    series = after(history, keep_firing)
    series.add_around(1.5, 60)
    assert not series.is_open()
    assert series.evidence[-1].status is SeriesStatus.OK
    series.add_around(-3.0, 8)
    assert series.is_open()
    series.add_around(1.5, 60)
    assert not series.is_open()


@given(LEVELS)
def test_advance_series__the_state_is_bounded_and_its_runs_are_disjoint(
    levels: list[float],
) -> None:
    series = Series()
    series.add(*levels * 3)
    reference_runs = series.state.reference
    assert len(reference_runs) == len(set(reference_runs)) <= MAX_REFERENCE
    if series.state.incident is not None:
        assert not set(reference_runs) & set(series.state.incident.runs)


@given(LEVELS, st.randoms())
def test_advance_series__runs_that_disappear_leave_the_state(
    levels: list[float], chance: random.Random
) -> None:
    series = Series()
    for level in levels:
        series.add(level)
        gone = {run for run in series.levels if chance.random() < 0.1}
        run = len(series.levels)
        present = {seq: level for seq, level in series.levels.items() if seq not in gone}
        present[run + 1000] = RunLevel(run + 1000, 0.5, NOISE**2)
        step = advance_series(series.state, present, run + 1000, POLICY)
        assert step.state.runs <= present.keys()
