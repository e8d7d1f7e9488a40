"""How far the scores of a judge moved on answers that did not change. Needs numpy.

The same answer to the same task should get the same score. Where it does not, the judge varies and not the agent. What
it varies by chance from answer to answer is a part of the noise of trials; what moves all scores alike looks like a
change of the agent, and is the part that is estimated here.
"""

import math
from typing import NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.intervals import Interval
from mosaico.statistics.jackknife import jackknife
from mosaico.statistics.trials import FloatArray, IntArray
from mosaico.statistics.verdict_rules import CONFIDENCE, JudgeDrift


class AnswerScores(NamedTuple):
    """The scores of a run by trace, NaN where missing, with the item and the digest of the answer, 0 without one."""

    scores: FloatArray
    items: IntArray
    answers: IntArray


class MeasuredDrift(NamedTuple):
    """The drift, and the variance that it adds to a change of the mean score: that of a shift of all scores.

    `interval` is the 95 % interval of the shift, by items; None with fewer than two, and where no score moved.
    """

    drift: JudgeDrift
    variance: float
    interval: Interval | None = None

    def uncounted(self) -> "MeasuredDrift":
        """The drift, which adds no variance."""
        return MeasuredDrift(self.drift._replace(counts=False), 0.0)


def measure_drift(before: AnswerScores, after: AnswerScores) -> MeasuredDrift | None:
    """The drift over the answers that both runs gave to the same item, and to no other; None without one.

    An answer to several items, such as "done", is not the whole answer.

    The variance is the square of the mean change, less what chance from answer to answer makes of it; 0 for a single
    answer, which does not tell them apart.
    """
    pairs, index = np.unique(
        np.concatenate([_keys(before), _keys(after)]), axis=0, return_inverse=True
    )
    index, count = index.ravel(), len(pairs)
    _, answer, items = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    is_single = items[answer] == 1
    first, second = (
        _means(run, positions, count)
        for run, positions in zip(
            (before, after), np.split(index, [len(before.scores)]), strict=True
        )
    )
    is_shared = np.isfinite(first) & np.isfinite(second) & is_single
    if not is_shared.any():
        return None
    moves = (second - first)[is_shared]
    is_changed = ~np.isclose(first[is_shared], second[is_shared], rtol=1e-9, atol=1e-12)
    answers, shift = len(moves), float(moves.mean())
    variance = 0.0
    if answers > 1 and is_changed.any():
        variance = max(0.0, shift**2 - float(moves.var(ddof=1)) / answers)
    drift = JudgeDrift(answers, int(is_changed.sum()), shift, counts=True)
    return MeasuredDrift(drift, variance, _interval(moves, pairs[is_shared, 0]))


def _interval(moves: FloatArray, items: IntArray) -> Interval | None:
    rows = np.stack([np.ones(len(moves)), moves], axis=1)
    shift = jackknife(rows, items, lambda sums: sums[..., 1] / sums[..., 0])
    if shift.spread is None or shift.spread.variance == 0.0:
        return None
    quantile = -t_quantile((1 - CONFIDENCE) / 2, shift.spread.degrees)
    reach = quantile * math.sqrt(shift.spread.variance)
    return Interval(low=shift.value - reach, high=shift.value + reach)


def _keys(run: AnswerScores) -> IntArray:
    return np.stack([run.items, run.answers], axis=1)


def _means(run: AnswerScores, positions: IntArray, count: int) -> FloatArray:
    """The mean score of each answer; NaN where the run has none."""
    is_judged = np.isfinite(run.scores) & (run.answers != 0)
    positions, scores = positions[is_judged], run.scores[is_judged]
    numbers = np.bincount(positions, minlength=count)
    totals = np.bincount(positions, weights=scores, minlength=count)
    means: FloatArray = np.where(numbers > 0, totals / np.maximum(numbers, 1), np.nan)
    return means
