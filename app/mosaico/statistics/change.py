"""The test of a change between two runs, and its interval. Needs numpy.

One closed form for every KPI and metric: Student's t of what the items contribute to the change
(`mosaico.items.formulas.linearization`), summed over units (clusters, or the items themselves). The
interval is that of the test: p < alpha exactly when it excludes 0.

The variance of the change is the larger of two estimates:

- the spread of the contributions, with gradients between the two runs or at each run (CR2: Bell and
  McCaffrey 2002), plus a pad for items that did not change: other items may still change. It is the
  larger of both spreads, but a weighted mean for logarithms: there the first is too large and the
  second too small, because one expensive item decides the change and its spread alike. Clusters get no pad: few of
  them are unchanged, and with unequal ones it would hide a fall of all of them;
- as if all units but one had changed alike: with few units a small spread may be chance.

Degrees of freedom are Satterthwaite's. The pad, the weight and the second estimate have no source:
simulations show that the test keeps its level with them (`tests/unit/statistics/test_simulated_runs.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_cdf, t_quantile
from mosaico.statistics.intervals import Interval, unseen_share
from mosaico.statistics.trials import FloatArray, IntArray, hall_limit, hall_statistic, unit_sums
from mosaico.statistics.verdict_rules import CONFIDENCE
from mosaico.statistics.whole_runs import NO_RUNS, RunEffect

# From this number of units a single extreme fall may be limited to the size of the others without
# more false calls (simulated); with fewer units the level would exceed 5 %.
MONOTONE_UNITS = 10

# The square of a smaller change can be too small for a float.
NEGLIGIBLE_CHANGE = 1e-100
# The weight of the spread with the gradient of each run, in the variance of a change of logarithms.
OWN_WEIGHT = 1 / 3


class SumVariance(NamedTuple):
    """The variance of a sum over units, and its degrees of freedom."""

    variance: float
    degrees: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeTest:
    """A tested change: `effect` is 0 without one.

    `error` is the standard error; 0 when no unit changed. `width` is the largest possible change,
    None for an unlimited value. `can_decide` is false when even the largest change of all units
    would have p >= 0.05. `units` is the number of units of the test; `unit_changes` are the
    contributions of all units of the runs, 0 of those that are not part of the test. `runs` is what whole runs add to
    the variance, beside what the units show.
    """

    effect: float
    p: float
    error: float
    degrees: float
    units: int
    unit_changes: FloatArray
    can_decide: bool = True
    width: float | None = None
    skewness: float = 0.0
    runs: RunEffect = NO_RUNS
    _ends: "tuple[_Ends, _Ends] | None" = None

    @property
    def test_degrees(self) -> float:
        """The degrees of freedom of the error: those of its least known part."""
        return min(self.degrees, self.runs.degrees)

    def widened(self, runs: RunEffect) -> "ChangeTest":
        """The test with what whole runs add to the variance. Runs in which nothing changed stay as they are: nothing shows
        that they vary.
        """
        if self._ends is None:
            return self
        low, high = (ends.widened(runs.variance) for ends in self._ends)
        error = math.hypot(self.error, math.sqrt(runs.variance))
        widened = replace(self, runs=runs, error=error, _ends=(low, high))
        statistic = (low if self.effect > 0 else high).statistic()
        return replace(widened, p=2 * t_cdf(-statistic, widened.test_degrees))

    def among(self, units: IntArray, count: int) -> "ChangeTest":
        """The test as one of `count` units; `units` are the positions of its own among them."""
        unit_changes = np.zeros(count)
        unit_changes[units] = self.unit_changes
        return replace(self, unit_changes=unit_changes)

    def interval(self, alpha: float) -> Interval | None:
        """The interval at the level 1 - alpha; None when it is unknown."""
        if self._ends is None:
            return self._without_spread(alpha)
        quantile = t_quantile(1 - alpha / 2, self.test_degrees)
        low, high = (ends.limit(quantile) for ends in self._ends)
        return self._within_width(low, high)

    def _without_spread(self, alpha: float) -> Interval | None:
        """Return the change when no unit changed; other units may still have changed."""
        if self.width is None or self.units == 0 or self.effect != 0:
            return None
        reach = self.width * unseen_share(self.units, confidence=1 - alpha)
        return Interval(low=-reach, high=reach)

    def _within_width(self, low: float, high: float) -> Interval:
        if self.width is None:
            return Interval(low=low, high=high)
        return Interval(low=max(low, -self.width), high=min(high, self.width))


class _Ends(NamedTuple):
    """The candidates of one end of the interval, which is the farthest of them.

    Candidate i has the effect `effects[i]` and the standard error `errors[i]`; `sign` is -1 for the
    lower end and 1 for the upper one.
    """

    sign: int
    effects: FloatArray
    errors: FloatArray
    skewness: float
    units: int

    def widened(self, variance: float) -> "_Ends":
        """The candidates with a variance that whole runs add to each; runs are not skewed."""
        errors = np.sqrt(self.errors**2 + self.units * variance)
        skewness = self.skewness * float(self.errors[0] / errors[0]) ** 3 if errors[0] else 0.0
        return self._replace(errors=errors, skewness=skewness)

    def limit(self, quantile: float) -> float:
        """The end of the interval for a quantile of Student's t."""
        scaled = hall_limit(self.sign * quantile, self.skewness, self.units)
        ends = self.effects + self.errors * scaled
        return float(ends.max() if self.sign < 0 else ends.min())

    def statistic(self) -> float:
        """The quantile at which this end is 0."""
        quantiles = hall_statistic(self.effects / self.errors, self.skewness, self.units)
        return max(0.0, float((-self.sign * quantiles).max()))


