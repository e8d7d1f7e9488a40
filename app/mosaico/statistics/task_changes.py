"""Which single items changed by themselves, from the trials of each. Needs numpy.

A few broken items of many move the mean by less than a whole run may, while their own trials leave no doubt: no run
that varies by a few points turns an item from ten passes of ten to none. So each item has a test of its own, at a level
that is a tenth of that of the mean: together they call at most 5.5 % of unchanged pairs.

Source: Fisher 1935 (exact test of each item), Holm 1979 (over all items).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from mosaico.statistics.distributions import normal_cdf, normal_quantile
from mosaico.statistics.multiplicity import holm
from mosaico.statistics.trials import REPEATED_TRIALS, FloatArray, ItemSums
from mosaico.statistics.verdict_rules import ALPHA, TaskChanges

# The level of single items, as a share of that of the mean.
TASK_SHARE: Final = 0.1


def find_task_changes(
    items: Sequence[str], before: ItemSums, after: ItemSums, *, runs_variance: float = 0.0
) -> TaskChanges | None:
    """The items that changed by themselves, from passes and failures; None for other values, and for single trials.

    `fell` passed in all trials before and in none after, `rose` the reverse: both need two trials in each run.
    `beyond_chance` are those of which the trials alone prove a change, whatever else changed. `runs_variance` is what
    whole runs add to the variance of the change of each item, in the squared unit of the values.
    """
    is_repeated = np.minimum(before.n, after.n) >= REPEATED_TRIALS
    if not (before.are_binary and after.are_binary and is_repeated.any()):
        return None
    always, never = (before.total == before.n, before.total == 0)
    fell = is_repeated & always & (after.total == 0)
    rose = is_repeated & never & (after.total == after.n)
    names = np.asarray(items, dtype=object)
    changes = after.means - before.means
    p_values = np.array(holm(_item_p(before, after, runs_variance)))
    return TaskChanges(
        items=len(items),
        fell=tuple(names[fell]),
        rose=tuple(names[rose]),
        beyond_chance=tuple(names[p_values < ALPHA * TASK_SHARE]),
        p_fall=_least(p_values[changes < 0]),
        p_rise=_least(p_values[changes > 0]),
    )


def _least(p_values: FloatArray) -> float:
    """The smallest p-value, at the level of the mean."""
    return min(1.0, float(p_values.min(initial=1.0)) / TASK_SHARE)


def _item_p(before: ItemSums, after: ItemSums, runs_variance: float) -> list[float]:
    """The p-value of each item: that of Fisher's test, for a change that varies as whole runs do, too."""
    counts = np.stack([before.n, before.total, after.n, after.total]).astype(int).T.tolist()
    widening = np.sqrt(1 + runs_variance / _exchange_variance(before, after)).tolist()
    # The quantile of 0.5 is 0: an item without any change has the p-value 1.
    return [
        2 * normal_cdf(normal_quantile(fisher_p(*row) / 2) / widened)
        for row, widened in zip(counts, widening, strict=True)
    ]


def _exchange_variance(before: ItemSums, after: ItemSums) -> FloatArray:
    """The variance of the change of each item, over all exchanges of its trials; infinite where they are all alike."""
    trials, passed = before.n + after.n, before.total + after.total
    squares = passed * (trials - passed) / trials
    variance: FloatArray = (1 / before.n + 1 / after.n) * squares / np.maximum(trials - 1, 1)
    return np.where(variance > 0, variance, np.inf)


@lru_cache(maxsize=4096)
def fisher_p(first: int, first_passed: int, second: int, second_passed: int) -> float:
    """The two-sided p-value of a change of the share of passes, of so many trials.

    Equals `scipy.stats.fisher_exact` within 1e-12.
    """
    passed, ways = (
        first_passed + second_passed,
        math.comb(first + second, first_passed + second_passed),
    )
    observed = math.comb(first, first_passed) * math.comb(second, second_passed)
    tables = (
        math.comb(first, count) * math.comb(second, passed - count)
        for count in range(max(0, passed - second), min(first, passed) + 1)
    )
    return sum(table for table in tables if table <= observed) / ways
