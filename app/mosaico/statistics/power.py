"""Minimum detectable effect, and the trials or items that a smaller one needs. Needs numpy.

The variance of an item's change is σ²_items + 2 σ²_trial/k: what changes between two runs of an
item, which no number of trials reduces, and the noise of one trial of both runs divided by the
trials k.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from mosaico.statistics.cost_power import LogNormalItems
from mosaico.statistics.distributions import normal_quantile, t_cdf, t_quantile
from mosaico.statistics.verdict_rules import ALPHA, POWER, Remedy, Scale
from mosaico.statistics.whole_runs import NO_RUNS, RunEffect

# No benchmark runs an item more often: more items are needed instead.
MAX_TRIALS = 1_000
MAX_ITEMS = 1_000_000
# Beyond, Student's t is the normal distribution.
_MAX_DEGREES = 5_000.0
_BISECTIONS = 50
# Of the effect: the mean over angles is not exacter.
_SMALLEST_STEP = 1e-9
# The mean over so many angles is within 0.001 of that over all.
_ANGLES = 64
# Found by simulation of log-normal costs: with it the stated effect is found as often as promised.
_TAIL = 0.7


class Detector(Protocol):
    """What a test finds, for items as a sample and for exactly these items."""

    def detectable_effect(self, items: int, trials: float) -> float:
        """The minimum detectable effect on the scale of the test; infinite when there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeModel:
    """The distribution of an item's change, estimated from two runs.

    `items` is the variance of the change without the noise of trials, and `trial` that of one trial
    of one run; with `trial` None the noise is unknown, and `items` is the whole variance with
    `measured_trials` trials. `mean` and `square` are the mean of the item values and of their
    squares (on the scale RATIO relative to the mean), which say how much a change differs between
    items. `design_effect` is the factor of the variance by clusters, and `units_per_item` the number
    of equally large clusters that would be as many per item. `costs` are the items of costs and times, where all of
    them are positive. `runs` is what whole runs add to the variance of the change, which neither items nor trials
    reduce. With `is_alike` all items of a rate fall; otherwise a few may break.
    """

    scale: Scale
    items: float
    trial: float | None
    measured_trials: float = 1.0
    mean: float = 0.0
    square: float = 0.0
    design_effect: float = 1.0
    units_per_item: float = 1.0
    costs: LogNormalItems | None = None
    runs: RunEffect = NO_RUNS
    is_alike: bool = False

    def variance(self, trials: float, effect: float = 0.0) -> float:
        """The variance of an item's change with so many trials, when the value changes by `effect`. A fall of a rate is
        that of all items, or of a few that break: the larger variance, unless falls are alike.

        Without a known noise more trials are assumed not to help, and fewer trials to increase the
        whole variance in proportion: the estimate errs on the side of too little power.
        """
        if self.trial is None:
            unchanged = self.items * max(1.0, self.measured_trials / trials)
            noise = 0.0
        else:
            unchanged = self.items + 2 * self.trial / trials
            noise = self.trial / trials
        if not effect:
            return unchanged
        if self.scale is Scale.RATIO:
            # All items change by the same factor, the large ones by more.
            reach = 2 * math.tanh(effect / 2)
            return unchanged + reach**2 * max(0.0, self.square - 1.0)
        if self.scale is Scale.RATE and self.mean > 0:
            # A share of the passes becomes failures: items that often pass fall farther.
            share = min(1.0, effect / self.mean)
            spread = max(0.0, self.square - self.mean**2)
            of_all = (
                unchanged
                - share * noise
                + share * (1 - share) * self.square / trials
                + share**2 * spread
            )
            if self.is_alike:
                return of_all
            # Or a share of the items breaks, and the others stay as they are.
            of_broken = (1 - share) * unchanged + share * self.square - effect**2
            return max(of_all, of_broken)
        return unchanged

    def detectable_effect(self, items: int, trials: float) -> float:
        """The minimum detectable effect: found with 80 % power, two-sided alpha of 5 %.

        On the scale RATIO it is the logarithm of the ratio. Infinite when no change is found as
        often: passes cannot fall farther than to 0. Raises: ValueError without items or trials.
        """
        if items < 1 or trials < 1:
            raise ValueError("a benchmark without items or trials detects nothing")
        if self.costs is not None:
            # The simulation of the items knows no runs: independent errors add up as squares.
            by_items = self.costs.detectable_effect(items, trials)
            by_runs = detectable_in_errors(self._degrees(items)) * math.sqrt(self.runs.variance)
            return math.hypot(by_items, by_runs)
        degrees = self._degrees(items)
        factor, unchanged = detectable_in_errors(degrees), self.variance(trials)

        def excess(effect: float) -> float:
            # Clusters share what happens by chance; that the items fall differently is their own.
            variance = self.variance(trials, effect)
            variance += unchanged * (self.design_effect - 1)
            of_items = variance / items * (1 + self._padding(items, variance, effect))
            return effect - factor * math.sqrt(of_items + self.runs.variance)

        start = factor * math.sqrt(unchanged * self.design_effect / items + self.runs.variance)
        if start <= 0:
            return start
        effect = _root(excess, start)
        if self.scale is Scale.RATIO:
            # Few items rarely include one from the tail of costs: their spread is too small.
            return effect * (1 + _TAIL / math.sqrt(items))
        return math.inf if self.scale is Scale.RATE and effect > self.mean else effect

    def _degrees(self, items: int) -> float:
        """The degrees of freedom of the test of so many items."""
        return min(max(1.0, items * self.units_per_item - 1), self.runs.degrees)

    def _padding(self, items: int, variance: float, effect: float) -> float:
        """The variance that the padding adds to passes, by the share of the items that change."""
        if self.scale is not Scale.RATE:
            return 0.0
        changed = min(1.0, variance + effect**2)
        return (1 - changed) / (items * changed) if changed > 0 else 0.0


