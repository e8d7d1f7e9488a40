"""The interval of a mean of a few numbers; without scipy, for processes that answer requests."""

import math
from collections.abc import Sequence
from statistics import NormalDist, stdev
from typing import Final

from mosaico.statistics.intervals import Interval

_Z: Final = NormalDist().inv_cdf(0.975)
# The series below is too small for so few degrees of freedom. Source: tables of Student's t.
_FEW: Final = {1: 12.7062, 2: 4.3027}


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, within 0.03 of scipy's.

    Source: Abramowitz and Stegun 1964, 26.7.5.
    """
    if freedom in _FEW:
        return _FEW[freedom]
    z, v = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean of independent numbers; None for fewer than two, and beyond the range of a float."""
    mean = mean_of(values)
    if mean is None or len(values) < 2:  # noqa: PLR2004 - one number has no spread
        return None
    try:
        half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    except OverflowError:
        return None
    ends = mean - half, mean + half
    return Interval(low=ends[0], high=ends[1]) if all(map(math.isfinite, ends)) else None


def mean_of(values: Sequence[float]) -> float | None:
    """The mean; None without a value."""
    # Divided first: the sum of numbers near the largest float is not one.
    return math.fsum(value / len(values) for value in values) if values else None
