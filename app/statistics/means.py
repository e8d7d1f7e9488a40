"""The mean of a run with its confidence interval, over items or clusters of items. Needs scipy."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from app.statistics.intervals import Interval, wilson_interval
from app.statistics.resampling import SEED, cluster_index, draw_items
from app.statistics.trials import FloatArray, IntArray, ItemSums
from app.statistics.verdict_rules import CONFIDENCE, Scale

# Student's t interval misses its level when the skewness of the mean is larger; BCa corrects it.
SKEWED = 0.15
# With fewer items the bootstrap has too few values in its tails.
BCA_ITEMS = 15


class Estimate(NamedTuple):
    """A mean with its 95 % interval and standard error; both are None when unknown."""

    mean: float
    interval: Interval | None
    error: float | None
    method: str


def estimate_mean(
    items: ItemSums,
    *,
    scale: Scale = Scale.NUMBER,
    clusters: Sequence[str] | None = None,
    seed: int = SEED,
) -> Estimate | None:
    """The mean of the items' means; None without an item that has a value.

    The interval is Wilson's for single passes, otherwise Student's t, BCa for skewed means, and
    clustered t when clusters are given.
    """
    has_value = items.n > 0
    if not has_value.any():
        return None
    valued = items.where(has_value)
    means, is_rate = valued.means, scale is Scale.RATE
    if clusters is not None:
        # A cluster without any value must not count as one.
        names = [name for name, is_valued in zip(clusters, has_value, strict=True) if is_valued]
        return _clustered(means, cluster_index(names), is_rate=is_rate)
    if is_rate and valued.are_single_passes:
        return _wilson(means, "Wilson")
    if is_rate and means.min() == means.max() and means[0] in (0.0, 1.0):
        # Without variance t would give a point, as if no other result were possible.
        return _wilson(means, "Wilson of items")
    return _unclustered(means, seed, is_rate=is_rate)


def skewness(values: FloatArray) -> float:
    """The third standardized moment; 0 for values that are all equal."""
    deviations = values - values.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 0 else 0.0


def standard_error(values: FloatArray) -> float:
    """s/√n of at least two values."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def clustered_error(values: FloatArray, clusters: IntArray) -> float:
    """The standard error of a mean whose values come in at least two clusters.

    Source: Liang and Zeger 1986; with one value per cluster it is s/√n.
    """
    count = int(clusters.max()) + 1
    sums = np.bincount(clusters, weights=values - values.mean(), minlength=count)
    return math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(values)


def bca_interval(values: FloatArray, *, seed: int = SEED) -> Interval:
    """The bias-corrected and accelerated interval of the mean of values that are not all equal.

    Uses the draws of `draw_items`, which scipy's `bootstrap` cannot take over.
    Source: Efron 1987; agrees with scipy's `bootstrap(method="BCa")` within the resampling noise.
    """
    draws = draw_items(len(values), seed=seed)
    per_unit = np.stack(
        [np.bincount(draws.units, weights, draws.unit_count) for weights in (values, None)], axis=1
    )
    totals, items = draws.sums(per_unit.astype(np.float64))[1:].T
    means = np.sort(totals / items)
    # Ties count by half, otherwise a few distinct values would bias the correction.
    below = (float((means < values.mean()).mean()) + float((means <= values.mean()).mean())) / 2
    # Kept away from 0 and 1, where the quantile is infinite.
    bias = special.ndtri(min(max(below, 1 / len(means)), 1 - 1 / len(means)))
    acceleration = skewness(values) / (6 * math.sqrt(len(values)))
    half_width = special.ndtri((1 + CONFIDENCE) / 2)

    def percentile(z: float) -> float:
        return float(special.ndtr(bias + (bias + z) / (1 - acceleration * (bias + z))))

    low, high = np.quantile(means, [percentile(-half_width), percentile(half_width)])
    return Interval(low=float(low), high=float(high))


def t_interval(mean: float, error: float, degrees: float) -> Interval:
    """Student's 95 % interval around a mean."""
    half_width = float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
    return Interval(low=mean - half_width, high=mean + half_width)


def _wilson(means: FloatArray, method: str) -> Estimate:
    n, share = len(means), float(means.mean())
    interval = wilson_interval(round(float(means.sum())), n)
    return Estimate(share, interval, math.sqrt(share * (1 - share) / n), method)


def _unclustered(means: FloatArray, seed: int, *, is_rate: bool) -> Estimate:
    n, mean = len(means), float(means.mean())
    if n == 1:
        return Estimate(mean, None, None, "none")
    error = standard_error(means)
    is_skewed = n >= BCA_ITEMS and abs(skewness(means)) / math.sqrt(n) > SKEWED
    interval = bca_interval(means, seed=seed) if is_skewed else t_interval(mean, error, n - 1)
    method = "BCa" if is_skewed else "t"
    return Estimate(mean, _clip(interval, is_rate=is_rate), error, method)


def _clustered(means: FloatArray, clusters: IntArray, *, is_rate: bool) -> Estimate:
    mean, count = float(means.mean()), int(clusters.max()) + 1
    if count == 1:
        return Estimate(mean, None, None, "none")
    error = clustered_error(means, clusters)
    interval = _clip(t_interval(mean, error, count - 1), is_rate=is_rate)
    return Estimate(mean, interval, error, "clustered t")


def _clip(interval: Interval, *, is_rate: bool) -> Interval:
    """The interval of a rate within [0, 1]."""
    if not is_rate:
        return interval
    return Interval(low=max(0.0, interval.low), high=min(1.0, interval.high))
