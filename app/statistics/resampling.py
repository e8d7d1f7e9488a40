"""Bootstrap over items: what a statistic, or a formula of several, would have been had other items
of the same kind been asked. Needs numpy.

Items are drawn with all their trials, whole clusters where items are grouped; one `Draws` serves
every metric and both runs, so that what moves together stays together. Row 0 of every result is
the statistic as it was seen, the others are the resamples.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.statistics.intervals import Interval
from app.statistics.repeats import FloatArray, IntArray, ItemSums, reduce_trials
from app.statistics.student_t import t_quantile, two_sided_p
from app.statistics.verdict import CONFIDENCE

RESAMPLES = 2000
SEED = 37
# More units make the interval no better; random groups of items are drawn together instead.
UNITS_AT_MOST = 2000
# Few enough to stay in the cache, and for one thread: the sums do not depend on how many there are.
_CELLS_AT_ONCE = 1 << 16
_NORMAL = NormalDist()
_PERCENT = {"min": 0.0, "p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


class Drawn(NamedTuple):
    """How many items are drawn, in how many units, and in how many clusters, where there are any."""

    items: int
    units: int
    clusters: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """How often each unit was drawn in each row, row 0 being every unit once.

    `units` is the unit of each item: the item itself, its cluster, or a random group of many;
    `clusters` counts the clusters, where there are any.
    """

    counts: NDArray[np.uint16]
    units: IntArray
    clusters: int | None = None

    @property
    def unit_count(self) -> int:
        return int(self.counts.shape[1])

    def among(self, items: NDArray[np.bool_] | None = None) -> "Drawn":
        """How much is drawn of some items; of all when left out."""
        if items is None or items.all():
            return Drawn(len(self.units), self.unit_count, self.clusters)
        units = len(np.unique(self.units[items]))
        return Drawn(int(np.count_nonzero(items)), units, self.clusters and units)

    def sums(self, per_unit: FloatArray) -> FloatArray:
        """Sums over the drawn units, a row each: (rows, k) from (units, k)."""
        return np.concatenate(
            [block.astype(np.float64) @ per_unit for block in self.blocks(self.unit_count)]
        )

    def blocks(self, width: int) -> Iterator[NDArray[np.uint16]]:
        """How often each unit was drawn, so many resamples at once as `width` numbers each allow."""
        height = _rows_at_once(width)
        for start in range(0, len(self.counts), height):
            yield self.counts[start : start + height]


def draw_items(
    count: int,
    *,
    clusters: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Draws:
    """Resamples of `count` items, at least one; the same seed gives the same draws."""
    random = np.random.default_rng(seed)
    units = np.arange(count) if clusters is None else cluster_places(clusters)
    named = found = int(units.max()) + 1
    if found > UNITS_AT_MOST:
        units = (random.permutation(found) % UNITS_AT_MOST)[units]
        found = UNITS_AT_MOST
    drawn = [
        _drawn(random, min(_rows_at_once(found), resamples - start), found)
        for start in range(0, resamples, _rows_at_once(found))
    ]
    counts = np.concatenate([np.ones((1, found), dtype=np.uint16), *drawn])
    return Draws(
        counts=counts,
        units=units.astype(np.intp),
        clusters=None if clusters is None else named,
    )


def _drawn(random: np.random.Generator, rows: int, units: int) -> NDArray[np.uint16]:
    places = random.integers(0, units, (rows, units))
    places += np.arange(rows)[:, None] * units
    counts = np.bincount(places.ravel(), minlength=rows * units)
    return counts.reshape(rows, units).astype(np.uint16)


def _rows_at_once(width: int) -> int:
    return max(1, _CELLS_AT_ONCE // max(1, width))


def cluster_places(clusters: Sequence[str]) -> IntArray:
    """The place of each item's cluster among the sorted names of all."""
    return np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)[1].astype(np.intp)


def resampled_statistic(stat: str, values: FloatArray, items: IntArray, draws: Draws) -> FloatArray:
    """A statistic of a run by the name that formulas use, in every row; NaN where it has no value.
    The mean is that of the items' means; all others are of the traces of the items that were drawn.

    `values` are those of the traces, NaN where one is missing, and `items` the places of their
    items. Row 0 is the aggregate that the run shows, within rounding.
    Raises: ValueError for an unknown statistic.
    """
    if stat == "mean":
        return _mean_of_items(reduce_trials(items, values, len(draws.units)), draws)
    units = draws.units[items]
    present = np.isfinite(values)
    if stat in _PERCENT:
        return _percentile(_PERCENT[stat], values[present], units[present], draws)
    # Around the mean: no digits are lost when squares of large numbers are subtracted.
    center = float(values[present].mean()) if present.any() else 0.0
    around = np.where(present, values - center, 0.0)
    columns = (np.ones(len(units)), present.astype(np.float64), around, around * around)
    per_unit = [_sums(each, units, draws) for each in columns]
    sums: list[FloatArray] = list(draws.sums(np.stack(per_unit, axis=1)).T)
    traces, n, total, squares = sums
    with np.errstate(all="ignore"):
        match stat:
            case "sum":
                return np.where(n > 0, center * n + total, np.nan)
            case "n" | "count":
                return n
            case "coverage":
                return _over(n, traces)
            case "std":
                deviations = np.maximum(squares - _over(total**2, n), 0.0)
                return np.sqrt(_over(deviations, n - 1))
            case _:
                raise ValueError(f"no statistic is named {stat!r}")


