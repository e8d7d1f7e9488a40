"""The mean over the items of a run that people would give, from the scores of a judge and annotations of any answers that
the same judge scored. Needs numpy.

People annotate after a run. So the annotated answers are mostly those of earlier runs, and the agent may have changed
since: their share of right answers says nothing of this run, and neither do the mean error of the judge (a kind judge errs
more often where more answers are wrong) and the share of right answers among those that it passes. `correct_mean`, whose
annotated items are a sample of the run itself, uses both. What stays is how the judge scores an answer that people call
right, and one that they call wrong. With the line of scores over annotations,

    score = wrong + slope * annotation,        mean of people = (mean of scores - wrong) / slope

The line needs no random sample of answers: more wrong ones than usual are welcome, if they were not chosen by their scores.

Two runs that are corrected by one line differ by (difference of their scores) / slope: the constant cancels, and the
slope is common to both. So whether they differ is a question about the scores alone, and the annotations add nothing
to its answer but their noise. A verdict therefore compares the scores, which are not corrected.

Source: Rogan and Gladen 1978 for passes and failures; Fieller 1954 for the interval of a quotient; Angelopoulos et al. 2023,
"Prediction-powered inference", section on label shift.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.jackknife import jackknife
from mosaico.statistics.judge_agreement import MIN_ITEMS, MIN_OF_EACH, AnnotatedAnswers
from mosaico.statistics.trials import FloatArray, IntArray
from mosaico.statistics.verdict_rules import CONFIDENCE

_ALPHA: Final = 1 - CONFIDENCE


class JudgedRun(NamedTuple):
    """The mean scores of the items of a run (items,), finite, and annotated answers of any run; scores and annotations from 0
    (wrong) to 1 (right). `units` are the clusters or the items; those of both number the same ones.
    """

    scores: FloatArray
    units: IntArray
    answered: AnnotatedAnswers


class CarriedCorrection(NamedTuple):
    """The corrected mean of a run with its 95 % interval; None with a `reason`, and what to do about it."""

    value: float | None
    interval: Interval | None
    reason: str | None = None
    remedy: str | None = None


class _Line(NamedTuple):
    """The height of the scores of a run above those of wrong answers, the slope, and their variances and covariance."""

    height: float
    slope: float
    height_variance: float
    slope_variance: float
    covariance: float

    def widened(self, right: float, wrong: float) -> "_Line":
        """With one more contradiction among so many right and wrong answers: a judge that agrees with 20 of 20 still errs
        sometimes. Scores between 0 and 1 show by their spread how far they are off.
        """
        of_right, of_wrong = 1 / right**2, 1 / wrong**2
        return self._replace(
            height_variance=self.height_variance + of_wrong,
            slope_variance=self.slope_variance + of_wrong + of_right,
            covariance=self.covariance + of_wrong,
        )


def carry_correction(judged: JudgedRun) -> CarriedCorrection:
    """The corrected mean of the items; none with too few annotated items, and where they do not show that the judge tells
    right answers from wrong ones.
    """
    answered = judged.answered
    items = len(np.unique(answered.units))
    right = float(answered.annotations.sum())
    wrong = len(answered.annotations) - right
    if items < MIN_ITEMS:
        return _none(
            f"{items} of at least {MIN_ITEMS} items are annotated", "annotate more answers of this judge"
        )  # fmt: skip
    if min(right, wrong) < MIN_OF_EACH:
        kind = "right" if right < wrong else "wrong"
        return _none(
            f"people call {min(right, wrong):g} of at least {MIN_OF_EACH} annotated answers {kind}",
            f"annotate more answers, until {MIN_OF_EACH} of them are {kind}",
        )
    line = _fit(judged)
    if np.isin(answered.scores, (0.0, 1.0)).all():
        line = line.widened(right, wrong)
    quantile = -t_quantile(_ALPHA / 2, items - 2)
    interval = _quotient_interval(line, quantile * quantile)
    if interval is None:
        return _none(
            "the annotations do not show that this judge scores right answers higher than wrong ones",
            "annotate more answers, or change the judge",
        )
    if interval.low > 1 or interval.high < 0:
        side = "lower than it scores wrong ones" if interval.high < 0 else "higher than right ones"
        return _none(
            f"the judge scores the answers of this run {side}", "annotate answers of this run"
        )
    value, low, high = (
        min(max(end, 0.0), 1.0) for end in (line.height / line.slope, interval.low, interval.high)
    )
    return CarriedCorrection(value, Interval(low=low, high=high))


def _none(reason: str, remedy: str) -> CarriedCorrection:
    return CarriedCorrection(None, None, reason, remedy)


def _fit(judged: JudgedRun) -> _Line:
    rows, units = _rows(judged)
    height, slope, difference = (
        jackknife(rows, units, statistic)
        for statistic in (_height, _slope, lambda sums: _height(sums) - _slope(sums))
    )
    variances = [math.inf if one.spread is None else one.spread.variance for one in (height, slope, difference)]  # fmt: skip
    covariance = (variances[0] + variances[1] - variances[2]) / 2
    return _Line(height.value, slope.value, variances[0], variances[1], covariance)


def _rows(judged: JudgedRun) -> tuple[FloatArray, IntArray]:
    """What is added over items of the run and over annotated answers."""
    answered = judged.answered
    y, s = answered.annotations, answered.scores
    items, answers = len(judged.scores), len(y)
    rows = np.zeros((items + answers, 7))
    rows[:items, 0], rows[:items, 1] = 1.0, judged.scores
    rows[items:, 2:] = np.stack([np.ones(answers), y, s, y * y, s * y], axis=1)
    return rows, np.concatenate([judged.units, answered.units])


def _slope(sums: FloatArray) -> FloatArray:
    """The slope of scores over annotations; NaN where all annotations are equal."""
    _, _, n, y, s, squares, both = np.moveaxis(sums, -1, 0)
    spread = n * squares - y * y
    is_known = spread > 0
    slope: FloatArray = np.where(
        is_known, (n * both - y * s) / np.where(is_known, spread, 1.0), np.nan
    )
    return slope


def _height(sums: FloatArray) -> FloatArray:
    items, scores, n, y, s, *_ = np.moveaxis(sums, -1, 0)
    height: FloatArray = scores / items - (s - _slope(sums) * y) / n
    return height


def _quotient_interval(line: _Line, squared_quantile: float) -> Interval | None:
    """All quotients q for which `height - q * slope` may be 0; None where they have no end, or the slope may be 0."""
    a = line.slope**2 - squared_quantile * line.slope_variance
    if not (math.isfinite(a) and a > 0 and line.slope > 0):
        return None
    b = line.height * line.slope - squared_quantile * line.covariance
    c = line.height**2 - squared_quantile * line.height_variance
    reach = math.sqrt(max(0.0, b * b - a * c))
    return Interval(low=(b - reach) / a, high=(b + reach) / a)
