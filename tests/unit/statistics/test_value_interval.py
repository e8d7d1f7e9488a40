"""The interval of a value of one run: by hand, and never a point without reason."""

import math

import numpy as np
import pytest

from mosaico.statistics.change import UnitInfluences
from mosaico.statistics.intervals import Interval, score_interval
from mosaico.statistics.value_interval import ValueEstimate, estimate_value, resampled_value


def mean_of(
    values: list[float],
    clusters: list[int] | None = None,
    *,
    limits: tuple[float | None, float | None] = (0.0, 1.0),
    passes: int | None = None,
) -> ValueEstimate:
    items = np.array(values)
    influences = (items - items.mean()) / len(items)
    units = np.arange(len(items)) if clusters is None else np.array(clusters)
    return estimate_value(
        float(items.mean()),
        UnitInfluences.of_items(influences, units),
        minimum=limits[0],
        maximum=limits[1],
        passes=passes,
    )


def interval_of(estimate: ValueEstimate) -> Interval:
    assert estimate.interval is not None
    return estimate.interval


@pytest.mark.parametrize("passed", [23, 29, 32, 37])
def test_estimate_value__single_passes_have_wilson_intervals(passed: int) -> None:
    interval = interval_of(mean_of([1.0] * passed + [0.0] * (37 - passed), passes=37))
    expected = score_interval(passed / 37, 37, 1.959963984540054)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_estimate_value__60_of_60_in_ten_clusters_is_no_point() -> None:
    # Ten passes with Student's t of nine degrees, 2.262: 1 / (1 + 2.262² / 10) = .6615.
    interval = interval_of(mean_of([1.0] * 60, [item // 6 for item in range(60)], passes=60))
    assert interval.low == pytest.approx(0.6615, abs=1e-4)
    assert interval.high == 1.0


def test_estimate_value__five_equal_grades_are_no_point() -> None:
    interval = interval_of(mean_of([0.7] * 5))
    assert 0.2 < interval.low < 0.4
    assert 0.9 < interval.high < 1.0


def test_estimate_value__numbers_have_student_t() -> None:
    # Values 0, 1/2 and 1: mean 1/2, error 1/2 / sqrt(3), t of two degrees 4.303.
    estimate = mean_of([0.0, 0.5, 1.0], limits=(None, None))
    reach = 4.3026527 * 0.5 / math.sqrt(3)
    interval = interval_of(estimate)
    assert (interval.low, interval.high) == pytest.approx((0.5 - reach, 0.5 + reach))
    assert mean_of([0.0, 0.5, 1.0]).error == pytest.approx(0.5 / math.sqrt(3))


def test_estimate_value__costs_stay_positive() -> None:
    # Student's t alone would reach down to 3.01 − 4.30 · 2.99 = −9.9.
    interval = interval_of(mean_of([0.01, 0.02, 9.0], limits=(0.0, None)))
    assert 0 < interval.low < 3.01 < interval.high


def test_estimate_value__equal_numbers_without_limits_have_no_interval() -> None:
    assert mean_of([3.0] * 5, limits=(None, None)).interval is None
    assert mean_of([3.0], limits=(None, None)).interval is None


def test_probability_at_least__is_that_of_student_t() -> None:
    estimate = mean_of([0.0, 0.5, 1.0])
    assert estimate.probability_at_least(0.5) == pytest.approx(0.5)
    assert mean_of([0.7] * 5).probability_at_least(0.6) == 1.0


def test_transformed__turns_the_interval() -> None:
    estimate = mean_of([0.0, 0.5, 1.0]).transformed(-100.0, 100.0)
    interval = interval_of(mean_of([0.0, 0.5, 1.0]))
    turned = interval_of(estimate)
    assert (turned.low, turned.high) == pytest.approx(
        (100 - 100 * interval.high, 100 - 100 * interval.low)
    )


def test_resampled_value__is_between_the_percentiles() -> None:
    estimate = resampled_value(np.concatenate([[0.5], np.linspace(0, 1, 999), [np.nan]]))
    interval = interval_of(estimate)
    assert (interval.low, interval.high) == pytest.approx((0.025, 0.975), abs=0.002)
    assert resampled_value(np.array([0.5])).interval is None


def test_estimate_value__rounding_beyond_a_limit_is_that_limit() -> None:
    # All of seven items are 1 but for rounding: Wilson for 7 of 7 with t of six degrees, 2.4469:
    # 7 / (7 + 2.4469²) = 0.53899.
    exact = mean_of([1.0] * 7)
    units = UnitInfluences.of_items(np.zeros(7), np.arange(7))
    rounded = estimate_value(1.0 + 2**-52, units, minimum=0.0, maximum=1.0)
    assert interval_of(rounded) == interval_of(exact)
    assert interval_of(exact).low == pytest.approx(0.53899, abs=1e-5)
    assert interval_of(exact).high == 1.0


def test_estimate_value__at_a_limit_with_spread_has_an_interval() -> None:
    # Such as of CLAMP: no pass or failure has a variance of 0, so nothing is known.
    units = UnitInfluences.of_items(np.array([-0.1, 0.0, 0.1]), np.arange(3))
    interval = interval_of(estimate_value(1.0, units, minimum=0.0, maximum=1.0))
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_estimate_value__of_a_constant_is_that_constant() -> None:
    units = UnitInfluences.of_items(np.zeros(3), np.arange(3))
    assert estimate_value(1.0, units, minimum=1.0, maximum=1.0).interval == Interval(low=1, high=1)


def test_estimate_value__single_pass_on_another_scale_has_the_scaled_wilson_interval() -> None:
    # 1 of 1: from 1 / (1 + 1.96²) = 0.20654 to 1, times 100.
    units = UnitInfluences.of_items(np.zeros(1), np.arange(1))
    interval = interval_of(estimate_value(100.0, units, minimum=0.0, maximum=100.0, passes=1))
    assert (interval.low, interval.high) == pytest.approx((20.654, 100.0), abs=1e-3)


def test_probability_at_least__without_a_finite_error_is_unknown() -> None:
    units = UnitInfluences.of_items(np.array([-1.7e308, 1.7e308]), np.arange(2))
    with np.errstate(all="ignore"):
        estimate = estimate_value(0.0, units)
    assert estimate.probability_at_least(math.inf) is None
