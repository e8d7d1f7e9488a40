"""The states of a series: each can be left by data."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.alerts.evaluation.incident_rules import (
    MAX_INCIDENT_RUNS,
    accept_level,
    advance_series,
    return_runs,
    with_noise,
    without_noise,
)
from app.alerts.evaluation.series_evidence import (
    PagePolicy,
    SeriesView,
    mean_level,
    variance_of_mean,
)
from app.kpis.series_types import OpenIncident, RunsEvidence, SeriesEvent, SeriesState, SeriesStatus
from app.statistics.sequential import MAX_REFERENCE, RunLevel, estimate_spread, limit_of

POLICY = PagePolicy(false_pages_per_month=0.25, prior_sd=0.03)
NOISE = 0.02


class Series:
    """A series that is advanced run by run."""

    def __init__(self, policy: PagePolicy = POLICY, seed: int = 1) -> None:
        self.policy = policy
        self.random = random.Random(seed)
        # Half of the scatter is that of the items.
        self.item_noise = NOISE**2 / 2
        self.levels: dict[int, RunLevel] = {}
        self.state = SeriesState()
        self.evidence: list[RunsEvidence] = []

    def add(self, *levels: float) -> RunsEvidence:
        for level in levels:
            run = len(self.levels) + 1
            self.levels[run] = RunLevel(run, level, self.item_noise if run > 1 else None)
            step = advance_series(self.state, self.levels, run, self.policy)
            # Between two runs the state is JSON in a row of the database.
            self.state = SeriesState.model_validate_json(step.state.model_dump_json())
            self.evidence.append(step.evidence)
        return self.evidence[-1]

    def add_around(self, level: float, runs: int) -> RunsEvidence:
        for _ in range(runs):
            self.add(level + self.random.gauss(0, NOISE))
        return self.evidence[-1]

    def is_open(self) -> bool:
        return self.state.incident is not None

    def events(self) -> list[tuple[int, SeriesEvent]]:
        return [(run, ev.event) for run, ev in enumerate(self.evidence, 1) if ev.event]


def firing(seed: int = 1) -> Series:
    series = Series(seed=seed)
    series.add_around(0.8, 20)
    series.add(0.5)
    assert series.is_open()
    return series


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


def recovered_from_a_small_fall() -> Series:
    """An incident that may have been chance: a run just beyond the limit, and runs as before it."""
    series = Series()
    series.add_around(0.8, 20)
    assert 3.06 < (series.add(0.69).z or 0) < 4.4
    assert series.is_open()
    series.add_around(0.8, 6)
    assert not series.is_open()
    return series


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


def test_with_noise__of_an_incident_that_recovered_gives_its_part_of_the_promise_back() -> None:
    series = recovered_from_a_small_fall()
    last = len(series.levels)
    series.state = with_noise(series.state, range(21, last + 1))
    assert 21 in series.state.levels[-1]
    assert series.add_around(0.8, 1).limit == limit_of(0.25)


def test_accept_level__the_incident_becomes_the_reference() -> None:
    series = firing()
    series.add_around(0.5, 6)
    series.state = accept_level(series.state)
    assert series.state.levels[-1] == tuple(range(21, 28))
    assert series.add_around(0.5, 10).status is SeriesStatus.OK
    assert series.add(0.25).event is SeriesEvent.OPENED


def test_return_runs__noise_joins_the_reference() -> None:
    series = firing()
    series.state = return_runs(series.state)
    assert not series.is_open()
    # As the oldest runs: no window of last runs finds the same incident again.
    assert series.state.levels[-1] == (21, *range(1, 21))


@pytest.mark.parametrize("noise_count", [1, 3, 9])
def test_without_noise__takes_back_what_with_noise_did(noise_count: int) -> None:
    """Also after further runs; ordinary runs and recovered runs of the incident stay."""
    state = SeriesState(levels=((1, 2), (3, 4, 5, 6)))
    noise = range(7, 7 + noise_count)
    mixed = with_noise(state, noise)
    assert {run for level in mixed.levels for run in level} >= {*noise}
    assert without_noise(mixed, noise) == state
    later = mixed.model_copy(update={"levels": (*mixed.levels[:-1], (*mixed.levels[-1], 30, 31))})
    assert without_noise(later, [*noise, 30]).levels == ((1, 2), (3, 4, 5, 6, 30, 31))
    # Another incident stays noise.
    assert without_noise(mixed, [99]) == mixed
    assert without_noise(SeriesState(), [1]) == SeriesState()


@pytest.mark.parametrize("has_one_answer", [True, False])
@pytest.mark.parametrize("noise_runs", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_return_runs__a_lasting_fall_of_the_size_of_the_noise_pages(
    noise_runs: int, has_one_answer: bool, seed: int
) -> None:
    series = Series(seed=seed)
    series.add_around(0.8, 12)
    for _ in range(noise_runs):
        series.add_around(0.5, 1)
        if not has_one_answer:
            series.state = return_runs(series.state)
    series.state = return_runs(series.state)
    series.add_around(0.8, 3)
    assert not series.is_open()
    series.add_around(0.5, noise_runs + 1)
    assert series.is_open()


def test_return_runs__more_noise_than_other_runs_stays_before_them() -> None:
    state = SeriesState(
        levels=((5, 1, 2),),
        incident=OpenIncident(started=6, opened=6, runs=(6, 7, 8), level_runs=(6,)),
    )
    assert return_runs(state).levels == ((5, 6, 7, 1, 8, 2),)


def test_accept_level__without_an_incident_nothing_changes() -> None:
    series = Series()
    series.add_around(0.8, 3)
    assert accept_level(series.state) == return_runs(series.state) == series.state


def test_advance_series__a_reference_without_common_items_ends_the_incident() -> None:
    series = firing()
    series.levels = {run: level for run, level in series.levels.items() if run > 20}
    series.levels[22] = RunLevel(22, 0.5, NOISE**2)
    step = advance_series(series.state, series.levels, 22, POLICY)
    assert step.evidence.event is SeriesEvent.REFERENCE_LOST
    assert step.state.levels == ((21, 22),)
    assert step.state.incident is None


LEVELS = st.lists(st.floats(0, 1), min_size=1, max_size=60)


# Half of the runs get no answer, or no incident would last.
ANSWERS = st.sampled_from((None, None, accept_level, return_runs))


Answers = Callable[[SeriesState], SeriesState] | None
HISTORY = st.lists(st.tuples(st.floats(0, 1), ANSWERS), min_size=1, max_size=60)


def after(history: list[tuple[float, Answers]], keep_firing: int) -> Series:
    series = Series(POLICY._replace(keep_firing_for_runs=keep_firing))
    for level, answer in history:
        series.add(level)
        if answer is not None:
            series.state = answer(series.state)
    return series


def reference_level(series: Series, below: float = 0.0, runs: int = 14) -> float:
    """The mean of the reference, or so many standard errors of the mean of `runs` below it."""
    view = SeriesView(series.levels, POLICY)
    *earlier, current = (
        [run for run in level if run in series.levels] for level in series.state.levels
    )
    reference = view.of(current)
    spread = estimate_spread(
        reference, prior_sd=POLICY.prior_sd, earlier=[view.of(level) for level in earlier]
    )._replace(widening=1.0)
    latest = [RunLevel(0, 0.0, NOISE**2 / 2)] * runs
    error = math.sqrt(variance_of_mean(latest, spread) + variance_of_mean(reference, spread))
    return mean_level(reference) - below * error


ORDINARY = st.lists(st.tuples(st.floats(0.6, 1), ANSWERS), min_size=3, max_size=40)
BAD = st.lists(st.tuples(st.floats(0, 0.7), st.none()), min_size=1, max_size=30)


@settings(deadline=None, max_examples=100)
# 0.9 is within CLEAN_Z, one standard error: such runs count as recovered.
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
    level = reference_level(series, below)
    # CLEAN_RUNS end it at the latest; the others are for `keep_firing` and for a second incident.
    series.add(*[level] * (14 + 3 * keep_firing + 14))
    assert SeriesEvent.RESOLVED in dict(series.events()[-3:]).values()
    assert not series.is_open()


@settings(deadline=None, max_examples=25)
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


@settings(deadline=None, max_examples=60)
@given(LEVELS)
def test_advance_series__the_state_is_bounded_and_its_runs_are_disjoint(
    levels: list[float],
) -> None:
    series = Series()
    series.add(*levels * 3)
    reference_runs = [run for level in series.state.levels for run in level]
    assert len(reference_runs) == len(set(reference_runs)) <= MAX_REFERENCE
    if series.state.incident is not None:
        assert not set(reference_runs) & set(series.state.incident.runs)


@settings(deadline=None, max_examples=60)
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
