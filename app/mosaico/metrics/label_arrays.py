"""Label statistics of many confusion tables at once, for resampling. Imports numpy.

Row by row they equal `LabelMetric.run_value` of one table, except for rounding. A table has the
shape `[label, (right, expected, given)]`; a label that it lacks has counts of 0.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.metrics.confusion import LabelAverage, LabelStatistic

FloatArray: TypeAlias = NDArray[np.float64]


def average_over_labels(
    statistic: LabelStatistic, average: LabelAverage, counts: FloatArray
) -> FloatArray:
    """The average over all labels of each table; NaN for a table without labels."""
    if average == "micro" or statistic is LabelStatistic.ACCURACY:
        totals = counts.sum(axis=1)
        return np.where(_is_present(totals), _statistics(statistic, totals), np.nan)
    weights = counts[..., 1] if average == "weighted" else _is_present(counts)
    return _divide((_statistics(statistic, counts) * weights).sum(axis=1), weights.sum(axis=1))


def statistic_of_label(
    statistic: LabelStatistic, labels: Sequence[str], counts: FloatArray, label: str
) -> FloatArray:
    """The statistic of one label; NaN for a table in which it was neither expected nor given."""
    if label not in labels:
        return np.full(len(counts), np.nan)
    table = counts[:, labels.index(label)]
    return np.where(_is_present(table), _statistics(statistic, table), np.nan)


def _is_present(counts: FloatArray) -> FloatArray:
    return (counts[..., 1] + counts[..., 2] > 0).astype(np.float64)


def _statistics(statistic: LabelStatistic, counts: FloatArray) -> FloatArray:
    """0 when the denominator is 0, like scikit-learn with zero_division=0."""
    correct, expected, predicted = np.moveaxis(counts, -1, 0)
    match statistic:
        case LabelStatistic.PRECISION:
            numerator, denominator = correct, predicted
        case LabelStatistic.RECALL | LabelStatistic.ACCURACY:
            numerator, denominator = correct, expected
        case LabelStatistic.F1:
            numerator, denominator = 2 * correct, expected + predicted
    return np.nan_to_num(_divide(numerator, denominator))


def _divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; NaN where the denominator is 0."""
    empty = np.full(denominator.shape, np.nan)
    quotient: FloatArray = np.divide(numerator, denominator, out=empty, where=denominator > 0)
    return quotient
