"""Evidence over several runs."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.sequential import (
    DEFAULT_LIMIT,
    DEFAULT_SUM,
    RunLevel,
    Scan,
    WindowScore,
    estimate_spread,
    limit_of,
    scan_levels,
    score_of_sum,
    score_runs,
    to_normal,
)
from tests.support.references import Reference

stats = Reference("scipy.stats")


def scan(levels: Sequence[RunLevel], **options: Any) -> WindowScore:
    """The strongest evidence for a fall."""
    fall = scan_levels(levels, prior_sd=0.03, **options).fall
    assert fall is not None
    return fall


def levels_of(*levels: float, noise: float = 0.0001, traces: float = 1.0) -> list[RunLevel]:
    return [
        RunLevel(run, level, noise if run else None, traces) for run, level in enumerate(levels)
    ]


def test_scan_levels__two_reference_runs_are_needed() -> None:
    assert scan_levels([], prior_sd=0.03) == Scan()
    assert scan_levels(levels_of(0.8, 0.7), prior_sd=0.03) == Scan()
    assert scan_levels(levels_of(0.8, 0.8, 0.7), prior_sd=0.03).fall is not None


def test_scan_levels__numbers_by_hand() -> None:
    fall = scan(levels_of(0.8, 0.8, 0.6, noise=0.0001))
    # Between runs: (5 · (0.0001 + 0.0009) + 0) / (5 + 2 − 1) = 0.005 / 6.
    variance = 0.005 / 6
    error = math.sqrt(variance * (1 + 1 / 2))
    assert (fall.width, fall.reference) == (1, 2)
    assert fall.effect == pytest.approx(-0.2)
    assert fall.standard_error == pytest.approx(error)
    # Satterthwaite: 6 · min(variance / (variance − 0.0001), 2)².
    assert fall.degrees == pytest.approx(6 * (variance / (variance - 0.0001)) ** 2)


def test_scan_levels__runs_of_a_window_vary_about_their_own_mean() -> None:
    fall = scan(levels_of(0.8, 0.8, 0.8, 0.8, 0.7, 0.6, noise=0.0001), windows=(2,))
    # The squares of the window are 2 · 0.05², with one degree of freedom; those of the reference are zero, with three.
    variance = (5 * (0.0001 + 0.0009) + 0.005) / (5 + 3 + 1)
    assert fall.effect == pytest.approx(-0.15)
    assert fall.standard_error == pytest.approx(math.sqrt(variance * (1 / 2 + 1 / 4)))
    assert fall.degrees == pytest.approx(9 * (variance / (variance - 0.0001)) ** 2)
    assert fall.z == pytest.approx(to_normal(0.15 / fall.standard_error, fall.degrees))


def test_estimate_spread__of_a_correlation_a_part_is_taken_for_chance() -> None:
    spread = estimate_spread(levels_of(*[0.8] * 5, *[0.84] * 5), prior_sd=0.03)
    # About the mean of 0.82: eight of nine products of neighbors are 0.02², one is its negative. The mean of the same
    # runs takes a tenth of the squares off; of the 2.4 / 9 of them that are chance, nothing counts.
    products = 7 * 0.0004 + 0.004 / 10 - 0.004 * 2.4 / 9
    variance = (5 * (0.0001 + 0.0009) + 0.004) / (5 + 9)
    assert spread.correlation == pytest.approx(products / 9 / variance)


def test_scan_levels__the_window_of_the_strongest_evidence_dates_the_change() -> None:
    history = [0.8, 0.82, 0.78, 0.8, 0.81, 0.79] * 3
    fall = scan(levels_of(*history, 0.7, 0.71, 0.69))
    assert fall.width == 3
    assert fall.effect == pytest.approx(-0.1, abs=0.002)
    assert fall.z > 5


def test_scan_levels__a_run_with_more_traces_is_known_better() -> None:
    few = levels_of(*[0.8, 0.81] * 5, 0.75, noise=0.01)
    many = [*few[:-1], few[-1]._replace(traces=3.0)]
    scores = [scan(runs).standard_error for runs in (few, many)]
    assert scores[1] < scores[0]


def test_scan_levels__correlated_runs_widen_long_windows() -> None:
    correlated = levels_of(*[0.8] * 5, *[0.84] * 5, *[0.8] * 5, *[0.84] * 5, 0.8, 0.8)
    alternating = levels_of(*[0.8, 0.84] * 10, 0.8, 0.8)
    errors = [scan(runs, windows=(2,)).standard_error for runs in (alternating, correlated)]
    assert errors[1] > 1.1 * errors[0]


def test_scan_levels__other_levels_tell_only_how_runs_vary() -> None:
    present = levels_of(0.9, 0.9, 0.8)
    alone = scan(present)
    wild = scan(present, earlier=[levels_of(0.2, 0.5, 0.1, 0.4, 0.6)])
    assert wild.effect == alone.effect
    assert wild.z < alone.z


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=70), st.floats(-100, 100))
def test_scan_levels__does_not_depend_on_the_origin(levels: list[float], shift: float) -> None:
    scores = [scan(levels_of(*runs)) for runs in (levels, [level + shift for level in levels])]
    # At levels of 100 the differences lose digits, of which the score makes a ratio.
    assert scores[1].z == pytest.approx(scores[0].z, abs=1e-3)


@given(st.floats(-8, 8), st.floats(5, 300))
def test_to_normal__agrees_with_scipy(t: float, degrees: float) -> None:
    expected = -stats.norm.ppf(stats.t.sf(abs(t), degrees))
    assert abs(to_normal(t, degrees)) == pytest.approx(expected, abs=0.06)


def test_limit_of__fewer_false_pages_need_more_evidence() -> None:
    limits = [limit_of(rate) for rate in (1.0, 0.25, 0.05, 1 / 600)]
    assert limits == sorted(limits)
    assert limits[1] == pytest.approx(3.06)


def test_score_of_sum__by_hand() -> None:
    assert score_of_sum(DEFAULT_SUM) == DEFAULT_LIMIT
    # As the square of a z: four times the sum is twice the z.
    assert score_of_sum(4 * DEFAULT_SUM) == pytest.approx(2 * DEFAULT_LIMIT)
    assert score_of_sum(0.0) == score_of_sum(-1.0) == 0.0


@given(st.lists(st.floats(0, 1), max_size=40), st.integers(1, 30))
def test_score_runs__each_is_that_of_the_run_when_it_was_the_last(
    levels: list[float], last: int
) -> None:
    runs = levels_of(*levels)
    alone = [scan(runs[: end + 1], windows=(1,)) for end in range(2, len(runs))]
    assert score_runs(runs, last, prior_sd=0.03) == alone[-last:]
