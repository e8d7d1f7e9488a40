"""The shares of many tables of confusions at once, for resampling. Needs numpy.

Row by row they are what `LabelMetric.run_value` reads off one table, but for rounding. A table is
`[label, (right, expected, given)]`; a label that it lacks counts nothing.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.metrics.labels import Labels, Share

Rows: TypeAlias = NDArray[np.float64]


def label_rows(share: Share, labels: Labels, counts: Rows) -> Rows:
    """The share over all labels of each table; NaN for a table without any."""
    if labels == "micro" or share is Share.ACCURACY:
        totals = counts.sum(axis=1)
        return np.where(_expected_or_given(totals), _shares(share, totals), np.nan)
    weights = counts[..., 1] if labels == "weighted" else _expected_or_given(counts)
    return _over((_shares(share, counts) * weights).sum(axis=1), weights.sum(axis=1))


def binary_rows(share: Share, names: Sequence[str], counts: Rows, positive: str) -> Rows:
    """The share of one label; NaN where it was neither expected nor given."""
    if positive not in names:
        return np.full(len(counts), np.nan)
    table = counts[:, names.index(positive)]
    return np.where(_expected_or_given(table), _shares(share, table), np.nan)


def _expected_or_given(counts: Rows) -> Rows:
    return (counts[..., 1] + counts[..., 2] > 0).astype(np.float64)


def _shares(share: Share, counts: Rows) -> Rows:
    """0 where nothing could be divided, as scikit-learn has it with zero_division=0."""
    right, expected, given = np.moveaxis(counts, -1, 0)
    match share:
        case Share.PRECISION:
            part, whole = right, given
        case Share.RECALL | Share.ACCURACY:
            part, whole = right, expected
        case Share.F1:
            part, whole = 2 * right, expected + given
    return np.nan_to_num(_over(part, whole))


def _over(part: Rows, whole: Rows) -> Rows:
    found: Rows = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return found
