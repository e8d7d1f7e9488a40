"""The interval of a mean of a few numbers."""

import pytest

from mosaico.statistics.mean_interval import mean_interval, mean_of


def test_mean_interval__of_four_numbers() -> None:
    """Mean 0.9, standard deviation 0.1 / sqrt(3) x sqrt(2), and so a half width of about 3.18 x 0.0408."""
    interval = mean_interval([0.85, 0.95, 0.85, 0.95])
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.808, 0.992), abs=0.002)


def test_mean_interval__unknown_for_one_number_and_beyond_floats() -> None:
    assert mean_interval([]) is None
    assert mean_interval([0.5]) is None
    assert mean_interval([1.7e308, -1.7e308]) is None
    assert mean_of([1.7e308, 1.7e308]) == 1.7e308
    assert mean_of([]) is None
