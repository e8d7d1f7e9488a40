"""Evidence over several runs."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mosaico.statistics.run_variance import to_normal
from mosaico.statistics.sequential import (
    RunLevel,
    Scan,
    WindowScore,
    estimate_variance,
    limit_of,
    scan_levels,
    score_means,
)


def scan(levels: Sequence[RunLevel], **options: Any) -> WindowScore:
    """The strongest evidence for a fall."""
    fall = scan_levels(levels, prior_sd=0.015, **options).fall
    assert fall is not None
    return fall


def levels_of(*levels: float, noise: float = 0.0001, traces: float = 1.0) -> list[RunLevel]:
    return [
        RunLevel(run, level, noise if run else None, traces) for run, level in enumerate(levels)
    ]


def test_scan_levels__one_reference_run_is_needed() -> None:
    assert scan_levels([], prior_sd=0.015) == Scan()
    assert scan_levels(levels_of(0.8), prior_sd=0.015) == Scan()
    assert scan_levels(levels_of(0.8, 0.7), prior_sd=0.015).fall is not None


def test_scan_levels__numbers_by_hand() -> None:
    fall = scan(levels_of(0.8, 0.8, 0.6, noise=0.0001))
    # Of two runs one degree; the prior counts as one run more.
    variance = (0.0001 + 0.015**2 + 0) / 2
    assert (fall.width, fall.reference) == (1, 2)
    assert fall.effect == pytest.approx(-0.2)
    assert fall.standard_error == pytest.approx(math.sqrt(variance * (1 + 1 / 2)))
    share = variance / (variance - 0.0001)
    assert fall.degrees == pytest.approx(2 * min(share, 2) ** 2)


def test_scan_levels__runs_of_a_window_vary_about_their_own_mean() -> None:
    fall = scan(levels_of(0.8, 0.8, 0.7, 0.6, noise=0.0001))
    assert fall.width == 2
    # The squares of the window are 2 · 0.05², with one degree of freedom; those of the reference are zero, with one.
    variance = (0.0001 + 0.015**2 + 0.005) / 3
    assert fall.effect == pytest.approx(-0.15)
    assert fall.standard_error == pytest.approx(math.sqrt(variance))
    assert fall.z == pytest.approx(to_normal(0.15 / fall.standard_error, fall.degrees))


def test_estimate_variance__neighbors_that_are_alike_are_correlated() -> None:
    variance = estimate_variance(levels_of(*[0.8] * 5, *[0.84] * 5), prior_sd=0.015)
    # About the mean of 0.82: eight of nine products of neighbors are 0.02², one is its negative. The mean of the same
    # runs takes a tenth of the squares off; of the 2.4 / 9 of them that are chance, nothing counts.
    products = 7 * 0.0004 + 0.004 / 10 - 0.004 * 2.4 / 9
    total = (0.0001 + 0.015**2 + 0.004) / 10
    assert variance.correlation == pytest.approx(products / 9 / total)


def test_scan_levels__the_window_of_the_strongest_evidence_dates_the_change() -> None:
    history = [0.8, 0.82, 0.78, 0.8, 0.81, 0.79] * 3
    fall = scan(levels_of(*history, 0.7, 0.71, 0.69))
    assert fall.width == 3
    assert fall.effect == pytest.approx(-0.1, abs=0.002)
    assert fall.z > 5


def test_scan_levels__a_run_with_more_traces_is_known_better() -> None:
    few = levels_of(*[0.8, 0.81] * 5, 0.75, noise=0.01)
    many = [*few[:-1], few[-1]._replace(traces=3.0)]
    errors = [scan(runs, returned={9}).standard_error for runs in (few, many)]
    assert errors[1] < errors[0]


def test_scan_levels__runs_that_returned_are_in_no_window_and_no_neighbors() -> None:
    levels = levels_of(*[0.8, 0.82] * 8, 0.6, 0.6, 0.81)
    assert scan(levels).width > 1
    returned = frozenset((16, 17))
    fall = scan(levels, returned=returned)
    assert (fall.width, fall.reference) == (1, 18)
    together, apart = (
        estimate_variance(levels, prior_sd=0.015, returned=runs)
        for runs in (frozenset[int](), returned)
    )
    assert apart.correlation < together.correlation
    # They tell how runs vary all the same.
    assert apart.between > estimate_variance(levels[:16], prior_sd=0.015).between


def test_scan_levels__one_item_of_rare_failures_is_ignored() -> None:
    levels = [RunLevel(run, 1.0, 0.0, 20.0) for run in range(20)]
    levels.append(RunLevel(20, 0.95, 0.05**2 / 2, 20.0, grain=0.05))
    fall = scan(levels)
    assert (fall.effect, fall.ignored, fall.z) == pytest.approx((-0.05, 0.05, 0.0))


def test_scan_levels__of_frequent_changes_hardly_anything_is_ignored() -> None:
    """37 items with a noise of 0.06 change five times in each run."""
    levels = [
        level._replace(traces=37.0, grain=1 / 37) for level in levels_of(*[0.8] * 20, noise=0.06**2)
    ]
    assert scan([*levels, levels[-1]._replace(run=20, level=0.5)]).ignored < 0.25 / 37


def test_score_means__is_the_window_of_the_same_runs() -> None:
    levels = levels_of(*[0.8, 0.82] * 8, 0.6)
    variance = estimate_variance(levels[:-1], prior_sd=0.015)
    assert score_means(levels[:-1], levels[-1:], variance) == pytest.approx(scan(levels))


def test_half_width__is_that_of_student_t() -> None:
    score = WindowScore(1, 20, -0.1, 0.02, 300.0, 5.0)
    assert score.half_width(1.96) == pytest.approx(1.968 * 0.02, rel=1e-3)
    # scipy.stats.t.ppf(0.975, 5) = 2.571.
    assert score._replace(degrees=5.0).half_width(1.96) == pytest.approx(2.571 * 0.02, rel=0.02)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=40), st.floats(1, 5))
def test_half_width__excludes_0_exactly_beyond_the_limit(values: list[float], limit: float) -> None:
    levels = [
        level._replace(traces=37.0, grain=1 / 37) for level in levels_of(*values, noise=0.001)
    ]
    score = scan(levels)
    assume(abs(score.z - limit) > 1e-6)
    assert (score.effect + score.half_width(limit) < 0) is (score.z > limit)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=70), st.floats(-100, 100))
def test_scan_levels__does_not_depend_on_the_origin(levels: list[float], shift: float) -> None:
    scores = [scan(levels_of(*runs)) for runs in (levels, [level + shift for level in levels])]
    # At levels of 100 the differences lose digits, of which the score makes a ratio.
    assert scores[1].z == pytest.approx(scores[0].z, abs=1e-3)


def test_limit_of__fewer_false_pages_need_more_evidence() -> None:
    limits = [limit_of(rate) for rate in (1.0, 0.25, 0.05, 1 / 600)]
    assert limits == sorted(limits)
    assert limits[1] == pytest.approx(3.2)
