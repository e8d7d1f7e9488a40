"""The mean of a run and how certain it is: items first, groups of items where they resemble each
other. Needs numpy.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from app.statistics.intervals import Interval, wilson_interval
from app.statistics.repeats import FloatArray, IntArray, ItemSums
from app.statistics.resampling import SEED, cluster_places, draw_items
from app.statistics.student_t import t_quantile
from app.statistics.verdict import CONFIDENCE, Scale

_NORMAL = NormalDist()
# Student's t is off where the skewness of the mean is larger than this; BCa follows it.
SKEWED = 0.15
# With fewer items the bootstrap sees too few of the tails to follow them.
BCA_ITEMS = 15


class Estimate(NamedTuple):
    """A mean with its 95 % interval and standard error; None where nothing can be said of it."""

    mean: float
    interval: Interval | None
    error: float | None
    method: str


def mean_estimate(
    items: ItemSums,
    *,
    scale: Scale = Scale.NUMBER,
    clusters: Sequence[str] | None = None,
    seed: int = SEED,
) -> Estimate | None:
    """The mean of the items' means: Wilson for passes of one trial, else Student's t, BCa where the
    means are skewed, and clustered where groups are named. None without an item that has a value.
    """
    valued = items.n > 0
    if not valued.any():
        return None
    kept = items.where(valued)
    means, rate = kept.means, scale is Scale.RATE
    if clusters is not None:
        places = cluster_places([each for each, has in zip(clusters, valued, strict=True) if has])
        return _clustered(means, places, rate=rate)
    if rate and _are_passes(kept):
        return _of_passes(means, "Wilson")
    if rate and means.min() == means.max() and means[0] in (0.0, 1.0):
        return _of_passes(means, "Wilson of items")
    return _of_means(means, seed, rate=rate)


def are_passes(*runs: ItemSums) -> bool:
    """Whether all values are 0 or 1, of one trial an item."""
    return all(map(_are_passes, runs))


def skewness(values: FloatArray) -> float:
    """The third standardized moment; 0 for values that are all the same."""
    around = values - values.mean()
    spread = float((around**2).mean())
    return float((around**3).mean()) / spread**1.5 if spread > 0 else 0.0


def standard_error(values: FloatArray) -> float:
    """s/√n of at least two values."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def clustered_error(values: FloatArray, places: IntArray) -> float:
    """The standard error of a mean whose values come in at least two clusters.

    Source: Liang and Zeger 1986; with singletons it is s/√n.
    """
    count = int(places.max()) + 1
    sums = np.bincount(places, weights=values - values.mean(), minlength=count)
    return math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(values)


def bca_interval(values: FloatArray, *, seed: int = SEED) -> Interval:
    """The bias-corrected and accelerated interval of the mean of values that are not all the same.

    Source: Efron 1987; agrees with scipy's `bootstrap(method="BCa")` within the noise of resampling.
    """
    draws = draw_items(len(values), seed=seed)
    per_unit = np.stack(
        [np.bincount(draws.units, weights, draws.unit_count) for weights in (values, None)], axis=1
    )
    totals, items = draws.sums(per_unit.astype(np.float64))[1:].T
    rows = np.sort(totals / items)
    below = (float((rows < values.mean()).mean()) + float((rows <= values.mean()).mean())) / 2
    bias = _NORMAL.inv_cdf(min(max(below, 1 / len(rows)), 1 - 1 / len(rows)))
    acceleration = skewness(values) / (6 * math.sqrt(len(values)))
    half = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2)

    def place(z: float) -> float:
        return _NORMAL.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))

    low, high = np.quantile(rows, [place(-half), place(half)])
    return Interval(low=float(low), high=float(high))


def t_interval(mean: float, error: float, degrees: float) -> Interval:
    """Student's interval around a mean."""
    reach = t_quantile((1 + CONFIDENCE) / 2, degrees) * error
    return Interval(low=mean - reach, high=mean + reach)


def _of_passes(means: FloatArray, method: str) -> Estimate:
    n, share = len(means), float(means.mean())
    interval = wilson_interval(round(float(means.sum())), n)
    return Estimate(share, interval, math.sqrt(share * (1 - share) / n), method)


def _of_means(means: FloatArray, seed: int, *, rate: bool) -> Estimate:
    n, mean = len(means), float(means.mean())
    if n == 1:
        return Estimate(mean, None, None, "none")
    error = standard_error(means)
    skewed = n >= BCA_ITEMS and abs(skewness(means)) / math.sqrt(n) > SKEWED
    interval = bca_interval(means, seed=seed) if skewed else t_interval(mean, error, n - 1)
    return Estimate(mean, _within(interval, rate=rate), error, "BCa" if skewed else "t")


def _clustered(means: FloatArray, places: IntArray, *, rate: bool) -> Estimate:
    mean, count = float(means.mean()), int(places.max()) + 1
    if count == 1:
        return Estimate(mean, None, None, "none")
    error = clustered_error(means, places)
    return Estimate(
        mean, _within(t_interval(mean, error, count - 1), rate=rate), error, "clustered t"
    )


def _within(interval: Interval, *, rate: bool) -> Interval:
    if not rate:
        return interval
    return Interval(low=max(0.0, interval.low), high=min(1.0, interval.high))


def _are_passes(run: ItemSums) -> bool:
    return bool((run.n == 1).all() and ((run.total == 0) | (run.total == 1)).all())
