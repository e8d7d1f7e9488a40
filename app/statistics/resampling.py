"""Bootstrap over items: the distribution of a statistic, or of a formula of several. Needs scipy.

Items are drawn with all their trials, and whole clusters where items are clustered. One `Draws`
serves every metric and both runs, so that correlated values stay correlated. Row 0 of every result
is the observed value, the other rows are the resamples.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from app.statistics.intervals import Interval
from app.statistics.trials import FloatArray, IntArray, ItemSums, reduce_trials
from app.statistics.verdict_rules import CONFIDENCE

RESAMPLES = 2000
# Any fixed number: equal input must give equal bits, in every process and after every restart.
SEED = 37
# A variance needs two units.
MIN_UNITS = 2
# More units do not improve the interval; beyond, random groups of items are drawn together.
MAX_UNITS = 2000
# A block this small stays in the CPU cache, and BLAS computes it in one thread: with more threads
# the order of additions, and so the last bits of a verdict, would depend on the machine.
_BLOCK_CELLS = 1 << 16
_PERCENT = {"min": 0.0, "p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


class DrawSize(NamedTuple):
    """The number of items, of units they are drawn in, and of clusters (None without clusters)."""

    items: int
    units: int
    clusters: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """How often each unit was drawn in each row; row 0 has every unit once.

    `units` maps each item to its unit: the item itself, its cluster, or a random group of many.
    `clusters` is the number of clusters, None without clusters.
    """

    counts: NDArray[np.uint16]
    units: IntArray
    clusters: int | None = None

    @property
    def unit_count(self) -> int:
        return int(self.counts.shape[1])

    def size(self, items: NDArray[np.bool_] | None = None) -> DrawSize:
        """The size of the draw of the selected items; of all items by default."""
        if items is None or items.all():
            return DrawSize(len(self.units), self.unit_count, self.clusters)
        units = len(np.unique(self.units[items]))
        return DrawSize(int(np.count_nonzero(items)), units, self.clusters and units)

    def sums(self, per_unit: FloatArray) -> FloatArray:
        """The sums over the drawn units of each row: (rows, k) from (units, k)."""
        return np.concatenate(
            [block.astype(np.float64) @ per_unit for block in self.blocks(self.unit_count)]
        )

    def blocks(self, width: int) -> Iterator[NDArray[np.uint16]]:
        """The counts in blocks of rows, sized for computations with `width` numbers per row."""
        height = _block_rows(width)
        for start in range(0, len(self.counts), height):
            yield self.counts[start : start + height]


def draw_items(
    count: int,
    *,
    clusters: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Draws:
    """Resamples of `count` items, at least one. The same seed gives the same draws."""
    random = np.random.default_rng(seed)
    units = np.arange(count) if clusters is None else cluster_index(clusters)
    cluster_count = unit_count = int(units.max()) + 1
    if unit_count > MAX_UNITS:
        # Random groups of nearly equal size; neighbors in the data set may be alike.
        units = (random.permutation(unit_count) % MAX_UNITS)[units]
        unit_count = MAX_UNITS
    blocks = [
        _draw_block(random, min(_block_rows(unit_count), resamples - start), unit_count)
        for start in range(0, resamples, _block_rows(unit_count))
    ]
    # `uint16`: a unit is drawn at most `MAX_UNITS` times per row, and the table is what takes the
    # memory.
    counts = np.concatenate([np.ones((1, unit_count), dtype=np.uint16), *blocks])
    return Draws(
        counts=counts,
        units=units.astype(np.intp),
        clusters=None if clusters is None else cluster_count,
    )


def _draw_block(random: np.random.Generator, rows: int, units: int) -> NDArray[np.uint16]:
    indices = random.integers(0, units, (rows, units))
    # Shifted by row, so that one bincount counts all rows at once.
    indices += np.arange(rows)[:, None] * units
    counts = np.bincount(indices.ravel(), minlength=rows * units)
    return counts.reshape(rows, units).astype(np.uint16)


def _block_rows(width: int) -> int:
    return max(1, _BLOCK_CELLS // max(1, width))


def cluster_index(clusters: Sequence[str]) -> IntArray:
    """The index of each item's cluster among the sorted cluster names."""
    return np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)[1].astype(np.intp)