def resampled_counts(
    counts: FloatArray,
    items: IntArray,
    names: IntArray,
    draws: Draws,
    value: Callable[[IntArray, FloatArray], FloatArray],
) -> FloatArray:
    """A value of the whole run that is read off sums, such as an F1 off a table of confusions.

    Row i of `counts` is what the item `items[i]` adds to the sums of `names[i]`. `value` is given
    the names in their order and sums of shape (rows, names, columns), and returns one a row.
    """
    if not len(names):
        return np.full(len(draws.counts), np.nan)
    order = np.argsort(names, kind="stable")
    units, ordered = draws.units[items[order]], counts[order]
    known, starts = np.unique(names[order], return_index=True)
    found = []
    for block in draws.blocks(len(units)):
        drawn = block[:, units].astype(np.float64)
        sums = [np.add.reduceat(drawn * column, starts, axis=1) for column in ordered.T]
        found.append(value(known, np.stack(sums, axis=-1)))
    return np.concatenate(found)


def resampled_interval(rows: FloatArray, units: int) -> Interval | None:
    """The percentile interval, widened as Student's t widens a normal one: plain percentiles are too
    narrow for few units. None without two units, or without a resample that has a value.

    Source: Hesterberg 2015 (expanded percentile interval).
    """
    known = np.sort(rows[1:][np.isfinite(rows[1:])])
    if units < 2 or not len(known):  # noqa: PLR2004
        return None
    reach = t_quantile((1 + CONFIDENCE) / 2, units - 1) * math.sqrt(units / (units - 1))
    tail = _NORMAL.cdf(-reach)
    low, high = np.quantile(known, [tail, 1 - tail])
    return Interval(low=float(low), high=float(high))


def resampled_p(rows: FloatArray, units: int) -> float:
    """How likely a difference as large is by chance: where the interval that just touches 0 ends.

    1 without two units, or without a resample that has a value.
    """
    known = rows[1:][np.isfinite(rows[1:])]
    if units < 2 or not len(known):  # noqa: PLR2004
        return 1.0
    beyond = min(int((known <= 0).sum()), int((known >= 0).sum()))
    share = (beyond + 1) / (len(known) + 1)
    if share >= 0.5:  # noqa: PLR2004
        return 1.0
    return two_sided_p(_NORMAL.inv_cdf(share) / math.sqrt(units / (units - 1)), units - 1)


def resampled_error(rows: FloatArray, units: int) -> float | None:
    """The standard error of the statistic; None where `resampled_interval` is None."""
    known = rows[1:][np.isfinite(rows[1:])]
    if units < 2 or len(known) < 2:  # noqa: PLR2004
        return None
    return float(known.std(ddof=1)) * math.sqrt(units / (units - 1))


def share_at_least(rows: FloatArray, threshold: float) -> float | None:
    """The share of the resamples that reach the threshold; None without one that has a value."""
    known = rows[1:][np.isfinite(rows[1:])]
    return float((known >= threshold).mean()) if len(known) else None


def _mean_of_items(items: ItemSums, draws: Draws) -> FloatArray:
    valued = items.n > 0
    means, units = items.means[valued], draws.units[valued]
    # Around the mean: no digits are lost when large numbers are added.
    center = float(means.mean()) if len(means) else 0.0
    per_unit = [_sums(each, units, draws) for each in (means - center, np.ones(len(means)))]
    total, n = draws.sums(np.stack(per_unit, axis=1)).T
    return _over(total, n) + center


def _sums(values: FloatArray, units: IntArray, draws: Draws) -> FloatArray:
    found = np.bincount(units, weights=values, minlength=draws.unit_count)
    return found.astype(np.float64)


def _over(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def _percentile(percent: float, values: FloatArray, units: IntArray, draws: Draws) -> FloatArray:
    """The percentile of the drawn traces, between two order statistics as `aggregate` has it."""
    if not len(values):
        return np.full(len(draws.counts), np.nan)
    order = np.argsort(values, kind="stable")
    ordered, places = values[order], units[order]
    found = []
    for block in draws.blocks(len(values)):
        reached = np.cumsum(block[:, places], axis=1, dtype=np.int32)
        n = reached[:, -1]
        place = np.maximum(n - 1, 0) * (percent / 100)
        below = np.floor(place)
        low = ordered[_first_beyond(reached, below)]
        high = ordered[_first_beyond(reached, np.minimum(below + 1, n - 1))]
        between = place - below
        near_low = low + (high - low) * between
        near_high = high - (high - low) * (1 - between)
        found.append(np.where(n > 0, np.where(between < 0.5, near_low, near_high), np.nan))  # noqa: PLR2004
    return np.concatenate(found)


def _first_beyond(reached: NDArray[np.int32], place: FloatArray) -> IntArray:
    found: IntArray = np.argmax(reached > place[:, None], axis=1)
    return found
