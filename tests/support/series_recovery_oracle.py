"""An oracle of recoveries: told the noise, the level before, and the sizes that a fall may have.

It sums the likelihood ratios of all possible first recovered runs, each averaged over these falls
by what the runs of the incident say about them. The levels are normal, in SDs of a run above the level
before. Weights of the falls and limits were searched at random for the most recoveries within three runs, or
within ten for a single fall, among those that keep the goals about false ends.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.series_simulation import Floats

PAGE_LIMIT = 2.95
PAGE_WIDTHS = (1, 2, 3, 4, 5, 6, 8)
RUNS_BEFORE = 8
RUNS_AFTER = 12
# The limits of an oracle hold up to so many runs after the page, and later.
LIMIT_RUNS = (2, 5)


class RecoveryOracle(NamedTuple):
    """The falls, in SDs of a run, with their weights, and the limits by age of an incident. The level before
    is the mean of `reference_runs`; None: it is told.
    """

    falls: tuple[float, ...]
    weights: tuple[float, ...]
    limits: tuple[float, float, float]
    reference_runs: int | None = None


_FALLS = (1.0, 1.5, 2.0, 3.0, 4.0)
# Keeps the goals about false ends from 1.5 SDs on, and for every fall.
FROM_1_5_SDS = RecoveryOracle(_FALLS, (0.3, 0.33, 0.04, 0.3, 0.03), (4.8, 3.2, 6.8))
FROM_1_SD = RecoveryOracle(_FALLS, (0.35, 0.09, 0.01, 0.5, 0.05), (5.1, 4.3, 7.5))


def single_fall(fall: float, limit: float, reference_runs: int | None) -> RecoveryOracle:
    """The oracle that is told the size of the fall, too."""
    return RecoveryOracle((fall,), (1.0,), (limit, limit, limit), reference_runs)


class OracleRecovery(NamedTuple):
    """Percent of the paged incidents: ended before the recovery, and of the others within 3 and 10 runs of it."""

    false: float
    by_3: float
    by_10: float

    def __str__(self) -> str:
        return f"falsely resolved {self.false:.1f}, resolved within 3/10 runs {self.by_3:.0f}/{self.by_10:.0f}"


def recover_by_oracle(
    oracle: RecoveryOracle, fall: float, bad_runs: int, histories: int, seed: int
) -> OracleRecovery:
    rng = np.random.default_rng(seed)
    runs = RUNS_BEFORE + bad_runs + RUNS_AFTER
    levels = rng.normal(size=(histories, runs))
    end = RUNS_BEFORE + bad_runs
    levels[:, RUNS_BEFORE:end] -= fall
    if oracle.reference_runs is not None:
        levels -= rng.normal(size=(histories, 1)) / np.sqrt(oracle.reference_runs)
    sums = np.concatenate([np.zeros((histories, 1)), levels.cumsum(axis=1)], axis=1)
    opened, started = _pages(sums, end)
    ends = np.full(histories, runs)
    # Backwards: the first run that ends the incident is written last, and stays.
    for run in reversed(range(RUNS_BEFORE + 1, runs)):
        limit = np.array(oracle.limits)[np.searchsorted(LIMIT_RUNS, run - opened)]
        ratios = _log_ratios(sums, opened, started, run, oracle)
        ends[(opened >= 0) & (run > opened) & (ratios > limit)] = run
    paged = ends[opened >= 0]
    is_false = paged < end
    by_3, by_10 = (float(100 * (paged[~is_false] < end + within).mean()) for within in (3, 10))
    return OracleRecovery(float(100 * is_false.mean()), by_3, by_10)


def _pages(sums: Floats, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The run that pages (-1: none) and the first run of its window, for each history."""
    opened = np.full(len(sums), -1)
    started = np.zeros(len(sums), dtype=np.int64)
    for run in range(RUNS_BEFORE, end):
        scores = np.array(
            [
                (sums[:, run + 1 - width] - sums[:, run + 1]) / np.sqrt(width)
                for width in PAGE_WIDTHS
            ]
        )
        is_first = (opened < 0) & (scores.max(axis=0) > PAGE_LIMIT)
        widths = np.array(PAGE_WIDTHS)[scores.argmax(axis=0)]
        opened[is_first] = run
        started[is_first] = (run + 1 - widths)[is_first]
    return opened, started


def _log_ratios(
    sums: Floats,
    opened: NDArray[np.int64],
    started: NDArray[np.int64],
    run: int,
    oracle: RecoveryOracle,
) -> Floats:
    """log(likelihood of a recovery in any of the last runs / likelihood of none) after a run."""
    first_sums = sums[np.arange(len(sums)), started]
    none = _log_likelihoods(sums[:, run + 1] - first_sums, run + 1 - started, oracle)
    ratios = np.full(len(sums), -np.inf)
    for width in range(1, min(RUNS_AFTER, run - RUNS_BEFORE) + 1):
        first = run + 1 - width
        bad = _log_likelihoods(sums[:, first] - first_sums, first - started, oracle)
        # A recovery cannot begin before the page: the runs up to it are bad.
        ratios = np.logaddexp(ratios, np.where(first > opened, bad - none, -np.inf))
    return ratios


def _log_likelihoods(total: Floats, runs: NDArray[np.int64], oracle: RecoveryOracle) -> Floats:
    """The log-likelihood of so many bad runs with a sum, above that of the level before."""
    falls = np.array(oracle.falls)
    log_ratios = -falls * total[:, None] - falls**2 * runs[:, None] / 2 + np.log(oracle.weights)
    return np.asarray(np.logaddexp.reduce(log_ratios, axis=1))
