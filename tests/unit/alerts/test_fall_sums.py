"""The cumulative sum of the falls of single runs."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaico.alerts.evaluation.fall_sums import (
    MAX_RUNS,
    SLACK,
    SLACK_OF_CORRELATION,
    score_sum_of_falls,
)
from mosaico.alerts.evaluation.incident_rules import advance_series, return_runs
from mosaico.alerts.evaluation.series_evidence import PagePolicy
from mosaico.kpis.series_types import OpenIncident, RunsEvidence, SeriesEvent, SeriesState
from mosaico.statistics.sequential import (
    RunLevel,
    estimate_spread,
    scan_levels,
    score_of_sum,
)

PRIOR_SD = 0.03
POLICY = PagePolicy(false_pages_per_month=0.25, prior_sd=PRIOR_SD)


def levels_of(*levels: float, noise: float = 0.0001, first: int = 1) -> list[RunLevel]:
    return [RunLevel(run, level, noise) for run, level in enumerate(levels, start=first)]


def sum_of(levels: Sequence[RunLevel]) -> float:
    return score_sum_of_falls(levels, prior_sd=PRIOR_SD)


def score_alone(levels: Sequence[RunLevel]) -> float:
    """The score of the last run against those before it."""
    fall = scan_levels(levels, prior_sd=PRIOR_SD, windows=(1,)).fall
    assert fall is not None
    return fall.z


def sum_by_hand(levels: Sequence[RunLevel], after: int) -> float:
    """The z of the sum of the scores after so many runs."""
    correlation = estimate_spread(levels[:-1], prior_sd=PRIOR_SD).correlation
    total = 0.0
    for end in range(after, len(levels)):
        score = score_alone(levels[: end + 1]) - SLACK - SLACK_OF_CORRELATION * correlation
        total = max(0.0, total + score)
    return score_of_sum(total)


def test_score_sum_of_falls__one_run_by_hand() -> None:
    # Variance of a run: 5 · 0.03² / 6 = 0.00075; t = 0.03 / √(0.00075 · 1.5) = 0.8944 with 6 degrees of
    # freedom, as a normal quantile 49/51 · √(6 · ln(1 + 0.8944² / 6)) = 0.8326. Of the sum of 5.9 that has
    # a z of 3.06, 0.8326 − 0.25 is 0.0987, with the root 0.3142.
    assert sum_of(levels_of(0.8, 0.8, 0.77, noise=0.0)) == pytest.approx(3.06 * 0.3142, abs=1e-3)


def test_score_sum_of_falls__adds_up_the_scores_since_it_left_zero() -> None:
    levels = levels_of(0.8, 0.81, 0.79, 0.82, 0.84, 0.77, 0.78, 0.76)
    assert sum_of(levels[:5]) == 0.0
    scores = [score_alone(levels[: end + 1]) - SLACK for end in range(5, 8)]
    assert sum_of(levels) == pytest.approx(score_of_sum(sum(scores)))


def test_score_sum_of_falls__is_zero_without_a_fall() -> None:
    assert sum_of([]) == 0.0
    assert sum_of(levels_of(0.8, 0.7)) == 0.0
    assert sum_of(levels_of(0.8, 0.8, 0.8)) == 0.0
    assert sum_of(levels_of(0.8, 0.8, 0.8, 0.9)) == 0.0


def test_score_sum_of_falls__correlated_runs_have_a_larger_slack() -> None:
    chance = random.Random(1)
    noises = [chance.gauss(0, 0.02) for _ in range(50)]
    waves = [0.03 if run % 10 < 5 else -0.03 for run in range(50)]
    levels = levels_of(
        *[0.8 + noise + wave for noise, wave in zip(noises, waves, strict=True)], 0.7
    )
    assert estimate_spread(levels[:-1], prior_sd=PRIOR_SD).correlation > 0.3
    assert sum_of(levels) > 0.0
    assert sum_of(levels) == pytest.approx(sum_by_hand(levels, after=len(levels) - MAX_RUNS))


def small_fall(seed: int, size: float = 0.025) -> dict[int, RunLevel]:
    """30 ordinary runs with a standard deviation of 0.02, and 30 runs that are `size` worse."""
    chance = random.Random(seed)
    return {
        run: RunLevel(run, 0.8 - (size if run > 30 else 0.0) + chance.gauss(0, 0.02), 0.0002)
        for run in range(1, 61)
    }


def paged_run(levels: dict[int, RunLevel], policy: PagePolicy) -> tuple[int, RunsEvidence] | None:
    state = SeriesState()
    for run in levels:
        state, evidence = advance_series(state, levels, run, policy)
        if evidence.event is SeriesEvent.OPENED:
            return run, evidence
    return None


def test_advance_series__a_small_lasting_fall_pages_by_the_sum_and_is_dated_by_the_window() -> None:
    levels = small_fall(seed=13)
    page = paged_run(levels, POLICY)
    assert page is not None
    run, evidence = page
    assert run > 30
    window = scan_levels(list(levels.values())[:run], prior_sd=PRIOR_SD).fall
    assert window is not None
    assert evidence.z is not None
    assert window.z < evidence.limit < evidence.z
    assert evidence.z == sum_of(list(levels.values())[:run])
    assert (evidence.width, evidence.effect) == (window.width, window.effect)
    assert evidence.since == run + 1 - window.width == 31


def test_advance_series__no_sum_pages_a_fall_below_the_minimum_effect() -> None:
    levels = small_fall(seed=13)
    assert paged_run(levels, POLICY) is not None
    assert paged_run(levels, POLICY._replace(min_effect=0.2)) is None


def test_score_sum_of_falls__runs_that_returned_as_noise_are_in_no_sum() -> None:
    levels = {run.run: run for run in levels_of(*[0.8, 0.81] * 6, *[0.5] * 3, 0.7, 0.7)}
    state = SeriesState(
        levels=(tuple(range(1, 13)),),
        incident=OpenIncident(started=13, opened=13, runs=(13, 14, 15), level_runs=(13,)),
    )
    [reference] = return_runs(state).levels
    assert reference[:6] == (13, 1, 14, 2, 15, 3)
    runs = [levels[run] for run in (*reference, 16, 17)]
    assert sum_of(runs) > 0.0
    # The last run that returned is at index 4: the sum begins behind it.
    assert sum_of(runs) == pytest.approx(sum_by_hand(runs, after=5))


LEVELS = st.lists(st.floats(0, 1), min_size=3, max_size=50)


@settings(deadline=None, max_examples=60)
@given(LEVELS, st.lists(st.floats(-5, 1), min_size=3, max_size=20))
def test_score_sum_of_falls__noise_never_enters(ordinary: list[float], noise: list[float]) -> None:
    """Of runs that stand out of order, nothing but their mean and their spread matters."""
    runs = levels_of(*ordinary)
    # Runs of noise return to the front of a reference, before runs with smaller numbers.
    disorder = levels_of(*noise, first=1000)
    scores = [score_alone([*disorder, *runs[: end + 1]]) for end in range(len(runs))]
    largest = score_of_sum(sum(max(0.0, score - SLACK) for score in scores[-MAX_RUNS:]))
    assert sum_of([*disorder, *runs]) <= largest + 1e-9


@settings(deadline=None, max_examples=60)
# Powers of two change the unit without rounding.
@given(LEVELS, st.sampled_from((0.25, 0.5, 2.0, 1024.0)), st.floats(-1, 1))
def test_score_sum_of_falls__the_unit_and_the_level_do_not_matter(
    levels: list[float], unit: float, shift: float
) -> None:
    rounded = [round(level, 3) for level in levels]
    converted = levels_of(*[unit * (level + shift) for level in rounded], noise=0.0001 * unit**2)
    other = score_sum_of_falls(converted, prior_sd=PRIOR_SD * unit)
    # The square of z is the sum, which may be a rounding error beside zero.
    assert sum_of(levels_of(*rounded)) ** 2 == pytest.approx(other**2, rel=1e-6, abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(LEVELS, st.floats(0.001, 1))
def test_score_sum_of_falls__a_lower_last_run_never_lowers_it(
    levels: list[float], further: float
) -> None:
    runs = levels_of(*levels)
    lower = [*runs[:-1], runs[-1]._replace(level=runs[-1].level - further)]
    assert sum_of(lower) >= sum_of(runs)
