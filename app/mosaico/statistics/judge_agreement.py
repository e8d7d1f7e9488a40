"""How far the scores of a judge agree with the annotations of people. Needs numpy.

All four measures are functions of the same sums over answers, so one jackknife over units gives the interval of each.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.jackknife import Jackknifed, SumStatistic, jackknife
from mosaico.statistics.trials import FloatArray, IntArray
from mosaico.statistics.value_interval import share_interval
from mosaico.statistics.verdict_rules import CONFIDENCE

# With fewer annotated items the jackknife says little about other items.
MIN_ITEMS: Final = 10
# With fewer wrong answers, or fewer right ones, one of them decides kappa and the correlation.
MIN_OF_EACH: Final = 5
_ALPHA: Final = 1 - CONFIDENCE


class AnnotatedAnswers(NamedTuple):
    """The scores of a judge and what people say of the same answers (answers,), both finite and, like `limit`, in the unit of
    the judge; `units` is the cluster or the item of each answer.

    An answer is right from `limit` on.
    """

    scores: FloatArray
    annotations: FloatArray
    units: IntArray
    limit: float = 0.5


class MeasuredAgreement(NamedTuple):
    """A measure with its 95 % interval. `reason` says why one of both is None."""

    value: float | None
    interval: Interval | None
    reason: str | None = None


class JudgeAgreement(NamedTuple):
    """How far a judge agrees with people.

    `share` of the answers on which both say right or both say wrong; `kappa` is Cohen's; `bias` is the mean of score less
    annotation: a lenient judge has a positive one; `correlation` is Pearson's. `too_kind` answers are right by the judge
    only, `too_strict` by people only.
    """

    answers: int
    items: int
    too_kind: int
    too_strict: int
    share: MeasuredAgreement
    kappa: MeasuredAgreement
    bias: MeasuredAgreement
    correlation: MeasuredAgreement


def measure_agreement(answered: AnnotatedAnswers) -> JudgeAgreement:
    """The agreement over annotated answers; without one, every measure has a reason instead of a value.

    Source: Cohen 1960 for kappa; Fisher 1921 for the scale of the interval of a correlation.
    """
    scores, annotations = answered.scores, answered.annotations
    by_judge, by_people = (values >= answered.limit for values in (scores, annotations))
    words = _sums(by_judge.astype(np.float64), by_people.astype(np.float64))
    # Around their means: the squares of large numbers lose the digits that differ.
    center = float(annotations.mean()) if len(annotations) else 0.0
    numbers = _sums(scores - center, annotations - center)
    units = answered.units
    fewest = min(int(by_people.sum()), int((~by_people).sum()))
    few = (
        f"people call {fewest} answers {'right' if by_people.sum() == fewest else 'wrong'}, at least {MIN_OF_EACH} are"
        " required: there is no interval"
        if fewest < MIN_OF_EACH
        else None
    )
    return JudgeAgreement(
        answers=len(scores),
        items=len(np.unique(units)),
        too_kind=int((by_judge & ~by_people).sum()),
        too_strict=int((~by_judge & by_people).sum()),
        share=_share(words, units),
        kappa=_without_interval(few, _measure(
            words, units, _kappa, "both say the same of every answer: agreement beyond chance is not defined"
        )),
        bias=_measure(numbers, units, _bias, "no answer is annotated"),
        correlation=_without_interval(few, _measure(
            numbers, units, _fisher_correlation,
            "the scores or the annotations are all equal: there is no correlation",
        )),
    )  # fmt: skip


def _sums(first: FloatArray, second: FloatArray) -> FloatArray:
    columns = (np.ones(len(first)), first, second, first * first, second * second, first * second)
    return np.stack(columns, axis=1)


def _share(rows: FloatArray, units: IntArray) -> MeasuredAgreement:
    estimate = jackknife(rows, units, _equal_share)
    missing = _why_missing(estimate, "no answer is annotated")
    if missing or estimate.spread is None:
        return missing or MeasuredAgreement(estimate.value, None)
    variance, degrees = estimate.spread
    # One answer of each item: passes whose variance follows from the share.
    passes = len(rows) if estimate.units == len(rows) else None
    interval = share_interval(estimate.value, variance, estimate.units, degrees, passes, _ALPHA)
    return MeasuredAgreement(estimate.value, interval)


def _measure(
    rows: FloatArray, units: IntArray, statistic: SumStatistic, undefined: str
) -> MeasuredAgreement:
    estimate = jackknife(rows, units, statistic)
    missing = _why_missing(estimate, undefined)
    scale = math.tanh if statistic is _fisher_correlation else float
    if missing is not None:
        return missing._replace(value=None if missing.value is None else scale(missing.value))
    value = scale(estimate.value)
    if estimate.spread is None or estimate.spread.variance == 0.0:
        return MeasuredAgreement(
            value, None, "with any item less, the measure is the same or not defined"
        )
    variance, degrees = estimate.spread
    reach = -t_quantile(_ALPHA / 2, degrees) * math.sqrt(variance)
    low, high = scale(estimate.value - reach), scale(estimate.value + reach)
    if statistic is _kappa:
        low, high = max(-1.0, low), min(1.0, high)
    return MeasuredAgreement(value, Interval(low=low, high=high))


def _without_interval(reason: str | None, measure: MeasuredAgreement) -> MeasuredAgreement:
    if reason is None or measure.interval is None:
        return measure
    return MeasuredAgreement(measure.value, None, reason)


def _why_missing(estimate: Jackknifed, undefined: str) -> MeasuredAgreement | None:
    """The measure without an interval, when it has none."""
    if not math.isfinite(estimate.value):
        return MeasuredAgreement(None, None, undefined)
    if estimate.units < MIN_ITEMS:
        return MeasuredAgreement(
            estimate.value,
            None,
            f"{estimate.units} of at least {MIN_ITEMS} items are annotated: there is no interval",
        )
    return None


def _equal_share(sums: FloatArray) -> FloatArray:
    n, first, second, _, _, both = np.moveaxis(sums, -1, 0)
    return _ratio(n - first - second + 2 * both, n)


def _kappa(sums: FloatArray) -> FloatArray:
    n, first, second, *_ = np.moveaxis(sums, -1, 0)
    by_chance = _ratio(first * second + (n - first) * (n - second), n * n)
    return _ratio(_equal_share(sums) - by_chance, 1 - by_chance)


def _bias(sums: FloatArray) -> FloatArray:
    n, first, second, *_ = np.moveaxis(sums, -1, 0)
    return _ratio(first - second, n)


def _fisher_correlation(sums: FloatArray) -> FloatArray:
    """Pearson's correlation on Fisher's scale. A perfect one is cut where a float ends."""
    n, first, second, first_squares, second_squares, both = np.moveaxis(sums, -1, 0)
    product = n * both - first * second
    spreads = (n * first_squares - first**2) * (n * second_squares - second**2)
    # Equal numbers leave a rounding error instead of 0.
    is_known = spreads > 1e-18 * n**4
    correlation = _ratio(product, np.sqrt(np.where(is_known, spreads, 0.0)))
    cut: FloatArray = np.arctanh(np.clip(correlation, -1 + 1e-15, 1 - 1e-15))
    return cut


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; NaN where the denominator is not positive."""
    is_positive = denominator > 0
    quotient: FloatArray = np.where(
        is_positive, numerator / np.where(is_positive, denominator, 1.0), np.nan
    )
    return quotient
