"""Reduces the trials of each item to sums before anything else is computed, and removes the skewness of
a change between several runs and one. Needs numpy.

Trials of one item resemble each other: treated as independent they would make every interval too
narrow.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.statistics.passes import PassCounts, PassFunction, mean_over_counts

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]

# A single trial shows no variance, and does not tell a broken item from a flaky one.
REPEATED_TRIALS = 2
# Below this skewness Hall's transformation equals Student's t to the last digits.
_SYMMETRIC = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemSums:
    """The values of one run by item: number of trials with a value, their sum, sum of squares.

    Three arrays with one entry per item; `n` is 0 for an item without a value.
    """

    n: FloatArray
    total: FloatArray
    squares: FloatArray

    @property
    def means(self) -> FloatArray:
        """The mean of each item; NaN without a value."""
        means = np.full(len(self.n), np.nan)
        np.divide(self.total, self.n, out=means, where=self.n > 0)
        return means

    @property
    def trial_variances(self) -> FloatArray:
        """The sample variance of each item's trials; NaN below two trials."""
        is_repeated = self.n > 1
        degrees = np.where(is_repeated, self.n - 1, 1.0)
        correction = np.where(is_repeated, self.total**2 / np.maximum(self.n, 1), 0.0)
        # Rounding may bring the difference of two equal numbers below zero.
        deviations = np.maximum(self.squares - correction, 0.0)
        return np.where(is_repeated, deviations / degrees, np.nan)

    @property
    def are_binary(self) -> bool:
        """Return whether all values, which are in [0, 1], are 0 or 1: only these equal their
        squares.
        """
        return bool((self.total == self.squares).all())

    def where(self, mask: NDArray[np.bool_]) -> "ItemSums":
        """The items selected by a mask."""
        return ItemSums(n=self.n[mask], total=self.total[mask], squares=self.squares[mask])

    def times(self, factor: float) -> "ItemSums":
        """The sums of the values times a factor."""
        return ItemSums(n=self.n, total=factor * self.total, squares=factor**2 * self.squares)


def reduce_trials(item_index: IntArray, values: FloatArray, item_count: int) -> ItemSums:
    """The sums of each item; `values[i]` belongs to item `item_index[i]`, NaN is a missing value."""
    # An infinite value counts as missing: one of them would make every sum infinite.
    is_present = np.isfinite(values)
    index, present = item_index[is_present], values[is_present]

    def sums(weights: FloatArray | None) -> FloatArray:
        return np.bincount(index, weights=weights, minlength=item_count).astype(np.float64)

    return ItemSums(n=sums(None), total=sums(present), squares=sums(present * present))


def unit_sums(values: FloatArray | None, units: IntArray) -> FloatArray:
    """The sums of the items' values by unit; without values the number of items."""
    return np.bincount(units, weights=values).astype(np.float64)


def mean_over_items(statistic: PassFunction, passes: ItemSums, k: int) -> float | None:
    """The mean of a pass@k statistic over the items with at least k trials; None without one."""
    counts = zip(passes.n.astype(int).tolist(), passes.total.astype(int).tolist(), strict=True)
    return mean_over_counts(statistic, Counter(PassCounts(*pair) for pair in counts), k)


def values_of_passes(statistic: PassFunction, passes: ItemSums, k: int) -> FloatArray:
    """A pass@k statistic of each item; NaN with fewer than k trials, and for all items where a value is not 0 or 1."""
    if not passes.are_binary:
        return np.full(len(passes.n), np.nan)
    counts = np.stack([passes.n, passes.total], axis=1).astype(int)
    distinct, index = np.unique(counts, axis=0, return_inverse=True)
    values = (statistic(trials, passed, k) for trials, passed in distinct.tolist())
    return np.array([math.nan if value is None else value for value in values])[index.ravel()]


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
