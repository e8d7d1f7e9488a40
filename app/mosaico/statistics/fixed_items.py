"""Did exactly these items change? The test, its interval and its power. Needs numpy.

The items are fixed: only their trials vary by chance. (Whether *other* items of this kind would change is the
question of `mosaico.statistics.change`, which treats the items as a sample.) The test is a score test, stratified by
items: under "no change" the trials of an item could have been made in either run, so the variance is that of all
exchanges of trials between the runs within items. At one trial it is McNemar's test, and for passes and failures that
of Cochran, Mantel and Haenszel.

Source: Cochran 1954, Mantel and Haenszel 1959, for the variance; the interval has the variance at the estimate, and
reaches 0 exactly when the test does not call a change.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mosaico.statistics.distributions import normal_cdf, normal_quantile, t_cdf, t_quantile
from mosaico.statistics.intervals import Interval, unseen_share
from mosaico.statistics.trials import REPEATED_TRIALS, FloatArray, ItemSums
from mosaico.statistics.verdict_rules import ALPHA, POWER, TaskChanges
from mosaico.statistics.whole_runs import NO_RUNS, RunEffect

# A single pass or failure is no evidence, also where the normal distribution would call it.
_LEAST_TRIALS = 1.5
_NO_EVIDENCE_P = 0.5
# A called change has an interval that ends this fraction of it before 0.
_BEFORE_ZERO = 1e-3
_BISECTIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedItemsChange:
    """The tested change of fixed items: `effect` is the mean of `changes` (items,), in the unit of the values.

    `error` is the standard error under "no change"; 0 when no trial differs from another one of its item. `width` is
    the largest possible change, None for an unlimited value. `can_decide` is false when even the largest change of all
    items would have p >= 0.05. `spread` is the variance at the estimate that `interval` needs, and `leverage` how much
    it grows for a distant end. `runs` is what whole runs add to the variance of the effect.
    """

    effect: float
    p: float
    error: float
    changes: FloatArray
    trials: float
    width: float | None
    can_decide: bool
    spread: float
    sample_spread: float
    leverage: float
    runs: RunEffect = NO_RUNS

    def with_tasks(self, tasks: TaskChanges) -> "FixedItemsChange":
        """The change, which single items prove as well: those that changed in the direction of all together."""
        if self.effect == 0:
            return self
        return replace(self, p=min(self.p, tasks.p_fall if self.effect < 0 else tasks.p_rise))

    def interval(self, alpha: float) -> Interval | None:
        """The interval at the level 1 - alpha; None for an unlimited value without any spread."""
        if self.error == 0:
            if self.width is None:
                return None
            reach = self.width * unseen_share(round(self.trials), confidence=1 - alpha)
            return Interval(low=-reach, high=reach)
        reach = self._reach(t_quantile(1 - alpha / 2, self.runs.degrees))
        low, high = self.effect - reach, self.effect + reach
        if self.p < alpha:
            nearest = self.effect * _BEFORE_ZERO
            low, high = (max(low, nearest), high) if self.effect > 0 else (low, min(high, nearest))
        else:
            low, high = min(low, 0.0), max(high, 0.0)
        if self.width is None:
            return Interval(low=low, high=high)
        return Interval(low=max(low, -self.width), high=min(high, self.width))

    def _reach(self, quantile: float) -> float:
        shrunk = 1 - quantile**2 * self.leverage
        if shrunk <= 0:
            return math.inf if self.width is None else 2 * self.width
        variance = max(self.spread / shrunk, self.sample_spread) + self.runs.variance
        return quantile * math.sqrt(variance)


def fixed_items_change(
    before: ItemSums, after: ItemSums, *, width: float | None = None, runs: RunEffect = NO_RUNS
) -> FixedItemsChange | None:
    """The change of the mean of the items; None without an item, or for numbers that overflow.

    Both runs have the same items in the same order, each with at least one value. `runs` is what whole runs add to the
    variance of the change, in the squared unit of the values. Where no trial differs from another one, nothing shows that
    runs vary: their effect is left out.
    """
    count = len(before.n)
    if not count:
        return None
    exchange, squares = 1 / before.n + 1 / after.n, _squares(before) + _squares(after)
    changes, totals = after.means - before.means, before.n + after.n
    effect = float(changes.mean())
    null = float((exchange * (squares + changes**2 / exchange) / (totals - 1)).sum()) / count**2
    at_estimate = (exchange * squares + (changes - effect) ** 2) / (totals - 1)
    error = math.sqrt(null + runs.variance) if null > 0 else 0.0
    if not math.isfinite(effect + error):
        return None
    p = 2 * t_cdf(-abs(effect) / error, runs.degrees) if error else 1.0
    if before.are_binary and after.are_binary and _differing_trials(effect, after) < _LEAST_TRIALS:
        p = max(p, _NO_EVIDENCE_P)
    # All trials of all items change: the largest statistic that these numbers of trials allow.
    largest = count / math.sqrt(float((1 / (totals - 1)).sum()))
    return FixedItemsChange(
        effect=effect,
        p=p,
        error=error,
        changes=changes,
        trials=float(after.n.sum()),
        width=width,
        can_decide=2 * normal_cdf(-largest) < ALPHA,
        spread=float(at_estimate.sum()) / count**2,
        sample_spread=_sample_spread(before, after, changes),
        leverage=1 / ((float(totals.mean()) - 1) * count),
        runs=runs,
    )


def _differing_trials(effect: float, after: ItemSums) -> float:
    return abs(effect) * float(after.n.sum()) * (1 + 1e-9)


def _squares(run: ItemSums) -> FloatArray:
    """The squared deviations of the trials from the mean of their item."""
    squares: FloatArray = np.maximum(run.squares - run.total**2 / run.n, 0.0)
    # The difference of two large numbers is no deviation.
    return np.where(squares > run.squares * 1e-12, squares, 0.0)


def _sample_spread(before: ItemSums, after: ItemSums, changes: FloatArray) -> float:
    """The variance of the mean change from the spread of the trials, or of the changes where some have none."""
    count = len(changes)
    if min(before.n.min(), after.n.min()) >= REPEATED_TRIALS:
        parts = (_squares(run) / (run.n - 1) / run.n for run in (before, after))
        return float(sum(part.sum() for part in parts)) / count**2
    return float(changes.var(ddof=1)) / count if count > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableChange:
    """The change that is found in four of five runs: as a change of the value, and as a number of items that break
    (from always passing to never), None where the values are not passes or where these items are too few.
    """

    effect: float
    broken_items: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedItemsPower:
    """What a test of these items finds.

    `trial` is the variance of one trial of an item; `before` and `after` are the trials of an item. `level` is the
    share of passes that can be lost, None for other values; `reach` is the mean square of the items' change when the
    value changes by 1: 1 for a change that is alike in all items, more for costs, where large items change farther.
    """

    items: int
    before: float
    after: float
    trial: float
    level: float | None = None
    reach: float = 1.0
    runs: RunEffect = NO_RUNS

    def detectable(self) -> DetectableChange | None:
        """The minimum detectable effect; None when no change is found as often.

        For passes it is the larger one of two kinds of drops: all items pass less often, or some of them break.
        """
        if self.level is None:
            effect = self._least(lambda change: self.reach * change**2, self.trial)
            return None if effect is None else DetectableChange(effect=effect, broken_items=None)
        most = math.floor(self.level * self.items + 1e-9)
        # By bisection: the needed share grows with the root of the broken one, so all numbers above the least are found.
        broken = 1 + bisect_left(range(1, most + 1), True, key=self._finds_broken)
        spread = None if broken > most else self._least_spread(self.level)
        if spread is None:
            return None
        return DetectableChange(effect=max(spread, broken / self.items), broken_items=broken)

    def planned(self, items: int, trials: float) -> "FixedItemsPower":
        """What a test of so many items and trials finds, in both runs."""
        return replace(self, items=items, before=trials, after=trials)

    def detectable_effect(self, items: int, trials: float) -> float:
        """The minimum detectable effect of so many items and trials; infinite when no change is found as often."""
        found = self.planned(items, trials).detectable()
        return math.inf if found is None else found.effect

    def _finds_broken(self, items: int) -> bool:
        share = items / self.items
        is_more_than_one = items * self.after >= _LEAST_TRIALS
        return is_more_than_one and share >= self._needed(share, self.trial)

    def _least_spread(self, level: float) -> float | None:
        squared = max(level * level, level - self.trial)

        def is_found(change: float) -> bool:
            share = change / level
            left = max(0.0, (1 - share) * level - (1 - share) ** 2 * squared)
            return change >= self._needed(share**2 * squared, left)

        if not is_found(level):
            return None
        low, high = 0.0, level
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_found(middle) else (middle, high)
        return high

    def _least(self, square: Callable[[float], float], left: float) -> float | None:
        start = self._needed(0.0, left)
        high = start
        while high and high < self._needed(square(high), left):
            high *= 2
            if high > start * 1e6:
                return None
        low = 0.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            is_found = middle >= self._needed(square(middle), left)
            low, high = (low, middle) if is_found else (middle, high)
        return high

    def _needed(self, square: float, left: float) -> float:
        """The change that is found, when the items' changes have this mean square, and a trial of the new run the
        variance `left`.
        """
        exchange = 1 / self.before + 1 / self.after
        sampled = self.trial / self.before + left / self.after
        squares = (self.before - 1) * self.trial + (self.after - 1) * left
        null = exchange / (self.before + self.after - 1)
        null *= (squares + (sampled + square) / exchange) / self.items
        quantiles = t_quantile(1 - ALPHA / 2, self.runs.degrees), normal_quantile(POWER)
        return quantiles[0] * math.sqrt(null + self.runs.variance) + quantiles[1] * math.sqrt(
            sampled / self.items + self.runs.variance
        )


def fixed_items_power(
    before: ItemSums,
    after: ItemSums,
    *,
    is_less_better: bool = False,
    is_relative: bool = False,
    runs: RunEffect = NO_RUNS,
) -> FixedItemsPower:
    """What the test of two such runs finds. Both have the same items, at least one, each with a value.

    `is_less_better`: passes are those with the value 0. `is_relative`: all items change by the same factor.
    """
    is_binary = before.are_binary and after.are_binary
    means = np.concatenate([before.means, after.means])
    level = float(means.mean())
    mean_square = float((means**2).mean())
    return FixedItemsPower(
        items=len(before.n),
        before=float(before.n.mean()),
        after=float(after.n.mean()),
        trial=_trial_variance(before, after, unseen=0.25 if is_binary else 0.0),
        level=(1 - level if is_less_better else level) if is_binary else None,
        reach=mean_square / level**2 if is_relative and level else 1.0,
        runs=runs,
    )


def _trial_variance(before: ItemSums, after: ItemSums, *, unseen: float) -> float:
    """The mean variance of a trial within the runs; without repeated trials about the mean of both runs."""
    squares = float((_squares(before) + _squares(after)).sum())
    degrees = float((before.n + after.n - 2).sum())
    if degrees < len(before.n):
        exchange = 1 / before.n + 1 / after.n
        squares += float(((after.means - before.means) ** 2 / exchange).sum())
        degrees += len(before.n)
    return (squares + unseen) / (degrees + (1 if unseen else 0))
