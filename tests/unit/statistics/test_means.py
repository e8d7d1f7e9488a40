"""The mean of a run and its interval: by hand, then against scipy and statsmodels."""

import math

import numpy as np
import pytest

from app.statistics.hypothesis_tests import t_p
from app.statistics.intervals import wilson_interval
from app.statistics.means import bca_interval, estimate_mean, skewness
from app.statistics.trials import ItemSums, reduce_trials
from app.statistics.verdict_rules import Scale
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")


def run_of(*items: list[float]) -> ItemSums:
    item_index = np.repeat(np.arange(len(items)), [len(trials) for trials in items])
    return reduce_trials(
        item_index,
        np.array([trial_value for trials in items for trial_value in trials]),
        len(items),
    )


@pytest.mark.parametrize(
    ("passed", "low", "high"), [(32, 0.72, 0.94), (29, 0.63, 0.89), (23, 0.46, 0.76)]
)
def test_estimate_mean__pass_rates_have_wilson_intervals(
    passed: int, low: float, high: float
) -> None:
    estimate = estimate_mean(run_of(*[[float(n < passed)] for n in range(37)]), scale=Scale.RATE)
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.mean == passed / 37
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((low, high), abs=0.005)


def test_estimate_mean__counts_items_and_not_trials() -> None:
    # Items at 0, 1/2 and 1: mean 1/2, deviation 1/2, error 1/2 / sqrt(3), t of two degrees 4.303.
    estimate = estimate_mean(run_of([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]))
    assert estimate is not None
    assert estimate.interval is not None
    reach = 4.3026527 * 0.5 / math.sqrt(3)
    assert (estimate.mean, estimate.method) == (0.5, "t")
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx(
        (0.5 - reach, 0.5 + reach)
    )


def test_estimate_mean__interval_of_a_rate_is_within_0_and_1() -> None:
    estimate = estimate_mean(run_of([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]), scale=Scale.RATE)
    assert estimate is not None
    assert estimate.interval is not None
    assert (estimate.interval.low, estimate.interval.high) == (0.0, 1.0)


def test_estimate_mean__all_trials_passed_has_a_wilson_interval() -> None:
    estimate = estimate_mean(run_of(*[[1.0, 1.0, 1.0]] * 10), scale=Scale.RATE)
    assert estimate is not None
    assert estimate.interval == wilson_interval(10, 10)


def test_estimate_mean__none_without_values_and_no_interval_of_one_item() -> None:
    assert estimate_mean(run_of([math.nan])) is None
    estimate = estimate_mean(run_of([0.5, 0.7]))
    assert estimate is not None
    assert estimate.mean == pytest.approx(0.6)
    assert estimate.interval is None


def test_estimate_mean__clusters_widen_the_interval() -> None:
    # Two clusters of equal values: error 1/2 of the mean 1/2, t of one degree 12.706.
    items = run_of([1.0], [1.0], [0.0], [0.0], [math.nan])
    estimate = estimate_mean(items, clusters=["a", "a", "b", "b", "c"])
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.method == "clustered t"
    assert estimate.error == pytest.approx(0.5)
    assert estimate.interval.high == pytest.approx(0.5 + 12.7062047 * 0.5)
    alone = estimate_mean(items, clusters=["a"] * 5)
    assert alone is not None
    assert alone.interval is None


def test_estimate_mean__skewed_means_use_bca() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 1.2, 40)
    estimate = estimate_mean(run_of(*[[item_value] for item_value in values.tolist()]))
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.method == "BCa"
    assert estimate.interval.high - estimate.mean > estimate.mean - estimate.interval.low
    assert skewness(values) == pytest.approx(stats.skew(values))
    assert skewness(np.ones(3)) == 0.0


def test_bca_interval__agrees_with_scipy() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 0.8, 40)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, rng=np.random.default_rng(1), method="BCa"
    ).confidence_interval
    interval = bca_interval(values)
    # Of 2000 resamples fifty lie beyond an end: it is known to a tenth of the width.
    width = expected.high - expected.low
    assert interval.low == pytest.approx(expected.low, abs=0.1 * width)
    assert interval.high == pytest.approx(expected.high, abs=0.1 * width)
    assert bca_interval(values) == interval


@pytest.mark.parametrize("degrees", [1, 2, 4.5, 36, 1999])
def test_t_p__equals_scipy(degrees: float) -> None:
    for value in (-3.0, 0.0, 0.1, 1.5, 8.0, 40.0):
        expected = 2 * stats.t.sf(abs(value), degrees)
        assert t_p(value, 1.0, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_t_p__many_degrees_are_normal() -> None:
    assert t_p(1.959963984540054, 1.0, 1e12) == pytest.approx(0.05)
    assert t_p(math.inf, 1.0, 3) == 0.0
