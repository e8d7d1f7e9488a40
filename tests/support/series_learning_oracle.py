"""An oracle that has to learn the noise: the best procedure for a prior of noise and fall.

It sums the likelihood ratios of all possible first bad runs, as `series_oracle`, and averages them over
the variances between runs, their correlations and the sizes of the fall that its prior holds, by what
the runs so far say about each. It is told the noise of the items and the shape of the fall. The levels
are normal. One limit holds for all kinds of series, so that none pages more often than promised.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tests.support.series_oracle import TUNING_STEPS, Fall, covariance_of, step_fall
from tests.support.series_simulation import Cell, Detection, Floats, detection

FALL_SIZES = (0.03, 0.06, 0.1, 0.2, 0.3)
# From one to the next of these runs a limit is the same. A history ends at the last one.
LIMIT_RUNS = (2, 6, 10, 14, 17)
LATE_LIMIT_RUNS = (2, 6, 10, 14, 18, 24, 30, 40, 60)
LOWEST_LIMIT, HIGHEST_LIMIT = -3.0, 12.0


class RunNoise(NamedTuple):
    """What moves whole runs."""

    run_sd: float
    correlation: float


Prior = Callable[[Cell], Sequence[RunNoise]]


def prior_of_cells(cell: Cell) -> list[RunNoise]:
    """The noises of the simulated cells: whoever has this prior knows the standard deviation."""
    moving = [RunNoise(0.03, 0.0), RunNoise(0.03, 0.6)]
    return [RunNoise(0.0, 0.0), *moving] if cell.item_noise else moving


def told_noise(cell: Cell) -> list[RunNoise]:
    """The noise of the cell alone: the oracle has nothing to learn but the level and the fall."""
    return [RunNoise(cell.run_sd, cell.correlation)]


def wide_prior(cell: Cell) -> list[RunNoise]:
    sds = (0.0, 0.01, 0.02, 0.03, 0.045, 0.06)[0 if cell.item_noise else 1 :]
    return [RunNoise(sd, correlation) for sd in sds for correlation in (0.0, 0.6)]


def learning_detections(
    prior: Prior,
    unchanged: Sequence[Cell],
    falls: Mapping[Cell, Fall],
    *,
    start: int,
    rate: float,
    histories: int,
    seed: int,
    limit_runs: Sequence[int] = LIMIT_RUNS,
) -> dict[Cell, Detection]:
    """How soon each fall at `start` is paged, in histories without a page before it."""
    rng, runs = np.random.default_rng(seed), limit_runs[-1]
    no_fall = np.zeros(runs)
    limits = _limits(
        {
            cell: _log_ratios(_simulate(rng, cell, histories, no_fall), cell, prior)
            for cell in unchanged
        },
        rate,
        limit_runs,
    )
    detections = {}
    for cell, fall in falls.items():
        levels = _simulate(rng, cell, histories, fall(runs, start))
        pages = _log_ratios(levels, cell, prior) > limits
        quiet = pages[~pages[:, :start].any(axis=1)]
        detections[cell] = detection([list(np.flatnonzero(history)) for history in quiet], start)
    return detections


def _simulate(rng: np.random.Generator, cell: Cell, histories: int, fall: Floats) -> Floats:
    runs = len(fall)
    factor = np.linalg.cholesky(covariance_of(cell, runs))
    levels: Floats = rng.normal(size=(histories, runs)) @ factor.T + fall
    return levels


def _limits(
    ratios_by_cell: Mapping[Cell, Floats], rate: float, limit_runs: Sequence[int]
) -> Floats:
    limits = np.full(limit_runs[-1], np.inf)
    for first, end in pairwise(limit_runs):
        low, high = LOWEST_LIMIT, HIGHEST_LIMIT
        for _ in range(TUNING_STEPS):
            middle = (low + high) / 2
            rates = []
            for ratios in ratios_by_cell.values():
                is_quiet = ~(ratios[:, :first] > limits[:first]).any(axis=1)
                pages = (ratios[is_quiet, first:end] > middle).any(axis=1)
                rates.append(pages.mean() / ((end - first) / 30))
            low, high = (middle, high) if max(rates) > rate else (low, middle)
        # The upper end of the search: its rate is at most the promised one.
        limits[first:end] = high
    return limits


def _log_ratios(levels: Floats, cell: Cell, prior: Prior) -> Floats:
    """log(likelihood with a fall / likelihood without) after each run, shape (histories, runs)."""
    changed, same = list[Floats](), list[Floats]()
    for noise in prior(cell):
        likelihood, ratios = _likelihoods(levels, cell, noise)
        same.append(likelihood)
        changed.append(likelihood + ratios)
    ratio: Floats = np.logaddexp.reduce(changed) - np.logaddexp.reduce(same)
    return ratio


def _likelihoods(levels: Floats, cell: Cell, noise: RunNoise) -> tuple[Floats, Floats]:
    """The log-likelihood of unchanged runs with a noise, whatever their level is, and the log of the
    ratio of falls to it, summed over first bad runs and sizes.
    """
    histories, runs = levels.shape
    covariance = covariance_of(
        Cell(items=cell.items, trials=cell.trials, item_noise=cell.item_noise, **noise._asdict()),
        runs,
    )
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    values, ones, scales = levels @ whitening.T, whitening.sum(axis=1), np.log(np.diag(whitening))
    starts = np.arange(1, runs)
    falls = np.array(
        [whitening @ step_fall(size)(runs, int(start)) for size in FALL_SIZES for start in starts]
    )
    starts = np.tile(starts, len(FALL_SIZES))
    likelihoods, ratios = np.zeros((histories, runs)), np.full((histories, runs), -np.inf)
    for run in range(1, runs):
        so_far, is_past = slice(0, run + 1), starts <= run
        weight = ones[so_far] @ ones[so_far]
        mean = values[:, so_far] @ ones[so_far] / weight
        squares = np.square(values[:, so_far]).sum(axis=1) - mean**2 * weight
        # The unknown level is integrated out with a flat prior: hence the logarithm of its weight.
        likelihoods[:, run] = scales[so_far].sum() - (squares + np.log(weight)) / 2
        past_falls = falls[is_past, so_far]
        along = past_falls @ ones[so_far] / weight
        products = values[:, so_far] @ (past_falls - np.outer(along, ones[so_far])).T
        fall_squares = np.square(past_falls).sum(axis=1) - along**2 * weight
        ratios[:, run] = np.logaddexp.reduce(products - fall_squares / 2, axis=1)
    # The sizes are equally likely; possible first bad runs are summed without a weight.
    return likelihoods, ratios - np.log(len(FALL_SIZES))
