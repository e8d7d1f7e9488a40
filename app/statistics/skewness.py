"""The skewness of a change between several runs and one, and its removal. Needs numpy."""

import math

import numpy as np

from app.statistics.trials import FloatArray, IntArray, unit_sums

# Below this skewness Hall's transformation equals Student's t to the last digits.
_SYMMETRIC = 1e-6


def skewness_of_blocks(
    deviations: FloatArray, units: IntArray, *, is_logarithm: bool = False
) -> float:
    """The skewness of the change between the mean of L runs and one run, all from one distribution.

    `deviations` of shape (items, L + 1) are the contributions of each run's items, relative to
    their mean over the runs; the last column is the candidate. 0 for L = 1, where the change is
    symmetric. With `is_logarithm` the change is one of logarithms, which are less skewed than the
    contributions: the second term of their Taylor series counts, too.
    """
    blocks = deviations.shape[1]
    if blocks <= 2:  # noqa: PLR2004 - one run on each side
        return 0.0
    runs = blocks - 1
    count = int(units.max()) + 1
    sums: FloatArray = np.stack([unit_sums(column, units) for column in deviations.T], axis=1)
    variance = float((sums**2).mean(axis=1).sum()) * (1 + 1 / runs) ** 2
    third = float((sums**3).mean(axis=1).sum()) * (1 + 1 / runs) ** 3
    if is_logarithm:
        # The third cumulant of log x is that of x less 3 · variance² (delta method): of the
        # candidate, with L parts of L + 1 of the variance, less that of the baseline. One third of
        # it, because few items show too little of their own third cumulant (simulated).
        third -= variance**2 * (runs - 1) / (runs + 1)
    return math.sqrt(count) * third / variance**1.5 if variance > 0 else 0.0


def hall_limit(quantile: float, skewness: float, units: int) -> float:
    """The distance of a limit from the effect, in units of √units standard errors.

    Source: Hall 1992, "On the removal of skewness by transformation", section 2.
    """
    if abs(skewness) < _SYMMETRIC:
        return quantile / math.sqrt(units)
    inner = 1 - skewness * (quantile / math.sqrt(units) + skewness / (6 * units))
    return -3 / skewness * float(np.cbrt(inner) - 1)


def hall_statistic(scaled: FloatArray, skewness: float, units: int) -> FloatArray:
    """The inverse of `hall_limit`: the quantiles for which the distance brings the effect to 0."""
    if abs(skewness) < _SYMMETRIC:
        return scaled * math.sqrt(units)
    cubed = ((1 + skewness * scaled / 3) ** 3 - 1) / skewness
    return math.sqrt(units) * (cubed + skewness / (6 * units))
