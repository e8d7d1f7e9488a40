"""Power: by hand, and monotone in trials and items."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.statistics.intervals import Interval
from app.statistics.means import clustered_error
from app.statistics.power import (
    ChangeVariance,
    NonInferiority,
    benchmark_detectable_effect,
    check_non_inferiority,
    clustered_variance,
    detectable_effect,
    items_needed,
    trials_needed,
)
from app.statistics.resampling import cluster_index
from app.statistics.verdict_rules import Remedy

VARIANCES = st.builds(ChangeVariance, st.floats(0.0, 1.0), st.floats(0.001, 1.0))


def test_detectable_effect__is_2_80_standard_errors() -> None:
    # (.04 + .16/4) / 100 = .0008
    variance = ChangeVariance(items=0.04, trial=0.16)
    expected = 2.8 * math.sqrt(0.0008)
    assert benchmark_detectable_effect(variance, items=100, trials=4) == pytest.approx(expected)
    assert detectable_effect(0.1) == pytest.approx(0.28)


def test_trials_needed__reduce_the_noise_between_trials_only() -> None:
    # Bearable: 100 · (.14 / 2.8)² = .25; of it .05 is between items, .6 / .2 = 3 trials.
    variance = ChangeVariance(items=0.05, trial=0.6)
    assert trials_needed(variance, items=100, change=0.14) == Remedy(3)
    assert trials_needed(variance, items=100, change=2.8) is None
    assert trials_needed(ChangeVariance(items=0.25, trial=0.6), items=100, change=0.14) == Remedy(
        None
    )


def test_trials_needed__after_one_trial_is_a_lower_bound() -> None:
    # .75 / .25: all of it noise within items.
    variance = ChangeVariance(items=0.75, trial=None)
    assert trials_needed(variance, items=100, change=0.14) == Remedy(3, at_best=True)


def test_items_needed__reduce_the_whole_variance() -> None:
    # (.05 + .6/3) · (2.8 / .14)² = .25 · 400
    assert items_needed(ChangeVariance(items=0.05, trial=0.6), trials=3, change=0.14) == 100


def test_power__invalid_arguments_are_refused() -> None:
    variance = ChangeVariance(items=0.05, trial=0.6)
    with pytest.raises(ValueError, match="detects nothing"):
        benchmark_detectable_effect(variance, items=0, trials=1)
    with pytest.raises(ValueError, match="larger change"):
        items_needed(variance, trials=1, change=0.0)
    assert trials_needed(ChangeVariance(0.1, None), items=10, change=0.0) == Remedy(
        None, at_best=True
    )


@given(VARIANCES, st.integers(5, 500), st.floats(0.01, 0.5))
def test_trials_needed__is_the_smallest_number(
    variance: ChangeVariance, items: int, change: float
) -> None:
    remedy = trials_needed(variance, items=items, change=change)
    needed = 1 if remedy is None else remedy.more_trials
    if needed is None:
        assert benchmark_detectable_effect(variance, items=items, trials=1_000) > change * (
            1 - 1e-9
        )
        return
    assert benchmark_detectable_effect(variance, items=items, trials=needed) <= change * (1 + 1e-9)
    if needed > 1:
        assert benchmark_detectable_effect(variance, items=items, trials=needed - 1) > change * (
            1 - 1e-9
        )


def test_non_inferiority__is_proven_by_the_interval() -> None:
    assert check_non_inferiority(Interval(low=-0.1, high=0.04), 0.05) == NonInferiority(True, 0.04)
    assert check_non_inferiority(Interval(low=0.06, high=0.2), 0.05) == NonInferiority(False, 0.2)
    assert check_non_inferiority(Interval(low=-0.1, high=0.06), 0.05) == NonInferiority(None, 0.06)


def test_trials_needed__unknown_noise_multiplies_the_measured_trials() -> None:
    # Seen with 5 trials an item: 2.80 · √(0.5/100) = 0.198. For 0.14 twice the trials, at best.
    variance = ChangeVariance(items=0.5, trial=None, measured_trials=5.0)
    assert benchmark_detectable_effect(variance, items=100, trials=5) == pytest.approx(
        0.19799, abs=1e-5
    )
    assert trials_needed(variance, items=100, change=0.14) == Remedy(10, at_best=True)
    # More may be no help, and one trial may be five times as noisy.
    assert variance.with_trials(10) == 0.5
    assert variance.with_trials(1) == 2.5


def test_clustered_variance__by_hand() -> None:
    # Sums around the mean of 0: 2 and -2; 2/1 · (4 + 4) / 4.
    assert clustered_variance([1.0, 1.0, -1.0, -1.0], ["a", "a", "b", "b"]) == 4.0
    # Each item alone: s² = 4/3.
    assert clustered_variance([1.0, 1.0, -1.0, -1.0], [*"abcd"]) == pytest.approx(4 / 3)
    assert clustered_variance([1.0, -1.0], ["a", "a"]) is None


@given(st.lists(st.tuples(st.floats(-1, 1), st.sampled_from("abc")), min_size=3, max_size=9))
def test_clustered_variance__equals_the_clustered_error(items: list[tuple[float, str]]) -> None:
    values, names = [value for value, _ in items], [name for _, name in items]
    variance = clustered_variance(values, names)
    if variance is not None:
        error = clustered_error(np.array(values), cluster_index(names))
        assert variance / len(items) == pytest.approx(error**2, abs=1e-12)