def settle_equivalence(
    model: ChangeModel, *, items: int, trials: float, margin: float
) -> Remedy | None:
    """The trials per item that prove an unchanged value to be within a margin with 80 % power.

    The interval of an unchanged value, which is at 0 on average, has to lie within ± the margin.
    None when the trials at hand are enough. `more_trials` of the result is None when a thousand are
    not. When the noise of trials is unknown it is taken as the whole variance, the best case. The
    margin of costs is a logarithm.
    """
    degrees = min(max(1.0, items * model.units_per_item - 1), model.runs.degrees)
    # Both ends have to be inside: the change itself may be 1.28 standard errors from 0.
    factor = t_quantile(1 - ALPHA / 2, degrees) + normal_quantile((1 + POWER) / 2)
    allowed_variance = (margin / factor) ** 2 - model.runs.variance
    if allowed_variance <= 0:
        return Remedy(None, is_of_runs=True)
    if model.costs is not None:
        # What whole runs leave of the margin.
        margin = math.sqrt(margin**2 - factor**2 * model.runs.variance)
        return _settle_costs(model.costs, items=items, trials=trials, margin=margin)
    allowed = items * allowed_variance / model.design_effect
    is_unknown = model.trial is None
    noise = model.items * model.measured_trials if model.trial is None else 2 * model.trial
    between = 0.0 if is_unknown else model.items
    if between + noise / trials <= allowed:
        return None
    needed = (
        _ceiling(noise / (allowed - between)) if noise < MAX_TRIALS * (allowed - between) else None
    )
    return Remedy(needed, at_best=is_unknown)


def _settle_costs(
    costs: LogNormalItems, *, items: int, trials: float, margin: float
) -> Remedy | None:
    if costs.settles(items, trials, margin):
        return None
    best = costs if costs.trial is not None else costs.with_noise_of_trials()
    needed = None
    # Most costs vary too much for any number of trials: then one look is enough.
    if best.settles(items, MAX_TRIALS, margin):
        needed = _least(lambda count: best.settles(items, count, margin), MAX_TRIALS)
    return Remedy(needed, at_best=costs.trial is None)


