"""Latency, cost and tokens: the same items in two runs, compared as shares. Needs numpy."""

import math
from typing import NamedTuple

import numpy as np

from app.statistics.differences import wilcoxon_p
from app.statistics.intervals import Interval
from app.statistics.repeats import FloatArray
from app.statistics.resampling import Draws, resampled_error, resampled_interval


class RatioChange(NamedTuple):
    """The ratio of the second run's geometric mean to the first's, and the interval of it.

    `error` is the standard error of its logarithm, None where one item or cluster says nothing.
    """

    ratio: float
    interval: Interval | None
    error: float | None
    p: float


def ratio_of_geometric_means(first: FloatArray, second: FloatArray, draws: Draws) -> RatioChange:
    """Two runs of the same items, at least one, all values positive: the interval from a bootstrap
    of the mean logarithm of the items' ratios, p from Wilcoxon's test of them.

    Source: Fleming and Wallace 1986 for the mean.
    """
    logs = np.log(second) - np.log(first)
    per_unit = [
        np.bincount(draws.units, weights=each, minlength=draws.unit_count)
        for each in (logs, np.ones(len(logs)))
    ]
    total, n = draws.sums(np.stack(per_unit, axis=1).astype(np.float64)).T
    rows = total / n
    interval = resampled_interval(rows, draws.unit_count)
    return RatioChange(
        ratio=math.exp(float(rows[0])),
        interval=interval and Interval(low=math.exp(interval.low), high=math.exp(interval.high)),
        error=resampled_error(rows, draws.unit_count),
        p=wilcoxon_p(logs if draws.clusters is None else _of_clusters(logs, draws)),
    )


def _of_clusters(logs: FloatArray, draws: Draws) -> FloatArray:
    """The mean of each cluster: what is independent, and so may be ranked."""
    counts = np.bincount(draws.units, minlength=draws.unit_count)
    sums = np.bincount(draws.units, weights=logs, minlength=draws.unit_count)
    means: FloatArray = sums / counts
    return means
