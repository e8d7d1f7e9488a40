"""A detector that is told the noise and the size of the change: close to the best that is possible.

The oracle sums the likelihood ratios of all possible first bad runs (Shiryaev and Roberts), with the
true covariance of the levels and the true shape of the fall. Only the level before the fall and the
first bad run are unknown to it: the ratios are those of differences, which no level changes. It is
nearly optimal for the mean delay, with normal levels; it is no proven bound of each share.
"""

from collections.abc import Callable, Sequence

import numpy as np

from mosaico.statistics.sequential import RunLevel
from tests.support.series_simulation import Cell, Detection, Floats, detection, pages_per_month

# The mean of p (1 − p) of the simulated pass rates, which are Beta(1.6, 0.4).
ITEM_VARIANCE = 0.8 - (0.8**2 + 0.8 * 0.2 / 3)
TUNING_STEPS = 12
LOWEST_LIMIT, HIGHEST_LIMIT = -2.0, 12.0
# From the runs (first, end) on, each with a limit of its own: early statistics are smaller, and one
# limit would leave a part of the promise unused there.
EARLY_RUNS = ((2, 6), (6, 10), (10, 14), (14, 18), (18, 26))

# The levels of a history of some runs that falls from a run on; 0 before it.
Fall = Callable[[int, int], Floats]


def step_fall(size: float) -> Fall:
    return lambda runs, start: np.where(np.arange(runs) >= start, -size, 0.0)


def drift_fall(size: float) -> Fall:
    return lambda runs, start: -size * np.clip(np.arange(runs) - start + 1.0, 0.0, None)


def oracle_detection(
    cell: Cell,
    fall: Fall,
    unchanged: Sequence[dict[int, RunLevel]],
    changed: Sequence[dict[int, RunLevel]],
    start: int,
    rate: float,
) -> Detection:
    """How soon the oracle pages, with `rate` false alarms in 30 runs in each part of the history."""
    nulls, levels = _matrix(unchanged), _matrix(changed)
    limits = _limits(cell, fall, nulls, levels.shape[1], rate)
    pages = _pages(cell, fall, levels, limits)
    return detection([list(np.flatnonzero(history)) for history in pages], start)


def covariance_of(cell: Cell, runs: int) -> Floats:
    """The covariance of the levels of unchanged runs."""
    distance = np.abs(np.subtract.outer(np.arange(runs), np.arange(runs)))
    covariance: Floats = cell.run_sd**2 * cell.correlation**distance
    if cell.item_noise:
        covariance += np.eye(runs) * ITEM_VARIANCE / (cell.items * cell.trials)
    return covariance


def _matrix(histories: Sequence[dict[int, RunLevel]]) -> Floats:
    """The levels of histories, shape (histories, runs)."""
    return np.array([[run.level for run in levels.values()] for levels in histories])


def _limits(cell: Cell, fall: Fall, nulls: Floats, runs: int, rate: float) -> Floats:
    """The limit of each run."""
    length = nulls.shape[1]
    limits = np.zeros(max(runs, length))
    for first, end in ((2, length), *EARLY_RUNS):
        low, high = LOWEST_LIMIT, HIGHEST_LIMIT
        for _ in range(TUNING_STEPS):
            limits[first : None if end == length else end] = (low + high) / 2
            pages = _pages(cell, fall, nulls[:, :end], limits)[:, first:]
            is_above = (
                pages_per_month([list(np.flatnonzero(row)) for row in pages], end - first) > rate
            )
            low, high = ((low + high) / 2, high) if is_above else (low, (low + high) / 2)
        limits[first : None if end == length else end] = high
    return limits


def _pages(cell: Cell, fall: Fall, levels: Floats, limits: Floats) -> Floats:
    """Whether the oracle pages in each run, shape (histories, runs). It starts again after a page."""
    histories, runs = levels.shape
    starts = np.arange(1, runs)
    whitening = np.linalg.inv(np.linalg.cholesky(covariance_of(cell, runs)))
    values, ones = levels @ whitening.T, whitening.sum(axis=1)
    falls = np.array([whitening @ fall(runs, int(start)) for start in starts])
    products = np.zeros((histories, len(starts)))
    is_possible = np.ones((histories, len(starts)), dtype=bool)
    pages = np.zeros((histories, runs))
    for run in range(1, runs):
        # Sums over the runs so far; the part along the unknown level is taken out.
        so_far = slice(0, run + 1)
        weight = ones[so_far] @ ones[so_far]
        along = falls[:, so_far] @ ones[so_far] / weight
        products = values[:, so_far] @ (falls[:, so_far] - np.outer(along, ones[so_far])).T
        squares = np.square(falls[:, so_far]).sum(axis=1) - along**2 * weight
        ratios = np.where(is_possible & (starts <= run), products - squares / 2, -np.inf)
        pages[:, run] = np.logaddexp.reduce(ratios, axis=1) > limits[run]
        is_possible[pages[:, run] > 0, :run] = False
    return pages