def resampled_statistic(
    stat: str, values: FloatArray, item_index: IntArray, draws: Draws
) -> FloatArray:
    """A statistic of a run in every row; NaN where it has no value.

    `stat` is its name in formulas. `values` are the values of the traces, NaN where missing, and
    `item_index` their items. The mean is that of the items' means; all other statistics are over the
    traces of the drawn items. Row 0 is the aggregate of the run, within rounding.
    Raises: ValueError for an unknown statistic.
    """
    if stat == "mean":
        return _mean_of_items(reduce_trials(item_index, values, len(draws.units)), draws)
    units = draws.units[item_index]
    is_present = np.isfinite(values)
    if stat in _PERCENT:
        return _percentile(_PERCENT[stat], values[is_present], units[is_present], draws)
    # Deviations from the mean lose no digits when squares of large numbers are subtracted.
    center = float(values[is_present].mean()) if is_present.any() else 0.0
    deviations = np.where(is_present, values - center, 0.0)
    columns = (
        np.ones(len(units)), is_present.astype(np.float64), deviations, deviations * deviations,
    )  # fmt: skip
    per_unit = [_sums(column, units, draws) for column in columns]
    sums: list[FloatArray] = list(draws.sums(np.stack(per_unit, axis=1)).T)
    traces, n, total, squares = sums
    with np.errstate(all="ignore"):
        match stat:
            case "sum":
                return np.where(n > 0, center * n + total, np.nan)
            case "n" | "count":
                return n
            case "coverage":
                return _ratio(n, traces)
            case "std":
                sum_of_squares = np.maximum(squares - _ratio(total**2, n), 0.0)
                return np.sqrt(_ratio(sum_of_squares, n - 1))
            case _:
                raise ValueError(f"unknown statistic {stat!r}")


def resampled_counts(
    counts: FloatArray,
    item_index: IntArray,
    label_index: IntArray,
    draws: Draws,
    value: Callable[[IntArray, FloatArray], FloatArray],
) -> FloatArray:
    """A value of the whole run that is computed from sums, such as F1 from a confusion table.

    Row i of `counts` is added by the item `item_index[i]` to the sums of the label `label_index[i]`.
    `value` gets the labels in ascending order and their sums of shape (rows, labels, columns), and
    returns one value per row.
    """
    if not len(label_index):
        return np.full(len(draws.counts), np.nan)
    # Sorted by label, so that one reduceat sums each label's entries of all rows.
    order = np.argsort(label_index, kind="stable")
    units, ordered = draws.units[item_index[order]], counts[order]
    labels, starts = np.unique(label_index[order], return_index=True)
    rows = []
    for block in draws.blocks(len(units)):
        # A block at a time: all rows at once would take rows × entries × 8 bytes.
        weights = block[:, units].astype(np.float64)
        sums = [np.add.reduceat(weights * column, starts, axis=1) for column in ordered.T]
        rows.append(value(labels, np.stack(sums, axis=-1)))
    return np.concatenate(rows)


def resampled_interval(rows: FloatArray, units: int) -> Interval | None:
    """The expanded percentile interval; None without two units or a resample with a value.

    Plain percentiles are too narrow for few units: the tails are those of Student's t instead of the
    normal distribution. Source: Hesterberg 2015, "What teachers should know about the bootstrap".
    """
    finite = np.sort(_finite_resamples(rows))
    if units < MIN_UNITS or not len(finite):
        return None
    quantile = float(special.stdtrit(units - 1, (1 + CONFIDENCE) / 2))
    # The quantile of Student's t, as a probability of the normal distribution: this widens the
    # percentiles.
    tail = float(special.ndtr(-quantile * _expansion(units)))
    low, high = np.quantile(finite, [tail, 1 - tail])
    return Interval(low=float(low), high=float(high))


