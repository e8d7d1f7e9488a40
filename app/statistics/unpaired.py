"""Two runs of different items: two samples, which see less than pairs of the same. Needs numpy."""

import math
from dataclasses import replace

import numpy as np

from app.statistics.association import Counts, fisher_p
from app.statistics.intervals import Interval, difference_interval
from app.statistics.means import are_passes, t_interval
from app.statistics.power import smallest_visible
from app.statistics.repeats import FloatArray, ItemSums
from app.statistics.student_t import two_sided_p
from app.statistics.verdict import (
    Judgement,
    Note,
    Scale,
    Verdict,
    VerdictRule,
    no_judgement,
    settled,
)


def judge_unpaired(base: ItemSums, candidate: ItemSums, rule: VerdictRule) -> Judgement:
    """The candidate beside a baseline of other items: Fisher's test and Newcombe's interval for
    passes of one trial, else Welch's test of the items' means; of their logarithms on RATIO.

    `n_items` counts those of the smaller run. Items without a value are left out.
    """
    before, after = (run.where(run.n > 0) for run in (base, candidate))
    if min(len(before.n), len(after.n)) == 0:
        return no_judgement(Verdict.INVALID, Note.NO_ITEMS)
    return replace(_judged(before, after, rule), trials=float(after.n.mean()))


def _judged(before: ItemSums, after: ItemSums, rule: VerdictRule) -> Judgement:
    if are_passes(before, after) and rule.scale is Scale.RATE:
        return _of_passes(before.means, after.means, rule)
    if rule.scale is not Scale.RATIO:
        unit = 1.0 if rule.scale is Scale.RATE else abs(float(before.means.mean()))
        return _welch(before.means, after.means, rule, unit)
    if before.means.min() <= 0 or after.means.min() <= 0:
        fewest = min(len(before.n), len(after.n))
        return no_judgement(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=fewest)
    return _welch(np.log(before.means), np.log(after.means), rule, 1.0)


def _of_passes(first: FloatArray, second: FloatArray, rule: VerdictRule) -> Judgement:
    a, b, m, n = round(float(first.sum())), round(float(second.sum())), len(first), len(second)
    shares = (a / m, b / n)
    variance = sum(share * (1 - share) / count for share, count in zip(shares, (m, n), strict=True))
    return _told(
        first,
        second,
        rule,
        unit=1.0,
        effect=shares[1] - shares[0],
        interval=difference_interval(a, m, b, n),
        p=fisher_p(Counts(b, n, a, m)),
        error=math.sqrt(variance),
        method="Fisher",
    )


def _welch(first: FloatArray, second: FloatArray, rule: VerdictRule, unit: float) -> Judgement:
    """Source: Welch 1947; equals scipy's `ttest_ind(equal_var=False)` within 1e-12."""
    effect = float(second.mean() - first.mean())
    if min(len(first), len(second)) == 1:
        parts = (math.nan, math.nan)
    else:
        parts = (float(first.var(ddof=1)) / len(first), float(second.var(ddof=1)) / len(second))
    error, interval, p = math.sqrt(sum(parts)), None, 1.0
    if error > 0:
        degrees = sum(parts) ** 2 / (
            parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1)
        )
        interval, p = t_interval(effect, error, degrees), two_sided_p(effect / error, degrees)
    return _told(
        first,
        second,
        rule,
        unit=unit,
        effect=effect,
        interval=interval,
        p=p,
        error=error if error > 0 else None,
        method="Welch",
    )


def _told(
    first: FloatArray,
    second: FloatArray,
    rule: VerdictRule,
    *,
    unit: float,
    effect: float,
    interval: Interval | None,
    p: float,
    error: float | None,
    method: str,
) -> Judgement:
    as_share = math.expm1 if rule.scale is Scale.RATIO else float
    level = math.exp if rule.scale is Scale.RATIO else float
    return settled(
        Judgement(
            verdict=Verdict.INCONCLUSIVE,
            effect=as_share(effect),
            low=None if interval is None else as_share(interval.low),
            high=None if interval is None else as_share(interval.high),
            p=p,
            p_adjusted=p,
            mde=smallest_visible(error) if error else None,
            n_items=min(len(first), len(second)),
            trials=1.0,
            method=method,
            base=level(float(first.mean())),
            value=level(float(second.mean())),
            min_effect=rule.min_effect * unit,
            margin=rule.margin * unit,
            side=rule.side,
            alpha=rule.alpha,
            notes=(Note.UNPAIRED,),
        )
    )
