"""The mean over items that people would give, from the scores of a judge and the annotations of some items. Needs numpy.

The judge scores every item, people annotate a sample. The mean of the annotations is right but rests on few items; the
mean of the scores rests on all items but has the judge's bias. The corrected mean moves the mean of the annotations by
how much the judge scores all items higher than the annotated ones:

    mean(annotations) + weight * (mean(scores of all) - mean(scores of the annotated))

The weight that makes it most precise is the slope of annotations over scores: 0 for a judge that says nothing, and then
the annotations stand alone. Source: Angelopoulos et al. 2023, "Prediction-powered inference" and "PPI++"
(power tuning); for a mean it is the regression estimator of two-phase sampling, Cochran 1977, chapter 12.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.jackknife import Jackknifed, jackknife
from mosaico.statistics.judge_agreement import MIN_ITEMS
from mosaico.statistics.trials import FloatArray, IntArray
from mosaico.statistics.value_interval import share_interval
from mosaico.statistics.verdict_rules import CONFIDENCE

_ALPHA: Final = 1 - CONFIDENCE


class JudgedItems(NamedTuple):
    """The items of a run (items,), with the means over the trials of each.

    `scores` are the judge's; `annotations` what people say of it, NaN where nobody annotated an answer of the item, and
    `annotated_scores` the judge's scores of just these answers. `units` is the cluster of each item, or the item itself.
    `limits` are those of a value.
    """

    scores: FloatArray
    annotations: FloatArray
    annotated_scores: FloatArray
    units: IntArray
    limits: Interval | None = Interval(low=0.0, high=1.0)


class CorrectedMean(NamedTuple):
    """The corrected mean with its 95 % interval; None with a `reason`.

    `weight` is 0 where the judge does not make the mean more precise: then it is that of the annotations alone. `alone` is
    the interval of the annotations alone.
    """

    value: float | None
    interval: Interval | None
    weight: float
    alone: Interval | None
    annotated: int
    items: int
    reason: str | None = None


def correct_mean(judged: JudgedItems) -> CorrectedMean:
    """The corrected mean of the items.

    It supposes that the annotated items are a random sample: those that somebody chose because they are wrong are
    not. Items without a score give none, because they could have any.
    """
    is_annotated = np.isfinite(judged.annotations)
    items, annotated = len(judged.scores), int(is_annotated.sum())
    units = len(np.unique(judged.units[is_annotated]))
    missing = int((~np.isfinite(judged.scores)).sum())
    missing += int((is_annotated & ~np.isfinite(judged.annotated_scores)).sum())
    reason = None
    if missing:
        reason = f"{missing} of {items} items have no score of the judge: they could have any"
    elif units < MIN_ITEMS:
        what = "items" if len(np.unique(judged.units)) == items else "clusters"
        reason = f"{units} of at least {MIN_ITEMS} {what} are annotated"
    if reason is not None:
        return CorrectedMean(None, None, 0.0, None, annotated, items, reason)
    rows, center = _rows(judged, is_annotated)
    by_people = jackknife(rows, judged.units, _mean_alone)
    with_judge = jackknife(rows, judged.units, _corrected)
    alone = _interval(by_people, units, 1, judged.limits, center)
    corrected = _interval(
        with_judge, units, 2, judged.limits, center, contradicted_share=1 / annotated
    )
    weight = float(_slope(rows.sum(axis=0)))
    if corrected is None or (alone and _width(alone) <= _width(corrected)):
        return CorrectedMean(by_people.value + center, alone, 0.0, alone, annotated, items)
    return CorrectedMean(with_judge.value + center, corrected, weight, alone, annotated, items)


def _rows(judged: JudgedItems, is_annotated: FloatArray) -> tuple[FloatArray, float]:
    """What is added over items, less the mean of the annotations: the squares of large numbers lose the digits that differ."""
    center = float(judged.annotations[is_annotated].mean())
    has = is_annotated.astype(np.float64)
    people, scores = (
        np.where(is_annotated, values - center, 0.0)
        for values in (judged.annotations, judged.annotated_scores)
    )
    columns = (
        np.ones(len(has)), judged.scores - center, has, people, scores, scores * scores, scores * people,
    )  # fmt: skip
    return np.stack(columns, axis=1), center


def _mean_alone(sums: FloatArray) -> FloatArray:
    mean: FloatArray = sums[..., 3] / sums[..., 2]
    return mean


def _slope(sums: FloatArray) -> FloatArray:
    """The slope of annotations over scores; 0 where the scores are equal."""
    _, _, n, people, scores, squares, both = np.moveaxis(sums, -1, 0)
    spread = n * squares - scores**2
    # Equal numbers leave a rounding error instead of 0.
    is_known = spread > 1e-12 * n * n
    slope: FloatArray = np.where(
        is_known, (n * both - scores * people) / np.where(is_known, spread, 1.0), 0.0
    )
    return slope


def _corrected(sums: FloatArray) -> FloatArray:
    items, of_all, n, _, scores, *_ = np.moveaxis(sums, -1, 0)
    corrected: FloatArray = _mean_alone(sums) + _slope(sums) * (of_all / items - scores / n)
    return corrected


def _interval(
    mean: Jackknifed,
    units: int,
    estimated: int,
    limits: Interval | None,
    center: float,
    *,
    contradicted_share: float = 0.0,
) -> Interval | None:
    """The interval of a mean over `units` annotated units, of which `estimated` numbers are estimated.

    `contradicted_share` of the annotations is taken to contradict the judge beside those that do: a judge that agrees with
    20 of 20 still errs sometimes.
    """
    if mean.spread is None:
        return None
    value, degrees = mean.value + center, units - estimated
    if limits is None:
        reach = -t_quantile(_ALPHA / 2, degrees) * math.sqrt(mean.spread.variance)
        return Interval(low=value - reach, high=value + reach) if reach > 0 else None
    width = limits.high - limits.low
    variance = mean.spread.variance / width**2 + contradicted_share**2
    share = min(max((value - limits.low) / width, 0.0), 1.0)
    within = share_interval(share, variance, units, degrees, None, _ALPHA)
    return Interval(low=limits.low + width * within.low, high=limits.low + width * within.high)


def _width(interval: Interval) -> float:
    return interval.high - interval.low