def trials_needed(model: Detector, *, items: int, change: float) -> Remedy | None:
    """The trials per item that make a change detectable; None when one trial is enough.

    `more_trials` of the result is None when a thousand trials are not enough. When the noise between
    trials is unknown, the result assumes that it is the whole variance, which is the best case. The change is a fall of
    all items: how many items of a sample break is chance that no trials reduce.
    """
    at_best = isinstance(model, ChangeModel) and model.trial is None
    if isinstance(model, ChangeModel):
        model = _at_best(replace(model, is_alike=True))
    best = model
    needed = _least(lambda trials: best.detectable_effect(items, trials) <= change, MAX_TRIALS)
    return None if needed == 1 else Remedy(needed, at_best=at_best)


def _at_best(model: ChangeModel) -> ChangeModel:
    """The model in which an unknown noise between trials is the whole variance."""
    if model.trial is not None:
        return model
    costs = model.costs and model.costs.with_noise_of_trials()
    trial = model.items * model.measured_trials / 2
    return replace(model, items=0.0, trial=trial, costs=costs)


def items_needed(model: Detector, *, trials: int, change: float) -> int | None:
    """The items that make a change detectable; None when a million are not enough.

    Raises: ValueError unless the change is positive.
    """
    if change <= 0:
        raise ValueError("no number of items makes a change of 0 detectable; use a larger change")
    return _least(lambda items: model.detectable_effect(items, trials) <= change, MAX_ITEMS)


def items_to_detect_any(model: Detector, *, trials: float) -> int | None:
    """The items with which some change is detectable, however large; None when a million are not
    enough.
    """
    # No number is enough for a rate of 0, and the search for the least one would try many.
    if not math.isfinite(model.detectable_effect(MAX_ITEMS, trials)):
        return None
    return _least(lambda items: math.isfinite(model.detectable_effect(items, trials)), MAX_ITEMS)


@lru_cache(maxsize=4096)
def detectable_in_errors(degrees: float) -> float:
    """The minimum detectable effect in estimated standard errors, of so many degrees of freedom.

    2.80 for many degrees of freedom. With few the spread is itself uncertain, both that at hand, in which the effect is
    counted, and that of the test: the power is the mean over both. Seen as the sides of a right triangle, two estimates
    are a length, with which the noise is Student's t of twice the degrees, and an angle that is independent of it; the
    tangent of twice the angle, from the middle, is Student's t, too. Source: Bloom 1995, "Minimum detectable effects".
    """
    if degrees >= _MAX_DEGREES:
        return normal_quantile(1 - ALPHA / 2) + normal_quantile(POWER)
    critical = t_quantile(1 - ALPHA / 2, degrees)
    # The error at hand and that of the test, as multiples of the mean length, at equally likely angles.
    tangents = (t_quantile((point + 0.5) / _ANGLES, degrees) for point in range(_ANGLES))
    angles = [math.atan(tangent / math.sqrt(degrees)) / 2 for tangent in tangents]
    errors = [(math.cos(a) + math.sin(a), math.cos(a) - math.sin(a)) for a in angles]

    def excess(factor: float) -> float:
        # On the scale of normal quantiles the power is nearly a line.
        powers = [t_cdf(factor * own - critical * of_test, 2 * degrees) for own, of_test in errors]
        return normal_quantile(math.fsum(powers) / _ANGLES) - normal_quantile(POWER)

    return _root_from_below(excess, critical, critical + normal_quantile(POWER))


def _root_from_below(excess: Callable[[float], float], before: float, start: float) -> float:
    """The root of an increasing, concave function by secants, which come nearer from below. Both numbers are below it."""
    at_before, root = excess(before), start
    while root - before > _SMALLEST_STEP * root:
        at_root = excess(root)
        step = -at_root * (root - before) / (at_root - at_before)
        before, at_before, root = root, at_root, root + step
    return root


def _root(excess: Callable[[float], float], start: float) -> float:
    """The root of an increasing function; infinite if the function stays negative. `start` is positive."""
    high = start
    while excess(high) < 0:
        high *= 2
        if not math.isfinite(high) or high > start * 1e6:
            return math.inf
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return high


def _least(is_enough: Callable[[int], bool], most: int) -> int | None:
    """The least number that is enough, by bisection; None when `most` is not."""
    low, high = 0, 1
    while not is_enough(high):
        if high == most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _ceiling(value: float) -> int:
    """Rounded up, but for a rounding error: 3.0000000000000004 trials are three."""
    return math.ceil(value * (1 - 1e-12))
