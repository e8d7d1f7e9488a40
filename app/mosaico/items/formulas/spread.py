"""The variation of the items of two runs, for the minimum detectable effect of a change.

Imports numpy; call it only in a process that computes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mosaico.formula import Reference
from mosaico.items.formulas.linearization import FloatArray, Gradient
from mosaico.items.formulas.run_statistics import Mask, RunStatistics
from mosaico.metrics.registry import column_of
from mosaico.statistics.cost_power import LogNormalItems, fit_log_normal
from mosaico.statistics.trials import IntArray, ItemSums, reduce_trials


class TrialNoise(NamedTuple):
    """The variance of one trial, and what the trials explain of the variance of an item's change."""

    trial: float
    explained: float


def estimate_trial_noise(runs: Sequence[ItemSums]) -> TrialNoise | None:
    """The noise of trials in two runs; None without an item that has several."""
    variances = [run.trial_variances[run.n > 1] for run in runs]
    if not sum(map(len, variances)):
        return None
    trial = float(np.concatenate(variances).mean())
    return TrialNoise(trial, trial * sum(float((1 / run.n[run.n > 0]).mean()) for run in runs))


def design_effect(changes: FloatArray, error: float, units: int) -> float:
    """The factor by which clusters increase the variance of the mean of the items' changes; `error`
    is its standard error, and `units` the number of clusters.
    """
    if units == len(changes):
        return 1.0
    plain = float(changes.var(ddof=1)) / len(changes)
    if plain > 0 and error > 0:
        return max(1.0, error**2 / plain)
    # Without changes the trials of a cluster are taken as one.
    return len(changes) / units


def fit_items(
    runs: Sequence[RunStatistics],
    gradient: Gradient,
    items: Mask,
    units: IntArray,
    changes: FloatArray,
) -> LogNormalItems | None:
    """The fit of a formula's items; None unless it grows with means or sums that are positive in
    every item.

    `gradient` is that of the logarithm of the formula; `items` selects its items, `units` are theirs,
    and `changes` what they add to the change of the logarithm. The metrics that the formula grows
    with make the costs, all others (such as the passes in a cost per pass) add noise.
    """
    growing = [ref for ref in gradient if _is_additive(runs, ref) and gradient[ref][0] > 0]
    if not growing:
        return None
    values = [sum(gradient[ref][0] * _item_values(run, ref) for ref in growing) for run in runs]
    baseline, candidate = (np.asarray(run_values)[items] for run_values in values)
    is_present = np.isfinite(baseline) & np.isfinite(candidate)
    baseline, candidate = baseline[is_present], candidate[is_present]
    if not len(baseline):
        return None
    other_variance = 0.0
    if len(growing) < len(gradient):
        # Changes of the costs are about the growth of their part; what remains is the rest.
        remaining = len(changes) * (changes[is_present] - (candidate - baseline))
        other_variance = float(remaining.var(ddof=1)) if len(remaining) > 1 else 0.0
    return fit_log_normal(
        baseline,
        candidate,
        np.unique(units[is_present], return_inverse=True)[1].astype(np.intp),
        trial=_trial_variance(runs, growing, gradient),
        trials=len(runs[1].item_index) / max(1, runs[1].item_count),
        other_variance=other_variance,
        elasticity=float(baseline.sum() + candidate.sum()) / 2,
    )


def _is_additive(runs: Sequence[RunStatistics], ref: Reference) -> bool:
    return ref.stat in {"mean", "sum"} and not any(run.is_counted(ref) for run in runs)


def _item_values(run: RunStatistics, ref: Reference) -> FloatArray:
    sums = run.item_sums(column_of(ref.key))
    if ref.stat == "mean":
        return sums.means
    return np.where(sums.n > 0, sums.total / run.matrix.runs, np.nan)


def _trial_variance(
    runs: Sequence[RunStatistics], growing: Sequence[Reference], gradient: Gradient
) -> float | None:
    """The variance of the logarithm of one trial; None without repeated trials."""
    variances = []
    for run in runs:
        values = sum(gradient[ref][0] * run.values(column_of(ref.key)) for ref in growing)
        logs = np.log(
            np.asarray(values), where=np.asarray(values) > 0, out=np.full_like(values, np.nan)
        )
        variances.append(reduce_trials(run.item_index, logs, run.item_count).trial_variances)
    measured = np.concatenate(variances)
    measured = measured[np.isfinite(measured)]
    return float(measured.mean()) if len(measured) else None
