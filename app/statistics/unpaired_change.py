"""The change between two runs of different items, and its verdict. Needs numpy and scipy.

Two independent samples detect less than pairs of the same items.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from app.statistics.hypothesis_tests import ContingencyTable, fisher_p, t_p
from app.statistics.intervals import Interval, difference_interval
from app.statistics.means import t_interval
from app.statistics.power import detectable_effect
from app.statistics.trials import FloatArray, ItemSums
from app.statistics.verdict_rules import (
    ChangeVerdict,
    Note,
    Scale,
    Verdict,
    VerdictRule,
    decide_verdict,
    without_change,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SampleChange:
    """A difference of two means or rates; `error` is its standard error, None without variance."""

    effect: float
    interval: Interval | None
    p: float
    error: float | None
    method: str


def compare_unpaired(baseline: ItemSums, candidate: ItemSums, rule: VerdictRule) -> ChangeVerdict:
    """The change of a metric between runs of different items.

    Fisher's test and Newcombe's interval for single passes, otherwise Welch's test of the items'
    means; of their logarithms on the scale RATIO. `n_items` is the number of items of the smaller
    run. Items without a value are left out.
    """
    before, after = baseline.where(baseline.n > 0), candidate.where(candidate.n > 0)
    if min(len(before.n), len(after.n)) == 0:
        return without_change(Verdict.INVALID, Note.NO_ITEMS)
    return replace(_compare(before, after, rule), trials=float(after.n.mean()))


def _compare(before: ItemSums, after: ItemSums, rule: VerdictRule) -> ChangeVerdict:
    first, second = before.means, after.means
    if rule.scale is Scale.RATE and before.are_single_passes and after.are_single_passes:
        return _verdict(first, second, _pass_change(first, second), rule, unit=1.0)
    if rule.scale is not Scale.RATIO:
        unit = 1.0 if rule.scale is Scale.RATE else abs(float(first.mean()))
        return _verdict(first, second, _welch_change(first, second), rule, unit=unit)
    # The logarithm of such a value does not exist, and leaving out items would compare other
    # samples.
    if first.min() <= 0 or second.min() <= 0:
        fewest = min(len(first), len(second))
        return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=fewest)
    first, second = np.log(first), np.log(second)
    return _verdict(first, second, _welch_change(first, second), rule, unit=1.0)


def _pass_change(first: FloatArray, second: FloatArray) -> _SampleChange:
    a, b, m, n = round(float(first.sum())), round(float(second.sum())), len(first), len(second)
    rates = (a / m, b / n)
    variance = sum(rate * (1 - rate) / count for rate, count in zip(rates, (m, n), strict=True))
    table = ContingencyTable(selected_with=b, selected=n, unselected_with=a, unselected=m)
    return _SampleChange(
        effect=rates[1] - rates[0],
        interval=difference_interval(a, m, b, n),
        p=fisher_p(table),
        error=math.sqrt(variance),
        method="Fisher",
    )


def _welch_change(first: FloatArray, second: FloatArray) -> _SampleChange:
    """Welch's test, which allows the two samples to have different variances.

    From the variances: scipy's `ttest_ind` warns about samples that are nearly constant.
    Source: Welch 1947; equals `ttest_ind(equal_var=False)` within 1e-12.
    """
    effect = float(second.mean() - first.mean())
    if min(len(first), len(second)) > 1:
        variances = [float(sample.var(ddof=1)) / len(sample) for sample in (first, second)]
        error = math.sqrt(sum(variances))
        if error > 0:
            degrees = sum(variances) ** 2 / (
                variances[0] ** 2 / (len(first) - 1) + variances[1] ** 2 / (len(second) - 1)
            )
            return _SampleChange(
                effect=effect,
                interval=t_interval(effect, error, degrees),
                p=t_p(effect, error, degrees),
                error=error,
                method="Welch",
            )
    # One item has no variance, and equal values in both samples leave nothing to test.
    return _SampleChange(effect=effect, interval=None, p=1.0, error=None, method="Welch")


def _verdict(
    first: FloatArray, second: FloatArray, change: _SampleChange, rule: VerdictRule, *, unit: float
) -> ChangeVerdict:
    """The verdict; on the scale RATIO, differences of logarithms become relative changes."""
    to_effect = math.expm1 if rule.scale is Scale.RATIO else float
    to_value = math.exp if rule.scale is Scale.RATIO else float
    interval = change.interval
    return decide_verdict(
        ChangeVerdict(
            verdict=Verdict.INCONCLUSIVE,
            effect=to_effect(change.effect),
            low=None if interval is None else to_effect(interval.low),
            high=None if interval is None else to_effect(interval.high),
            p=change.p,
            p_adjusted=change.p,
            mde=detectable_effect(change.error) if change.error else None,
            n_items=min(len(first), len(second)),
            trials=1.0,
            method=change.method,
            baseline_value=to_value(float(first.mean())),
            value=to_value(float(second.mean())),
            min_effect=rule.min_effect * unit,
            margin=rule.margin * unit,
            side=rule.side,
            alpha=rule.alpha,
            notes=(Note.UNPAIRED,),
        )
    )
