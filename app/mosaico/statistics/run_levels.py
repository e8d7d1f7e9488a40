"""The level of each run of a series over the items that the runs share, from values by item.

Imports numpy; call it only in a process that computes. Its output, one number and one variance per
run, is what `sequential` reads.

A level must not move because items were added, removed or are missing. So the values are fitted by
an additive model, item + run, over the items of the newest run; the level of a run is what its mean
would have been on those items. Runs whose items are never the same (sampled production traffic) are
compared as samples: their levels are plain means, and their noise includes the choice of items.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.statistics.sequential import RunLevel

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

# A run is compared item by item when it has this share of the items of the newest run.
MIN_SHARED = 0.5
MAX_ITERATIONS = 30
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemValues:
    """The values of a series in one run, by item.

    `keys` identify an item together with its task: a changed task is another item. `values` are on
    the scale of the decision (logarithms of times and costs) and have the value of the run as their
    mean; NaN is missing. `traces` are the traces of each item. `clusters` are the clusters of items
    that fail together; None: each item is its own.
    """

    run: int
    keys: IntArray
    values: FloatArray
    traces: FloatArray
    clusters: IntArray | None = None


def fit_levels(runs: Sequence[RunItemValues]) -> dict[int, RunLevel]:
    """The levels of runs, oldest first, by their sequence number.

    Runs that share less than half of the items of the newest run are left out, unless no other runs
    remain to compare: then all runs are samples. Memory is 8 bytes per run and item of the newest
    run. Empty without runs; runs without any value are left out.
    """
    runs = [run for run in map(_without_missing, runs) if run.keys.size]
    if not runs:
        return {}
    matrix, traces = _align(runs)
    counts = np.isfinite(matrix).sum(axis=1)
    is_kept = counts >= MIN_SHARED * matrix.shape[1]
    if is_kept.sum() < min(2, len(runs)):
        return {run.run: _sample_level(run) for run in runs}
    kept_runs = [run for run, keep in zip(runs, is_kept, strict=True) if keep]
    clusters = runs[-1].clusters
    matrix, traces = matrix[is_kept], traces[is_kept]
    levels = _fit(matrix)
    noises = _noises(matrix, traces.sum(axis=1), clusters)
    return {
        run.run: RunLevel(run.run, float(level), noise, float(count), grain=grain)
        for run, level, (noise, grain), count in zip(
            kept_runs, levels, noises, traces.sum(axis=1), strict=True
        )
    }


def _without_missing(run: RunItemValues) -> RunItemValues:
    is_present = np.isfinite(run.values)
    # Sorted keys let `_align` find the items of a run by binary search.
    order = np.argsort(run.keys[is_present], kind="stable")
    return RunItemValues(
        run=run.run,
        keys=run.keys[is_present][order],
        values=run.values[is_present][order],
        traces=run.traces[is_present][order],
        clusters=None if run.clusters is None else run.clusters[is_present][order],
    )


def _align(runs: Sequence[RunItemValues]) -> tuple[FloatArray, FloatArray]:
    """Values (NaN: missing) and traces (0) of each run for the items of the newest run."""
    keys = runs[-1].keys
    matrix = np.full((len(runs), keys.size), np.nan)
    traces = np.zeros((len(runs), keys.size))
    for row, run in enumerate(runs):
        # `searchsorted` returns the size for a key above all others, which is not a valid index; the
        # comparison below then excludes it.
        position = np.minimum(np.searchsorted(run.keys, keys), run.keys.size - 1)
        is_shared = run.keys[position] == keys
        matrix[row, is_shared] = run.values[position[is_shared]]
        traces[row, is_shared] = run.traces[position[is_shared]]
    return matrix, traces


def _fit(matrix: FloatArray) -> FloatArray:
    """The run effects of the additive model, on the level of the newest run's items."""
    is_present = np.isfinite(matrix)
    filled = np.where(is_present, matrix, 0.0)
    per_item, per_run = is_present.sum(axis=0), is_present.sum(axis=1)
    effects = np.zeros(len(matrix))
    items = np.zeros(matrix.shape[1])
    # Each step solves one half of the least squares; without missing values the first is exact.
    for _ in range(MAX_ITERATIONS):
        items = (filled.sum(axis=0) - effects @ is_present) / per_item
        updated = (filled.sum(axis=1) - is_present @ items) / per_run
        # The additive model is determined up to a constant: the effect of the newest run is fixed
        # at 0.
        updated -= updated[-1]
        step, effects = np.abs(updated - effects).max(), updated
        if step <= TOLERANCE * max(1.0, np.abs(effects).max()):
            break
    levels: FloatArray = effects + matrix[-1].mean()
    return levels


class _Noise(NamedTuple):
    """The variance of a mean by its units, and the part of the mean that the units which vary have."""

    variance: float | None = None
    grain: float = 0.0


def _noises(matrix: FloatArray, traces: FloatArray, clusters: IntArray | None) -> list[_Noise]:
    """The noise of each level by its items alone: from the changes of items since the run before.

    The mean change is removed from the variance, so that the effect of a run is not noise of its items.
    """
    # The first run has no run before it, so the change of its items is unknown.
    noises = [_Noise()]
    for row in range(1, len(matrix)):
        changes = matrix[row] - matrix[row - 1]
        is_shared = np.isfinite(changes)
        groups = None if clusters is None else clusters[is_shared]
        noise = _noise_of_mean(changes[is_shared], 0.0, groups)
        # A change has the noise of two runs; each has its part by the number of its traces.
        part = traces[row - 1] / (traces[row - 1] + traces[row])
        variance = None if noise.variance is None else float(noise.variance * part)
        noises.append(noise._replace(variance=variance))
    return noises


def _noise_of_mean(values: FloatArray, origin: float, clusters: IntArray | None) -> _Noise:
    """`origin` is the value of a unit that does not vary. No variance for fewer than two units."""
    if values.size == 0:
        return _Noise()
    deviations: FloatArray = values - origin
    residuals: FloatArray = values - values.mean()
    if clusters is not None:
        _, unit = np.unique(clusters, return_inverse=True)
        # Items of a cluster fail together, so the sum of a cluster is one independent unit.
        residuals = _sums_by_unit(unit, residuals)
        deviations = _sums_by_unit(unit, deviations)
    units = residuals.size
    if units < 2:  # noqa: PLR2004 - one unit has no variance
        return _Noise()
    variance = np.square(residuals).sum() / values.size**2 * units / (units - 1)
    squares = np.square(deviations)
    # Of answers that pass or fail it is one item, of scores that all vary a little it is less.
    grain = math.sqrt(np.square(squares).sum() / squares.sum()) if squares.any() else 0.0
    return _Noise(float(variance), grain / values.size)


def _sums_by_unit(unit: IntArray, values: FloatArray) -> FloatArray:
    return np.bincount(unit, weights=values).astype(np.float64)


def _sample_level(run: RunItemValues) -> RunLevel:
    noise = _noise_of_mean(run.values, float(np.median(run.values)), run.clusters)
    level, traces = float(run.values.mean()), float(run.traces.sum())
    return RunLevel(run.run, level, noise.variance, traces, grain=noise.grain)
