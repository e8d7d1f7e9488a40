"""An oracle of recoveries: told the noise, the level before, and the sizes that a fall may have.

It sums the likelihood ratios of all possible first recovered runs, each averaged over these falls
by what the runs of the incident say about them. The levels are normal, in SDs of a run above the level
before. Weights of the falls and limits were searched at random for the most recoveries within three runs, or
within ten for a single fall, among those that keep the goals about false ends. So they show what is possible, and
where a goal is missed they show it as well as such a search does: they are no bound.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.series_simulation import Floats

PAGE_LIMIT = 2.95
PAGE_WIDTHS = (1, 2, 3, 4, 5, 6, 8)
RUNS_BEFORE = 8
RUNS_AFTER = 12


class RecoveryOracle(NamedTuple):
    """The falls, in SDs of a run, with their weights, and the limits: each holds up to its number of
    `limit_runs` after the page, the last one later. The level before is the mean of `reference_runs`; None: it is
    told. `bad_variances` are those of a run after each fall, and told as well.
    """

    falls: tuple[float, ...]
    weights: tuple[float, ...]
    limits: tuple[float, ...]
    limit_runs: tuple[int, ...] = (2, 5)
    reference_runs: int | None = None
    bad_variances: tuple[float, ...] | None = None

    @property
    def variances(self) -> tuple[float, ...]:
        return self.bad_variances or (1.0,) * len(self.falls)


_FALLS = (1.0, 1.5, 2.0, 3.0, 4.0)
# Keeps the goals about false ends from 1.5 SDs on, and for every fall.
FROM_1_5_SDS = RecoveryOracle(_FALLS, (0.3, 0.33, 0.04, 0.3, 0.03), (4.8, 3.2, 6.8))
FROM_1_SD = RecoveryOracle(_FALLS, (0.35, 0.09, 0.01, 0.5, 0.05), (5.1, 4.3, 7.5))


# Of a run after each fall, as a mean of the twelve kinds of series: half-right answers vary more than right ones.
_BAD_VARIANCES = (1.05, 1.08, 1.10, 1.13, 1.15)


def _of_cells(weights: tuple[float, ...], limits: tuple[float, ...]) -> RecoveryOracle:
    return RecoveryOracle(_FALLS, weights, limits, reference_runs=60, bad_variances=_BAD_VARIANCES)


# Told less: the level before by 60 runs, where bad runs vary more. Each keeps few false ends from its fall on, as
# far as that is possible.
OF_CELLS_FROM_1_SD = _of_cells((0.46, 0.1, 0.02, 0.39, 0.03), (5.1, 3.85, 6.0))
OF_CELLS_FROM_1_5_SDS = _of_cells((0.33, 0.1, 0.08, 0.43, 0.06), (4.9, 3.5, 6.2))
OF_CELLS_FROM_2_SDS = _of_cells((0.06, 0.36, 0.33, 0.22, 0.03), (3.95, 3.0, 6.15))


def single_fall(
    fall: float, young_limit: float, old_limit: float, reference_runs: int | None
) -> RecoveryOracle:
    """The oracle that is told the size of the fall, too. The young limit holds for the ten runs in which a fall of
    three runs should end.
    """
    return RecoveryOracle((fall,), (1.0,), (young_limit, old_limit), (13,), reference_runs)


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
    bad_sd = math.sqrt(oracle.variances[oracle.falls.index(fall)])
    levels[:, RUNS_BEFORE:end] = bad_sd * levels[:, RUNS_BEFORE:end] - fall
    if oracle.reference_runs is not None:
        levels -= rng.normal(size=(histories, 1)) / np.sqrt(oracle.reference_runs)
    sums, squares = (
        np.concatenate([np.zeros((histories, 1)), values.cumsum(axis=1)], axis=1)
        for values in (levels, levels**2)
    )
    opened, started = _pages(sums, end)
    ends = np.full(histories, runs)
    # Backwards: the first run that ends the incident is written last, and stays.
    for run in reversed(range(RUNS_BEFORE + 1, runs)):
        limit = np.array(oracle.limits)[np.searchsorted(oracle.limit_runs, run - opened)]
        ratios = _log_ratios(sums, squares, opened, started, run, oracle)
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
    squares: Floats,
    opened: NDArray[np.int64],
    started: NDArray[np.int64],
    run: int,
    oracle: RecoveryOracle,
) -> Floats:
    """log(likelihood of a recovery in any of the last runs / likelihood of none) after a run."""
    rows = np.arange(len(sums))

    def log_likelihoods(end: int) -> Floats:
        """That the runs from the start of the incident on are bad, up to, but not including, `end`."""
        total, square = (values[:, end] - values[rows, started] for values in (sums, squares))
        return _log_likelihoods(total, square, end - started, oracle)

    none = log_likelihoods(run + 1)
    ratios = np.full(len(sums), -np.inf)
    for width in range(1, min(RUNS_AFTER, run - RUNS_BEFORE) + 1):
        first = run + 1 - width
        # A recovery cannot begin before the page: the runs up to it are bad.
        ratios = np.logaddexp(
            ratios, np.where(first > opened, log_likelihoods(first) - none, -np.inf)
        )
    return ratios


def _log_likelihoods(
    total: Floats, squares: Floats, runs: NDArray[np.int64], oracle: RecoveryOracle
) -> Floats:
    """The log-likelihood of so many bad runs with a sum and a sum of squares, above that of the level before."""
    falls, variances = np.array(oracle.falls), np.array(oracle.variances)
    distances = squares[:, None] + 2 * falls * total[:, None] + falls**2 * runs[:, None]
    log_ratios = (squares[:, None] - distances / variances - np.log(variances) * runs[:, None]) / 2
    return np.asarray(np.logaddexp.reduce(log_ratios + np.log(oracle.weights), axis=1))
