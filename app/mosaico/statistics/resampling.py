"""Resamples of a KPI that jumps: percentiles, and formulas with a THRESHOLD or IF. Needs numpy.

The influence of an item does not describe a jump, so the KPI is computed again for resamples of
the items, which are drawn with all their trials, and in whole clusters where items are clustered.
One `Draws` serves every metric and both runs, so that correlated values stay correlated. Row 0 of
every column is the observed value.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaico.statistics.change import ChangeTest
from mosaico.statistics.distributions import t_cdf, t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.trials import FloatArray, IntArray, reduce_trials
from mosaico.statistics.whole_runs import RunEffect

# How often the runs are exchanged, and how often the items are drawn.
SWAPS = 1999
RESAMPLES = 999
# Any fixed number: equal input must give equal bits, in every process and after every restart.
SEED = 37
# More units do not improve the test; beyond, random groups of units are drawn together.
MAX_UNITS = 2000
# A block this small stays in the CPU cache, and BLAS computes it in one thread: with more threads
# the order of additions, and so the last bits of a verdict, would depend on the machine.
_BLOCK_CELLS = 1 << 16
_PERCENTILE = re.compile("p([1-9][0-9]?)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """The number of draws of each unit in each row; row 0 contains every unit of the run once.

    `units` maps each item to its unit: the item itself, its cluster, or a random group of many.
    """

    counts: NDArray[np.uint16]
    units: IntArray

    @property
    def unit_count(self) -> int:
        return int(self.counts.shape[1])

    def sums(self, per_unit: FloatArray) -> FloatArray:
        """The sums over the drawn units of each row: (rows, k) from (units, k)."""
        return np.concatenate(
            [block.astype(np.float64) @ per_unit for block in self.blocks(self.unit_count)]
        )

    def blocks(self, width: int) -> Iterator[NDArray[np.uint16]]:
        """The counts in blocks of rows, sized for computations with `width` numbers per row."""
        height = max(1, _BLOCK_CELLS // max(1, width))
        for start in range(0, len(self.counts), height):
            yield self.counts[start : start + height]


class DrawnPair(NamedTuple):
    """Draws of a baseline and a candidate from the items of both, first those of the baseline.

    After row 0 come `SWAPS` rows in which random units are exchanged between the runs, then
    `RESAMPLES` rows in which the units are drawn with replacement.
    """

    baseline: Draws
    candidate: Draws


def draw_run(units: IntArray) -> Draws:
    """Resamples of one run; `units` maps each item to its unit."""
    random = np.random.default_rng(SEED)
    grouped, count = _grouped(units, random)
    resamples = _resamples(random, count)
    return Draws(counts=np.concatenate([_ones(count), resamples]), units=grouped)


def draw_pair(units: IntArray) -> DrawnPair:
    """Exchanges and resamples of two runs of the same items."""
    random = np.random.default_rng(SEED)
    grouped, count = _grouped(units, random)
    swapped = random.integers(0, 2, (SWAPS, count), dtype=np.uint16)
    own = np.concatenate([_ones(count), 1 - swapped, _resamples(random, count)])
    other = np.zeros_like(own)
    other[1 : SWAPS + 1] = swapped
    both = np.concatenate([grouped, grouped + count])
    return DrawnPair(
        Draws(counts=np.concatenate([own, other], axis=1), units=both),
        Draws(counts=np.concatenate([other, own], axis=1), units=both),
    )


def _grouped(units: IntArray, random: np.random.Generator) -> tuple[IntArray, int]:
    count = int(units.max()) + 1
    if count <= MAX_UNITS:
        return units, count
    # Random groups of nearly equal size; neighbors in the data set may be alike.
    return (random.permutation(count) % MAX_UNITS)[units].astype(np.intp), MAX_UNITS


def _ones(count: int) -> NDArray[np.uint16]:
    return np.ones((1, count), dtype=np.uint16)


def _resamples(random: np.random.Generator, count: int) -> NDArray[np.uint16]:
    items = random.integers(0, count, (RESAMPLES, count))
    cells = items + count * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(cells.ravel(), minlength=RESAMPLES * count)
    return counts.reshape(RESAMPLES, count).astype(np.uint16)


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
        return _mean_of_items(values, item_index, draws)
    units = draws.units[item_index]
    is_present = np.isfinite(values)
    percent = _percent_of(stat)
    if percent is not None:
        return _percentile(percent, values[is_present], units[is_present], draws)
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


def _percent_of(stat: str) -> float | None:
    """The percent of an order statistic; None for any other statistic."""
    match = _PERCENTILE.fullmatch(stat)
    return float(match[1]) if match else {"min": 0.0, "max": 100.0}.get(stat)


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


def swap_test(
    baseline: FloatArray,
    candidate: FloatArray,
    units: int,
    *,
    width: float | None = None,
    is_stable: bool = False,
) -> ChangeTest:
    """The test of a change from its rows in a `DrawnPair`.

    p is the share of exchanges with a change at least as large (ties count by half). The interval
    is the effect ± Student's t times the spread of the resamples, and includes 0 where the
    exchanges do not exclude it. With `is_stable` no resample of either run takes another branch of
    the formula: then the spread alone decides, because exchanged runs lie between the two and may
    be at the jump although neither run is.
    Source: Fisher 1935 §21; Lancaster 1961 for the ties (mid-p).
    """
    rows = candidate - baseline
    effect = float(rows[0])
    swaps, resamples = rows[1 : SWAPS + 1], rows[SWAPS + 1 :]
    swaps, resamples = swaps[np.isfinite(swaps)], resamples[np.isfinite(resamples)]
    if units < 2 or len(resamples) < 2 or not len(swaps):  # noqa: PLR2004 - a deviation
        return ChangeTest(
            effect=effect, p=1.0, error=math.nan, degrees=0.0, units=units, unit_changes=np.zeros(0),
            can_decide=False, width=width,
        )  # fmt: skip
    spread = float(resamples.std(ddof=1)) * math.sqrt(units / (units - 1))
    p = max(_t_p(effect, spread, units - 1), 1 / (1 + len(resamples)))
    if not is_stable:
        p = max(p, _mid_p(abs(effect), np.abs(swaps)))
    return _SwapTest(
        effect=effect,
        p=p,
        error=spread,
        degrees=units - 1.0,
        units=units,
        unit_changes=np.zeros(0),
        can_decide=0.5 ** (units - 1) / 2 < 0.05,  # noqa: PLR2004 - all units exchanged, mid-p
        width=width,
    )


class _SwapTest(ChangeTest):
    """A test by exchanging the runs."""

    def widened(self, runs: RunEffect) -> ChangeTest:
        """The test with what whole runs add: besides the exchanges, the spread with it has to exclude chance."""
        if not self.error > 0:
            return self
        widened = replace(self, runs=runs, error=math.hypot(self.error, math.sqrt(runs.variance)))
        spread_p = _t_p(self.effect, widened.error, widened.test_degrees)
        return replace(widened, p=max(self.p, spread_p))

    def interval(self, alpha: float) -> Interval:
        half_width = t_quantile(1 - alpha / 2, self.test_degrees) * self.error
        low, high = self.effect - half_width, self.effect + half_width
        if self.p >= alpha:
            low, high = min(low, 0.0), max(high, 0.0)
        return self._within_width(low, high)


def _t_p(effect: float, error: float, degrees: float) -> float:
    if error == 0:
        return float(effect == 0)
    return 2 * t_cdf(-abs(effect) / error, degrees)


def _mid_p(observed: float, swaps: FloatArray) -> float:
    """The share of exchanges that are farther from 0 than observed, ties by half.

    The observed change is one of the exchanges, so that p is never 0.
    """
    if observed == 0:
        return 1.0
    # Sums of the same numbers in another order differ in the last bits and must count as ties.
    tolerance = 1e-9 * observed
    farther = float((swaps > observed + tolerance).sum())
    ties = float((np.abs(swaps - observed) <= tolerance).sum()) + 1
    return (farther + ties / 2) / (len(swaps) + 1)


def _mean_of_items(values: FloatArray, item_index: IntArray, draws: Draws) -> FloatArray:
    items = reduce_trials(item_index, values, len(draws.units))
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
    """The percentile of the drawn traces, interpolated as in `mosaico.metrics.aggregate`.

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
        nearer = np.where(is_lower_half, from_low, from_high)
        # The distance of two numbers may overflow, which they themselves do not.
        percentiles = np.where(
            np.isfinite(high - low), nearer, low * (1 - fraction) + high * fraction
        )
        rows.append(np.where(n > 0, percentiles, np.nan))
    return np.concatenate(rows)


def _first_above(cumulated: NDArray[np.int32], rank: FloatArray) -> IntArray:
    index: IntArray = np.argmax(cumulated > rank[:, None], axis=1)
    return index