def paired_change_test(
    effect: float,
    changes: FloatArray,
    influences: FloatArray,
    units: IntArray,
    *,
    width: float | None = None,
    skewness: float = 0.0,
    is_logarithm: bool = False,
) -> ChangeTest:
    """The test of a change between two runs of the same items.

    `changes` (items,) are the contributions of the items with gradients between the runs: they add
    up to about `effect`. `influences` (items,) are those with the gradient of each run, and add up
    to 0. `units` maps each item to its unit (0, 1, …). `width` is the largest possible change.
    `skewness` is that of the standardized effect under no change; 0 when both runs are alike.
    `is_logarithm` says that the change is one of logarithms.
    """
    sums, sizes = unit_sums(changes, units), unit_sums(None, units)
    # No metric changes by so little, and its square would be 0 beside a change that is not.
    sums[np.abs(sums) < NEGLIGIBLE_CHANGE] = 0.0
    count, share = len(sizes), sizes / sizes.sum()
    if not sums.any():
        # The effect of a formula with a jump is not 0 here; such formulas have another test.
        return ChangeTest(
            effect=0.0, p=1.0, error=0.0, degrees=0.0, units=count, unit_changes=sums, width=width
        )
    if count == 1:
        return ChangeTest(
            effect=effect,
            p=1.0,
            error=math.nan,
            degrees=0.0,
            units=count,
            unit_changes=sums,
            can_decide=False,
        )
    is_clustered = count < len(changes)
    spread = _ChangeVariance(
        share,
        unit_sums(influences, units),
        sums,
        is_logarithm=is_logarithm,
        is_padded=not is_clustered,
    )
    degrees = satterthwaite(share)
    is_limited = width is not None and count >= MONOTONE_UNITS
    ends = [_ends(sign, effect, sums, spread, skewness, is_limited=is_limited) for sign in (-1, 1)]
    statistic = ends[0 if effect > 0 else 1].statistic()
    return ChangeTest(
        effect=effect,
        p=2 * t_cdf(-statistic, degrees),
        error=float(ends[0].errors[0]) / math.sqrt(count),
        degrees=degrees,
        units=count,
        unit_changes=sums,
        can_decide=2 * t_cdf(-math.sqrt(count * (count - 1)), degrees) < 0.05,  # noqa: PLR2004
        width=width,
        skewness=skewness,
        _ends=(ends[0], ends[1]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedPasses:
    """Two runs over the same items: the pass rate of the second minus that of the first.

    `only_first` items passed more often in the first run: without repeated trials, in the first run only. `interval` is the
    95 % interval of `p`.
    """

    only_first: int
    only_second: int
    difference: float
    interval: Interval
    p: float


def compare_passes(first: Sequence[float], second: Sequence[float]) -> PairedPasses:
    """The pass rates of two runs over the same items in the same order, at least one.

    An item has the share of its trials that passed, from 0 to 1: one trial is True or False.

    Raises: ValueError for sequences of different lengths.
    """
    changes = np.array([b - a for a, b in zip(first, second, strict=True)], dtype=np.float64)
    share = changes / len(changes)
    test = paired_change_test(
        float(share.sum()), share, share - share.mean(), np.arange(len(share)), width=1.0
    )
    interval = test.interval(1 - CONFIDENCE) or Interval(low=-1.0, high=1.0)
    return PairedPasses(
        only_first=int((changes < 0).sum()),
        only_second=int((changes > 0).sum()),
        difference=test.effect,
        interval=interval,
        p=test.p,
    )


class _ChangeVariance:
    """The variance of the change, also when the changes of some units are limited."""

    def __init__(
        self,
        share: FloatArray,
        influences: FloatArray,
        sums: FloatArray,
        *,
        is_logarithm: bool,
        is_padded: bool,
    ) -> None:
        self.share = share
        self.is_padded = is_padded
        self.weight = 1 / (1 - share)
        own = float((self.weight * influences**2).sum())
        between = float((self.weight * (sums - share * sums.sum()) ** 2).sum())
        # What the gradients at each run add to the spread; nothing for a mean.
        self.surplus = OWN_WEIGHT * (own - between) if is_logarithm else max(0.0, own - between)

    def errors(self, squares: FloatArray, changed: FloatArray, weighted: FloatArray) -> FloatArray:
        """Standard errors times √units, as Hall's transformation has them.

        From sums over the units: of the squared changes of their items, of the units that changed, and of the
        weighted squares of the deviations from the mean change.
        """
        count = len(self.share)
        typical = squares / changed * count / (count - 1)
        pad = typical * (1 - changed / count) if self.is_padded else 0.0
        padded = weighted + self.surplus + pad
        errors: FloatArray = np.sqrt(np.maximum(padded, typical) * count)
        return errors


def _ends(
    sign: int,
    effect: float,
    sums: FloatArray,
    spread: _ChangeVariance,
    skewness: float,
    *,
    is_limited: bool,
) -> _Ends:
    """The candidates of one end of the interval.

    The upper end decides about falls. The largest falls may be limited to the size of a smaller
    one: that is a milder change, and where it is more certain, the real change is at least as
    certain. So no item can make a fall less certain by falling farther. Without `is_limited` there
    is one candidate: the change as it is.
    """
    outward = -sign * sums
    order = np.argsort(-outward, kind="stable")
    values, share, weight = outward[order], spread.share[order], spread.weight[order]
    limited_count = np.arange(1, len(values) + 1) if is_limited else np.ones(1)
    candidate_count = int((values > 0).sum()) if is_limited else 1
    candidate_count = max(candidate_count, 1)
    limited_count, limits = limited_count[:candidate_count], values[:candidate_count]

    def limited(column: FloatArray, powers: FloatArray, at_limit: FloatArray) -> FloatArray:
        """The sum of column * powers, where the first units are at the limit."""
        terms = column * powers
        remainder = terms.sum() - np.cumsum(terms)[:candidate_count]
        total: FloatArray = np.cumsum(column)[:candidate_count] * at_limit + remainder
        return total

    ones = np.ones(len(values))
    # 1 for units of equal size. The change of the items of a small unit is a larger one than its sum says.
    by_size = 1 / (share * len(values))
    total = limited(ones, values, limits)
    squares = limited(by_size, values**2, limits**2)
    # With limits the effective number of changed units, which grows continuously with a change.
    absolute = limited(ones, np.abs(values), np.abs(limits))
    changed = absolute**2 / squares if is_limited else np.array([(1 / by_size)[values != 0].sum()])
    weighted = (
        limited(weight, values**2, limits**2)
        - 2 * total * limited(weight * share, values, limits)
        + total**2 * float((weight * share**2).sum())
    )
    errors = spread.errors(squares, changed, np.maximum(weighted, 0.0))
    return _Ends(sign, effect - sign * (total - total[0]), errors, skewness, len(values))


def unpaired_change_test(
    effect: float,
    baseline: "UnitInfluences",
    candidate: "UnitInfluences",
    *,
    width: float | None = None,
) -> ChangeTest:
    """The test of a change between two runs of different items.

    The variance of each run includes its distance from the mean of both: a run whose items are all
    alike still has one. Source: Welch 1947, with the pooled mean of a score test.
    """
    runs = (baseline, candidate)
    counts = [len(run.share) for run in runs]
    if min(counts) < 2:  # noqa: PLR2004 - a variance
        return ChangeTest(
            effect=effect, p=1.0, error=math.nan, degrees=0.0, units=min(counts),
            unit_changes=np.zeros(min(counts)), can_decide=False,
        )  # fmt: skip
    variances = [
        float((run.influences**2 / (1 - run.share)).sum())
        + (effect * other / sum(counts)) ** 2 / count
        for run, count, other in zip(runs, counts, reversed(counts), strict=True)
    ]
    total, unit_changes = sum(variances), np.zeros(min(counts))
    if total == 0:
        return ChangeTest(
            effect=0.0,
            p=1.0,
            error=0.0,
            degrees=0.0,
            units=min(counts),
            unit_changes=unit_changes,
            width=width,
        )
    degrees = total**2 / sum(
        variance**2 / satterthwaite(run.share)
        for run, variance in zip(runs, variances, strict=True)
    )
    error = math.sqrt(total)
    ends = [
        _Ends(
            sign, np.array([effect]), np.array([error * math.sqrt(min(counts))]), 0.0, min(counts)
        )
        for sign in (-1, 1)
    ]
    return ChangeTest(
        effect=effect,
        p=2 * t_cdf(-abs(effect) / error, degrees),
        error=error,
        degrees=degrees,
        units=min(counts),
        unit_changes=unit_changes,
        width=width,
        _ends=(ends[0], ends[1]),
    )


class UnitInfluences(NamedTuple):
    """The influences of a run by unit, which add up to 0, and each unit's share of the items."""

    influences: FloatArray
    share: FloatArray

    @classmethod
    def of_items(cls, influences: FloatArray, units: IntArray) -> "UnitInfluences":
        sizes = unit_sums(None, units)
        return cls(unit_sums(influences, units), sizes / sizes.sum())

    @property
    def variance(self) -> SumVariance:
        """The variance of the run's value (CR2); NaN for a single unit."""
        if len(self.share) < 2:  # noqa: PLR2004 - a variance
            return SumVariance(math.nan, 0.0)
        variance = float((self.influences**2 / (1 - self.share)).sum())
        return SumVariance(variance, satterthwaite(self.share))


def satterthwaite(share: FloatArray) -> float:
    """The degrees of freedom of a clustered variance; `share` is each unit's share of the items.

    One less than the units when they are equally large. Source: Bell and McCaffrey 2002, for a mean.
    """
    weights = share**2 / (1 - share)
    return float(1 / ((share**2).sum() + weights.sum() ** 2 - (weights**2).sum()))
