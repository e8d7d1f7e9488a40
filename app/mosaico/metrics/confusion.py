"""Counts of right and wrong labels, and the statistics that are read from them."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

# How the labels of a run are averaged; empty for a metric of words instead of labels.
LabelAverage: TypeAlias = Literal["", "macro", "micro", "weighted", "binary"]


class LabelStatistic(StrEnum):
    """The statistic of a label metric."""

    PRECISION = "precision"
    RECALL = "recall"
    F1 = "f1"
    ACCURACY = "accuracy"


class Confusion(NamedTuple):
    """Counts of a label: predicted correctly, expected, and predicted.

    The sum of several labels is a confusion, too.
    """

    correct: int
    expected: int
    predicted: int

    def statistic(self, statistic: LabelStatistic) -> float:
        """The statistic from 0 to 1; 0 when its denominator is 0, like scikit-learn."""
        match statistic:
            case LabelStatistic.PRECISION:
                numerator, denominator = self.correct, self.predicted
            case LabelStatistic.RECALL | LabelStatistic.ACCURACY:
                numerator, denominator = self.correct, self.expected
            case LabelStatistic.F1:
                numerator, denominator = 2 * self.correct, self.expected + self.predicted
        # A label that was never expected and never given; scikit-learn would warn and return 0,
        # too.
        return numerator / denominator if denominator else 0.0


def total_confusion(confusions: Iterable[Sequence[int]]) -> Confusion:
    """The sum of at least one confusion."""
    return Confusion(*map(sum, zip(*confusions, strict=True)))
