"""The rates of `docs/research/verdicts.md` about whole runs: how often unchanged agents are called, and drops are found.

    python -m benchmarks.run_variation [PAIRS]

prints the tables with two processes: 300 pairs of each kind (of costs a quarter, of drops a third), in about nine
minutes of processor time (20 pairs took 31 s). All pairs go through the
functions that ship: `points_of_run` and `measure_series` for earlier runs, `assess_changes` for the verdict, and
`decide_step` for the pages at run 2.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.simulated_series import (
    METRIC,
    Cell,
    independent,
    lasting_harm,
    lognormal_noise,
    matrix_of,
    near_one,
    no_change,
    play,
    spec_of,
    values_of_runs,
    with_item_sizes,
)
from mosaico.comparison.child_computation import assess_changes
from mosaico.comparison.series_levels import measure_series, points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.verdict_rules import Verdict
from mosaico.statistics.whole_runs import MeasuredRuns

PAIRS = 300
DROP_PAIRS = 3
# The minimum detectable effect of costs is simulated for every verdict.
COST_PAIRS = 4
PROCESSES = 2
EARLIER = (0, 1, 2, 5, 30)
EARLIER_OF_DROPS = (0, 2, 5, 30)
DROP = 0.1
SHARES = (0.0, 0.012, 0.02, 0.04)
COSTS = (0.0, 0.05, 0.15)


def share_cells() -> Iterator[Cell]:
    for items, trials in ((37, 1), (37, 5), (37, 10), (200, 1), (500, 1), (200, 5)):
        for sd in SHARES:
            name = f"{items}x{trials}, {100 * sd:g} points"
            yield Cell(name=name, items=items, trials=trials, effects=independent(sd))
    yield Cell(
        name="200x1 near 1, 1.2 points", items=200, rates=near_one, effects=independent(0.012)
    )


def cost_cells() -> Iterator[Cell]:
    for sd in COSTS:
        name = f"costs 58x1, {100 * sd:g} %"
        noise = with_item_sizes(lognormal_noise)
        yield Cell(name=name, items=58, costs=noise, effects=independent(sd))


CELLS = {cell.name: cell for cell in (*share_cells(), *cost_cells())}


class Called(NamedTuple):
    """How many of some pairs were called, and how many of them were falls."""

    pairs: int
    called: int
    worse: int

    @property
    def percent(self) -> float:
        return 100 * self.called / self.pairs


def measured_runs(cell: Cell, runs: Sequence[ItemMatrix]) -> dict[str, MeasuredRuns]:
    """What earlier runs tell, oldest first; the last one is the baseline."""
    return measure_series([points_of_run(spec_of(cell, run), {}, ValueFailures()) for run in runs])


def verdict_of(cell: Cell, runs: Sequence[ItemMatrix]) -> Verdict:
    """The verdict about the last of some runs, compared with the run before it."""
    *earlier, candidate = runs
    baseline = earlier[-1]
    measured = measured_runs(cell, earlier) if len(earlier) > 1 else {}
    spec = replace(
        spec_of(cell, candidate), baseline=baseline, candidate=candidate, measured_runs=measured
    )
    changes = assess_changes(spec, baseline, candidate, ValueFailures())
    return changes[(METRIC, None)].verdict


def count_calls(name: str, earlier: int, harm: float, pairs: int, seed: int) -> Called:
    """How many pairs of runs are called, with so many runs before the baseline; the last one is worse by `harm`."""
    cell, rng = CELLS[name], np.random.default_rng(seed)
    count = earlier + 2
    change = lasting_harm(cell, harm, count, count) if harm else no_change(count)
    verdicts = [
        verdict_of(cell, [matrix_of(cell, values) for values in values_of_runs(cell, change, rng)])
        for _ in range(pairs)
    ]
    worse = verdicts.count(Verdict.REGRESSED)
    return Called(pairs, worse + verdicts.count(Verdict.IMPROVED), worse)


def count_pages_at_run_2(name: str, histories: int, seed: int) -> Called:
    """How many unchanged series page at their second run."""
    cell, rng = CELLS[name], np.random.default_rng(seed)
    pages = sum(2 in play(cell, no_change(2), rng).pages for _ in range(histories))
    return Called(histories, pages, pages)


def main() -> None:
    """Print the tables."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with ProcessPoolExecutor(PROCESSES) as pool:
        print("\ncalled, unchanged, %; by earlier runs before the baseline")
        _print_table(pool, pairs, 0.0, EARLIER)
        drop = f"{100 * DROP:g} points (costs: a factor of {1 + 2.2 * DROP:g})"
        print(f"\nREGRESSED, worse by {drop}, %; by earlier runs before the baseline")
        _print_table(pool, max(1, pairs // DROP_PAIRS), DROP, EARLIER_OF_DROPS)
        print("\nunchanged series that page at run 2, %")
        pages: Callable[..., Called] = partial(count_pages_at_run_2, histories=4 * pairs, seed=3)
        for name, rate in zip(CELLS, pool.map(pages, CELLS), strict=True):
            print(f"{name} | {rate.percent:.1f}", flush=True)


def _print_table(
    pool: ProcessPoolExecutor, pairs: int, harm: float, columns: Sequence[int]
) -> None:
    print(f"cell | {' | '.join(map(str, columns))}")
    cells = [(name, earlier) for name in CELLS for earlier in columns]
    counts = [max(1, pairs // COST_PAIRS) if CELLS[name].costs else pairs for name, _ in cells]
    names, earlier_runs = zip(*cells, strict=True)
    seeds = range(len(cells))
    results = pool.map(count_calls, names, earlier_runs, [harm] * len(cells), counts, seeds)
    row: list[str] = []
    for (name, earlier), result in zip(cells, results, strict=True):
        rate = 100 * result.worse / result.pairs if harm else result.percent
        row.append(f"{rate:.1f}")
        if earlier == columns[-1]:
            print(f"{name} | {' | '.join(row)}", flush=True)
            row = []
    error = 100 * math.sqrt(0.05 * 0.95 / pairs)
    print(f"standard error at 5 %: {error:.1f} (costs {error * math.sqrt(COST_PAIRS):.1f})")


if __name__ == "__main__":
    main()
