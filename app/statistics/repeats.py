"""Several trials of one item, reduced to one number before anything else is done with them.

Trials of an item resemble each other: taken as independent they would make every interval too
narrow. Needs numpy.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import comb, fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemSums:
    """The values of one run by item: how many trials have one, their sum, the sum of their squares.

    Three arrays of one length, an entry an item; n is 0 where no trial has a value.
    """

    n: FloatArray
    total: FloatArray
    squares: FloatArray

    @property
    def means(self) -> FloatArray:
        """The mean of each item; NaN where no trial has a value."""
        found = np.full(len(self.n), np.nan)
        np.divide(self.total, self.n, out=found, where=self.n > 0)
        return found

    @property
    def within(self) -> FloatArray:
        """The variance of each item's trials (n - 1); NaN below two trials."""
        repeated = self.n > 1
        spare = np.where(repeated, self.n - 1, 1.0)
        deviations = self.squares - np.where(repeated, self.total**2 / np.maximum(self.n, 1), 0.0)
        return np.where(repeated, np.maximum(deviations, 0.0) / spare, np.nan)

    @property
    def are_passes(self) -> bool:
        """Whether all values, which are shares, are 0 or 1: only of these the square is the same."""
        return bool((self.total == self.squares).all())

    def where(self, kept: NDArray[np.bool_]) -> "ItemSums":
        """Only the items that are kept."""
        return ItemSums(n=self.n[kept], total=self.total[kept], squares=self.squares[kept])


def reduce_trials(items: IntArray, values: FloatArray, count: int) -> ItemSums:
    """The sums of each of `count` items; `items[i]` is the place of the item that `values[i]`
    belongs to, and NaN stands for a value that is missing.
    """
    present = np.isfinite(values)
    places, kept = items[present], values[present]

    def sums(weights: FloatArray | None) -> FloatArray:
        return np.bincount(places, weights=weights, minlength=count).astype(np.float64)

    return ItemSums(n=sums(None), total=sums(kept), squares=sums(kept * kept))


def pass_at_k(trials: int, passed: int, k: int) -> float | None:
    """The chance that at least one of k trials passes, of those seen; None with fewer than k.

    Source: Chen et al. 2021 (unbiased).
    """
    _check(trials, passed, k)
    return None if trials < k else 1.0 - comb(trials - passed, k) / comb(trials, k)


def pass_hat_k(trials: int, passed: int, k: int) -> float | None:
    """The chance that all of k trials pass, of those seen; None with fewer than k.

    Source: Yao et al. 2024 (pass^k).
    """
    _check(trials, passed, k)
    return None if trials < k else comb(passed, k) / comb(trials, k)


def at_least_k(trials: int, passed: int, k: int) -> float | None:
    """1 when at least k trials passed, else 0; None with fewer than k trials."""
    _check(trials, passed, k)
    return None if trials < k else float(passed >= k)


def over_items(
    of_item: Callable[[int, int, int], float | None], passes: ItemSums, k: int
) -> float | None:
    """The mean of `pass_at_k` or one of its kin over the items that have k trials; None without one."""
    kinds = Counter(
        zip(passes.n.astype(int).tolist(), passes.total.astype(int).tolist(), strict=True)
    )
    known = [
        (value, count)
        for (trials, passed), count in sorted(kinds.items())
        if (value := of_item(trials, passed, k)) is not None
    ]
    items = sum(count for _, count in known)
    return fsum(value * count for value, count in known) / items if items else None


def _check(trials: int, passed: int, k: int) -> None:
    if not 0 <= passed <= trials or k < 1:
        raise ValueError(f"{passed} of {trials} trials passed and k = {k}: no such thing")
