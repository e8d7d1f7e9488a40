"""The scan of windows for whoever knows the noise of a series: what knowledge of the noise is worth.

The statistic is that of the product, with the true covariance of the levels in place of its estimate.
The levels are normal. One limit holds for all kinds of series, so that none pages more often than
promised.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mosaico.statistics.sequential import MIN_REFERENCE, REFERENCE_FOR_LONG_WINDOWS, WINDOWS
from tests.support.series_oracle import TUNING_STEPS, covariance_of
from tests.support.series_simulation import Cell, Floats

RUNS = 75


def known_noise_shares(
    unchanged: Sequence[Cell],
    fallen: Sequence[Cell],
    *,
    size: float,
    start: int,
    rate: float,
    histories: int,
    seed: int,
) -> dict[Cell, float]:
    """Percent of the fallen histories that page within five runs of the fall at `start`."""
    rng = np.random.default_rng(seed)
    scores = [_scores(_simulate(rng, cell, RUNS, histories), cell) for cell in unchanged]
    low, high = 2.0, 4.0
    for _ in range(TUNING_STEPS):
        middle = (low + high) / 2
        is_above = max(_pages_per_month(values > middle) for values in scores) > rate
        low, high = (middle, high) if is_above else (low, middle)
    shares = {}
    for cell in fallen:
        levels = _simulate(rng, cell, start + 5, histories)
        levels[:, start:] -= size
        pages = _scores(levels, cell) > high
        is_quiet = ~pages[:, :start].any(axis=1)
        shares[cell] = float(100 * pages[is_quiet, start:].any(axis=1).mean())
    return shares


def _simulate(rng: np.random.Generator, cell: Cell, runs: int, histories: int) -> Floats:
    factor = np.linalg.cholesky(covariance_of(cell, runs))
    levels: Floats = rng.normal(size=(histories, runs)) @ factor.T
    return levels


def _pages_per_month(pages: NDArray[np.bool_]) -> float:
    """The first pages of histories, for each month without one."""
    runs = pages.shape[1]
    is_paged = pages.any(axis=1)
    quiet_runs = np.where(is_paged, pages.argmax(axis=1) + 1, runs).sum()
    return float(30 * is_paged.sum() / quiet_runs)


def _scores(levels: Floats, cell: Cell) -> Floats:
    """The strongest evidence for a fall after each run, shape (histories, runs)."""
    histories, runs = levels.shape
    covariance = covariance_of(cell, runs)
    scores = np.full((histories, runs), -np.inf)
    for end in range(1, runs + 1):
        for width in WINDOWS:
            reference = end - width
            needed = min(width, REFERENCE_FOR_LONG_WINDOWS) if width > 1 else 1
            if reference < max(MIN_REFERENCE, needed):
                continue
            weights = np.zeros(runs)
            weights[:reference], weights[reference:end] = 1 / reference, -1 / width
            fall = levels @ weights / np.sqrt(weights @ covariance @ weights)
            scores[:, end - 1] = np.maximum(scores[:, end - 1], fall)
    return scores
