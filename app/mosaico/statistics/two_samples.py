"""The test of a change between two runs of different items, such as samples of production. Needs numpy.

The samples may differ much in size, so that what holds for equal ones does not: the small sample alone decides how
sure the change is, and where its values are skewed it is wrong more often on one side. Therefore shares are compared by
Wilson's intervals, which know their skewness, and costs and times by logarithms, which have little.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mosaico.statistics.change import ChangeTest, SumVariance, UnitInfluences
from mosaico.statistics.distributions import normal_cdf, t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.value_interval import share_interval
from mosaico.statistics.whole_runs import NO_RUNS, RunEffect

# Beyond this normal quantile p is 1e-15.
_LARGEST_QUANTILE = 8.0
_BISECTIONS = 40


class SampledShare(NamedTuple):
    """A value between two limits, as a share of the way between them; `spread` is its variance among its `units`.

    `passes` is the number of values when each is 0 or 1.
    """

    share: float
    spread: SumVariance
    units: int
    passes: int | None = None

    @classmethod
    def of(cls, share: float, units: UnitInfluences, passes: int | None = None) -> "SampledShare":
        """The share, with the influences of its units in the unit of shares."""
        return cls(share, units.variance, len(units.share), passes)

    def interval(self, alpha: float) -> Interval:
        """The interval at the level 1 - alpha."""
        variance, degrees = self.spread
        return share_interval(self.share, variance, self.units, degrees, self.passes, alpha)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ShareTest(ChangeTest):
    """The change between two shares; its p is the level at which an end of its interval is 0."""

    baseline: SampledShare
    candidate: SampledShare
    unit: float

    def widened(self, runs: RunEffect) -> ChangeTest:
        shares = runs._replace(variance=runs.variance / self.unit**2)
        return replace(
            self,
            runs=runs,
            error=math.hypot(self.error, math.sqrt(runs.variance)),
            p=_share_p(self.baseline, self.candidate, shares),
        )

    def interval(self, alpha: float) -> Interval:
        runs = self.runs._replace(variance=self.runs.variance / self.unit**2)
        shares = _newcombe(self.baseline, self.candidate, alpha, runs)
        return Interval(low=self.unit * shares.low, high=self.unit * shares.high)


def share_change_test(
    baseline: SampledShare, candidate: SampledShare, *, width: float = 1.0
) -> ChangeTest | None:
    """The test of a change of a value between two limits that are `width` apart.

    None when one of the runs has fewer than two units: the spread of its units is unknown.
    Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.
    """
    runs = (baseline, candidate)
    units = min(run.units for run in runs)
    if units < 2:  # noqa: PLR2004 - a variance
        return None
    return _ShareTest(
        effect=width * (candidate.share - baseline.share),
        p=_share_p(baseline, candidate),
        error=width * math.sqrt(sum(run.spread.variance for run in runs)),
        degrees=min(run.spread.degrees for run in runs),
        units=units,
        unit_changes=np.zeros(units),
        width=width,
        baseline=baseline,
        candidate=candidate,
        unit=width,
    )


def _newcombe(
    baseline: SampledShare, candidate: SampledShare, alpha: float, runs: RunEffect
) -> Interval:
    """The interval of the change between two shares; `runs` is what whole runs add, on the scale of shares."""
    first, second = baseline.interval(alpha), candidate.interval(alpha)
    difference = candidate.share - baseline.share
    of_runs = -t_quantile(alpha / 2, runs.degrees) * math.sqrt(runs.variance)
    falls = candidate.share - second.low, first.high - baseline.share, of_runs
    rises = second.high - candidate.share, baseline.share - first.low, of_runs
    return Interval(low=difference - math.hypot(*falls), high=difference + math.hypot(*rises))


def _share_p(baseline: SampledShare, candidate: SampledShare, runs: RunEffect = NO_RUNS) -> float:
    """The level at which the end of the interval that is nearer to 0 is 0."""
    difference = candidate.share - baseline.share
    low, high = 0.0, _LARGEST_QUANTILE
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        interval = _newcombe(baseline, candidate, 2 * normal_cdf(-middle), runs)
        has_zero = interval.low <= 0 if difference > 0 else interval.high >= 0
        low, high = (low, middle) if has_zero else (middle, high)
    return 2 * normal_cdf(-high)


def item_logarithms(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The logarithms of the means of items of two runs, of shape (items,).

    An item that costs nothing counts as half of the smallest other item of both runs. None without a positive item, or
    when a run has no item.
    """
    if not (len(first) and len(second)):
        return None
    values = np.concatenate([first, second])
    if not (values > 0).any():
        return None
    logarithms = np.log(np.where(values > 0, values, values[values > 0].min() / 2))
    return logarithms[: len(first)], logarithms[len(first) :]