def resampled_p(rows: FloatArray, units: int) -> float:
    """The two-sided p-value of a difference of 0: the level whose expanded interval ends at 0.

    1 without two units or a resample with a value.
    """
    finite = _finite_resamples(rows)
    if units < MIN_UNITS or not len(finite):
        return 1.0
    beyond_zero = min(int((finite <= 0).sum()), int((finite >= 0).sum()))
    # The observed value counts as one more resample, so that p is never 0.
    tail = (beyond_zero + 1) / (len(finite) + 1)
    if tail >= 0.5:  # noqa: PLR2004 - the median
        return 1.0
    return 2 * float(special.stdtr(units - 1, special.ndtri(tail) / _expansion(units)))


def resampled_error(rows: FloatArray, units: int) -> float | None:
    """The standard error of the statistic; None without two units or two resamples with a value."""
    finite = _finite_resamples(rows)
    if units < MIN_UNITS or len(finite) < 2:  # noqa: PLR2004 - a deviation needs two values
        return None
    return float(finite.std(ddof=1)) * _expansion(units)


def share_at_least(rows: FloatArray, threshold: float) -> float | None:
    """The share of the resamples that reach the threshold; None without a resample with a value."""
    finite = _finite_resamples(rows)
    return float((finite >= threshold).mean()) if len(finite) else None


def _finite_resamples(rows: FloatArray) -> FloatArray:
    """The resamples with a value, without the observed value in row 0."""
    resamples = rows[1:]
    return resamples[np.isfinite(resamples)]


def _expansion(units: int) -> float:
    """Resamples vary by a factor of √((n − 1)/n) too little, because they are drawn from a sample."""
    return math.sqrt(units / (units - 1))


def _mean_of_items(items: ItemSums, draws: Draws) -> FloatArray:
    has_value = items.n > 0
    means, units = items.means[has_value], draws.units[has_value]
    # Deviations from the mean lose no digits when large numbers are added.
    center = float(means.mean()) if len(means) else 0.0
    per_unit = [_sums(column, units, draws) for column in (means - center, np.ones(len(means)))]
    total, n = draws.sums(np.stack(per_unit, axis=1)).T
    return _ratio(total, n) + center


def _sums(values: FloatArray, units: IntArray, draws: Draws) -> FloatArray:
    return np.bincount(units, weights=values, minlength=draws.unit_count).astype(np.float64)


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; NaN where the denominator is not positive."""
    is_positive = denominator > 0
    return np.where(is_positive, numerator / np.where(is_positive, denominator, 1.0), np.nan)


def _percentile(percent: float, values: FloatArray, units: IntArray, draws: Draws) -> FloatArray:
    """The percentile of the drawn traces, interpolated as in `app.metrics.aggregate`.

    The values are sorted once: in each row, the cumulated counts say which of them is the i-th.
    """
    if not len(values):
        return np.full(len(draws.counts), np.nan)
    order = np.argsort(values, kind="stable")
    ordered, sorted_units = values[order], units[order]
    rows = []
    for block in draws.blocks(len(values)):
        cumulated = np.cumsum(block[:, sorted_units], axis=1, dtype=np.int32)
        n = cumulated[:, -1]
        rank = np.maximum(n - 1, 0) * (percent / 100)
        lower_rank = np.floor(rank)
        low = ordered[_first_above(cumulated, lower_rank)]
        high = ordered[_first_above(cumulated, np.minimum(lower_rank + 1, n - 1))]
        fraction = rank - lower_rank
        # From the nearer end, as numpy does it: the result never leaves [low, high] by rounding.
        from_low = low + (high - low) * fraction
        from_high = high - (high - low) * (1 - fraction)
        is_lower_half = fraction < 0.5  # noqa: PLR2004 - the middle
        rows.append(np.where(n > 0, np.where(is_lower_half, from_low, from_high), np.nan))
    return np.concatenate(rows)


def _first_above(cumulated: NDArray[np.int32], rank: FloatArray) -> IntArray:
    index: IntArray = np.argmax(cumulated > rank[:, None], axis=1)
    return index
