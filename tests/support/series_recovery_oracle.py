"""An oracle of recoveries: told the noise, the level before, and the sizes that a fall may have.

It sums the likelihood ratios of all possible first recovered runs, each averaged over these falls
by what the runs of the incident say about them. The levels are normal, in SDs of a run above the level
before. Its limits gave the most recoveries within three runs, on a grid, among those that keep the
goals about false ends.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.series_simulation import Floats

PAGE_LIMIT = 2.95
PAGE_WIDTHS = (1, 2, 3, 4, 5, 6, 8)
RUNS_BEFORE = 8
RUNS_AFTER = 12
MAX_RECOVERY_RUNS = 8
NEW_INCIDENT_RUNS = 5


class RecoveryOracle(NamedTuple):
    """The falls, in SDs of a run, and the limits in the first five runs of an incident and later."""

    falls: tuple[float, ...]
    new_limit: float
    limit: float


# Both limits of each keep the goals about false ends for all its falls.
EVERY_FALL = RecoveryOracle((1.0, 1.5, 2.0, 3.0, 4.0), 5.0, 7.0)
LARGE_FALLS = RecoveryOracle((2.0, 3.0, 4.0), 4.0, 6.5)
ALL_FALLS = RecoveryOracle((1.5, 2.0, 3.0, 4.0), 4.5, 6.5)


class OracleRecovery(NamedTuple):
    """Percent of the paged incidents: ended before the recovery, and of the others within 3 runs of it."""

    false: float
    by_3: float


def recover_by_oracle(
    oracle: RecoveryOracle, fall: float, bad_runs: int, histories: int, seed: int
) -> OracleRecovery:
    rng = np.random.default_rng(seed)
    runs = RUNS_BEFORE + bad_runs + RUNS_AFTER
    levels = rng.normal(size=(histories, runs))
    end = RUNS_BEFORE + bad_runs
    levels[:, RUNS_BEFORE:end] -= fall
    sums = np.concatenate([np.zeros((histories, 1)), levels.cumsum(axis=1)], axis=1)
    opened, started = _pages(sums, end)
    ends = np.full(histories, runs)
    # Backwards: the first run that ends the incident is written last, and stays.
    for run in reversed(range(RUNS_BEFORE + 1, runs)):
        limit = np.where(run - opened <= NEW_INCIDENT_RUNS, oracle.new_limit, oracle.limit)
        ratios = _log_ratios(sums, opened, started, run, np.array(oracle.falls))
        ends[(opened >= 0) & (run > opened) & (ratios > limit)] = run
    paged = ends[opened >= 0]
    is_false = paged < end
    by_3 = (paged[~is_false] < end + 3).mean()
    return OracleRecovery(float(100 * is_false.mean()), float(100 * by_3))


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
    sums: Floats, opened: NDArray[np.int64], started: NDArray[np.int64], run: int, falls: Floats
) -> Floats:
    """log(likelihood of a recovery in any of the last runs / likelihood of none) after a run."""
    first_sums = sums[np.arange(len(sums)), started]
    none = _log_likelihoods(sums[:, run + 1] - first_sums, run + 1 - started, falls)
    ratios = np.full(len(sums), -np.inf)
    for width in range(1, MAX_RECOVERY_RUNS + 1):
        first = run + 1 - width
        bad = _log_likelihoods(sums[:, first] - first_sums, first - started, falls)
        # A recovery cannot begin before the page: the runs up to it are bad.
        ratios = np.logaddexp(ratios, np.where(first > opened, bad - none, -np.inf))
    return ratios


def _log_likelihoods(total: Floats, runs: NDArray[np.int64], falls: Floats) -> Floats:
    """The log-likelihood of so many bad runs with a sum, above that of the level before."""
    log_ratios = -falls * total[:, None] - falls**2 * runs[:, None] / 2
    return np.asarray(np.logaddexp.reduce(log_ratios, axis=1) - np.log(len(falls)))
