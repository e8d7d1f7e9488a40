"""The spread of a statistic of sums, by leaving out one unit at a time. Needs numpy.

A unit is a cluster or an item with all its answers: what resembles each other is left out together.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mosaico.statistics.change import SumVariance
from mosaico.statistics.trials import FloatArray, IntArray

# From sums of the shape (..., columns), the statistic of the shape (...); NaN where it is not defined.
SumStatistic = Callable[[FloatArray], FloatArray]


class Jackknifed(NamedTuple):
    """A statistic with its variance among units; the variance is None with fewer than two units, or where the statistic is
    not defined without one of them.
    """

    value: float
    spread: SumVariance | None
    units: int


def jackknife(rows: FloatArray, units: IntArray, statistic: SumStatistic) -> Jackknifed:
    """A statistic of the sums of `rows` (rows, columns), whose units are `units` (rows,).

    Source: Efron and Stein 1981.
    """
    names, index = np.unique(units, return_inverse=True)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, index, rows)
    total, count = sums.sum(axis=0), len(names)
    value = float(statistic(total))
    if count < 2:  # noqa: PLR2004 - a spread
        return Jackknifed(value, None, count)
    without = statistic(total - sums)
    variance = float(((without - without.mean()) ** 2).sum()) * (count - 1) / count
    spread = SumVariance(variance, count - 1.0) if math.isfinite(variance) else None
    return Jackknifed(value, spread, count)
