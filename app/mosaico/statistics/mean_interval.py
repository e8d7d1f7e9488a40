"""The interval of a mean of a few numbers."""

import math
from collections.abc import Sequence
from statistics import stdev

from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.intervals import Interval


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean of independent numbers; None for fewer than two, and beyond the range of a float."""
    mean = mean_of(values)
    if mean is None or len(values) < 2:  # noqa: PLR2004 - one number has no spread
        return None
    try:
        half = t_quantile(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    except OverflowError:
        return None
    ends = mean - half, mean + half
    return Interval(low=ends[0], high=ends[1]) if all(map(math.isfinite, ends)) else None


def mean_of(values: Sequence[float]) -> float | None:
    """The mean; None without a value."""
    # Divided first: the sum of numbers near the largest float is not one.
    return math.fsum(value / len(values) for value in values) if values else None
