"""pass@k and pass^k of repeated trials, by counts of trials and passes; pure."""

from collections.abc import Callable, Mapping
from math import comb, fsum
from typing import NamedTuple, TypeAlias


class PassCounts(NamedTuple):
    """The trials of an item that have a value, and how many of them passed."""

    trials: int
    passed: int


# By these counts, the number of items that have them.
ItemsByCounts: TypeAlias = Mapping[PassCounts, int]
PassFunction: TypeAlias = Callable[[int, int, int], float | None]


def pass_at_k(trials: int, passed: int, k: int) -> float | None:
    """The estimated probability that at least one of k trials passes; None with fewer than k.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (unbiased).
    """
    _check(trials, passed, k)
    return None if trials < k else 1.0 - comb(trials - passed, k) / comb(trials, k)


def pass_hat_k(trials: int, passed: int, k: int) -> float | None:
    """The estimated probability that all of k trials pass; None with fewer than k.

    Source: Yao et al. 2024, "τ-bench" (pass^k).
    """
    _check(trials, passed, k)
    return None if trials < k else comb(passed, k) / comb(trials, k)


def at_least_k(trials: int, passed: int, k: int) -> float | None:
    """1 when at least k trials passed, else 0; None with fewer than k trials."""
    _check(trials, passed, k)
    return None if trials < k else float(passed >= k)


def mean_over_counts(statistic: PassFunction, items: ItemsByCounts, k: int) -> float | None:
    """The mean of a pass@k statistic over the items with at least k trials; None without one.

    Items with equal counts share one evaluation, because binomials of large numbers are slow.
    """
    terms = [
        (value, count)
        for counts, count in sorted(items.items())
        if (value := statistic(counts.trials, counts.passed, k)) is not None
    ]
    item_count = sum(count for _, count in terms)
    return fsum(value * count for value, count in terms) / item_count if item_count else None


def write_passes(items: ItemsByCounts | None) -> list[list[int]] | None:
    """The counts as stored: trials, passes, items."""
    return None if items is None else [[*counts, count] for counts, count in sorted(items.items())]


def read_passes(rows: list[list[int]] | None) -> ItemsByCounts | None:
    """The counts that `write_passes` stored."""
    if rows is None:
        return None
    return {PassCounts(trials, passed): count for trials, passed, count in rows}


def _check(trials: int, passed: int, k: int) -> None:
    if not 0 <= passed <= trials or k < 1:
        raise ValueError(f"invalid counts: {passed} of {trials} trials passed, k = {k}")
