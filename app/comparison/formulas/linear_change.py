"""A change of a formula between two runs as a sum over items.

Imports numpy; call it only in a process that computes.
"""

import math
from typing import NamedTuple

import numpy as np

from app.comparison.formulas.linearization import FloatArray, Gradient


class LinearChange(NamedTuple):
    """A change with the contributions of the items, of shape (items of the formula,).

    `changes` add up to about the effect, `influences` (of the candidate minus of the baseline) to 0.
    For runs of different items these are the influences of baseline and candidate with the gradient
    between the runs.
    `gradient` is that between the runs, on the scale of the effect.
    """

    baseline: float
    candidate: float
    effect: float
    is_logarithm: bool
    changes: FloatArray
    influences: FloatArray
    baseline_influences: FloatArray
    candidate_influences: FloatArray
    gradient: Gradient


def mean_change(change: LinearChange, by_run: list[LinearChange]) -> LinearChange:
    """The mean of the changes from each baseline run; `change` is that from their mean."""
    if not by_run or any(other.is_logarithm is not change.is_logarithm for other in by_run):
        return change
    effect = math.fsum(other.effect for other in by_run) / len(by_run)
    own = np.mean([other.baseline_influences for other in by_run], axis=0)
    return change._replace(
        # On a logarithmic scale the geometric mean, so that the effect leads to the candidate.
        baseline=change.candidate * math.exp(-effect)
        if change.is_logarithm
        else change.candidate - effect,
        effect=effect,
        changes=np.mean([other.changes for other in by_run], axis=0),
        influences=change.candidate_influences - own,
        baseline_influences=own,
    )
