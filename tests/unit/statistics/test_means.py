"""The mean of a run and its interval: by hand, then as scipy and statsmodels have it."""

import math

import numpy as np
import pytest

from app.statistics.hypothesis_tests import t_p
from app.statistics.intervals import wilson_interval
from app.statistics.means import bca_interval, estimate_mean, skewness
from app.statistics.trials import ItemSums, reduce_trials
from app.statistics.verdict import Scale
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")


def run_of(*items: list[float]) -> ItemSums:
    places = np.repeat(np.arange(len(items)), [len(trials) for trials in items])
    return reduce_trials(
        places, np.array([each for trials in items for each in trials]), len(items)
    )


@pytest.mark.parametrize(
    ("passed", "low", "high"), [(32, 0.72, 0.94), (29, 0.63, 0.89), (23, 0.46, 0.76)]
)
def test_the_recorded_pass_rates_have_wilson_intervals(
    passed: int, low: float, high: float
) -> None:
    found = estimate_mean(run_of(*[[float(n < passed)] for n in range(37)]), scale=Scale.RATE)
    assert found is not None
    assert found.interval is not None
    assert found.mean == passed / 37
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.005)


def test_repeats_count_as_items_and_not_as_trials() -> None:
    # Items at 0, 1/2 and 1: mean 1/2, deviation 1/2, error 1/2 / sqrt(3), t of two degrees 4.303.
    found = estimate_mean(run_of([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]))
    assert found is not None
    assert found.interval is not None
    reach = 4.3026527 * 0.5 / math.sqrt(3)
    assert (found.mean, found.method) == (0.5, "t")
    assert (found.interval.low, found.interval.high) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_the_interval_of_a_rate_stays_a_rate() -> None:
    found = estimate_mean(run_of([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]), scale=Scale.RATE)
    assert found is not None
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


def test_when_every_trial_passed_the_items_still_leave_something_possible() -> None:
    found = estimate_mean(run_of(*[[1.0, 1.0, 1.0]] * 10), scale=Scale.RATE)
    assert found is not None
    assert found.interval == wilson_interval(10, 10)


def test_a_run_without_a_value_has_no_mean_and_one_item_no_interval() -> None:
    assert estimate_mean(run_of([math.nan])) is None
    one = estimate_mean(run_of([0.5, 0.7]))
    assert one is not None
    assert one.mean == pytest.approx(0.6)
    assert one.interval is None


def test_clusters_widen_the_interval() -> None:
    # Two clusters of equal values: error 1/2 of the mean 1/2, t of one degree 12.706.
    items = run_of([1.0], [1.0], [0.0], [0.0], [math.nan])
    found = estimate_mean(items, clusters=["a", "a", "b", "b", "c"])
    assert found is not None
    assert found.interval is not None
    assert found.method == "clustered t"
    assert found.error == pytest.approx(0.5)
    assert found.interval.high == pytest.approx(0.5 + 12.7062047 * 0.5)
    alone = estimate_mean(items, clusters=["a"] * 5)
    assert alone is not None
    assert alone.interval is None


def test_skewed_means_are_resampled() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 1.2, 40)
    found = estimate_mean(run_of(*[[each] for each in values.tolist()]))
    assert found is not None
    assert found.interval is not None
    assert found.method == "BCa"
    assert found.interval.high - found.mean > found.mean - found.interval.low
    assert skewness(values) == pytest.approx(stats.skew(values))
    assert skewness(np.ones(3)) == 0.0


def test_the_bca_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 0.8, 40)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, rng=np.random.default_rng(1), method="BCa"
    ).confidence_interval
    found = bca_interval(values)
    # Of 2000 resamples fifty lie beyond an end: it is known to a tenth of the width.
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.1 * width)
    assert found.high == pytest.approx(expected.high, abs=0.1 * width)
    assert bca_interval(values) == found


@pytest.mark.parametrize("degrees", [1, 2, 4.5, 36, 1999])
def test_tails_of_student_equal_scipy(degrees: float) -> None:
    for value in (-3.0, 0.0, 0.1, 1.5, 8.0, 40.0):
        expected = 2 * stats.t.sf(abs(value), degrees)
        assert t_p(value, 1.0, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_tails_of_many_degrees_are_those_of_the_normal() -> None:
    assert t_p(1.959963984540054, 1.0, 1e12) == pytest.approx(0.05)
    assert t_p(math.inf, 1.0, 3) == 0.0
