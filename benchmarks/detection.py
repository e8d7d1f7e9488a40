"""The rates of `docs/research/detection.md`: how often rules page about unchanged and changed agents.

    python -m benchmarks.detection [HISTORIES]

prints the tables with two processes: 60 histories of each kind, and twice as many of unchanged agents, in less than
20 minutes. All histories go through the functions that ship. Standard errors are those of histories.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.simulated_series import (
    Cell,
    Events,
    Floats,
    always_or_never,
    at_irregular_times,
    correlated,
    heavy_tailed,
    in_bursts,
    independent,
    lasting_harm,
    lognormal_noise,
    near_one,
    near_zero,
    nearly_always,
    on_weekdays,
    pareto_noise,
    play,
    play_anomaly,
    retry_noise,
    slow_wave,
    t_noise,
    with_item_sizes,
)
from mosaico.kpis.series_types import SeriesEvent
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES

HISTORIES = 60
PROCESSES = 2
RUNS = 90
# The limits with which cells above the default one are measured again.
STRICTER = (0.1, 0.05)
FIRST_RUNS = 12

UNCHANGED = (
    Cell(name="10 items x 1", items=10),
    Cell(name="37 x 1, runs vary by 2 points", items=37, effects=independent(0.02)),
    Cell(name="58 x 1, runs vary by 1.2 points", items=58, effects=independent(0.012)),
    Cell(name="10 x 5, runs vary by 2 points", items=10, trials=5, effects=independent(0.02)),
    Cell(name="37 x 5, runs vary by 2 points", items=37, trials=5, effects=independent(0.02)),
    Cell(name="200 x 1, runs vary by 1.2 points", items=200, effects=independent(0.012)),
    Cell(name="200 x 1, runs vary by 4 points", items=200, effects=independent(0.04)),
    Cell(name="500 x 1, runs vary by 5 points", items=500, effects=independent(0.05)),
    Cell(name="200 x 1, effects of runs with heavy tails", items=200, effects=heavy_tailed(0.03)),
    Cell(name="ceiling: 58 x 1, items pass in 95-100 %", items=58, rates=near_one),
    Cell(name="rare failures: 10 x 1, items pass in 99 %", items=10, rates=nearly_always),
    Cell(name="floor: 58 x 1, items pass in 0-10 %", items=58, rates=near_zero),
    Cell(name="ties: 37 x 1, most items always pass", items=37, rates=always_or_never),
    Cell(name="growing: 40 to 80 items", items=40, growing=40, effects=independent(0.02)),
    Cell(name="58 x 1, weekends 3 points worse", items=58, effects=on_weekdays(0.03, 2)),
    Cell(name="200 x 1, weekends 6 points worse", items=200, effects=on_weekdays(0.06, 2)),
    Cell(name="58 x 1, neighbors correlated by 0.3, 3 points", items=58, effects=correlated(0.3, 0.03)),
    Cell(name="200 x 1, correlated by 0.3, 4 points", items=200, effects=correlated(0.3, 0.04)),
    Cell(name="58 x 1, correlated by 0.6, 2 points", items=58, effects=correlated(0.6, 0.02)),
    Cell(name="200 x 1, correlated by 0.6, 3 points", items=200, effects=correlated(0.6, 0.03)),
    Cell(name="58 x 1, bursts of 1-6 CI runs, 3 points", items=58, effects=in_bursts(0.03)),
    Cell(name="200 x 1, irregular times, 3 points", items=200, effects=at_irregular_times(0.03)),
    Cell(name="200 x 1, slow wave of 3 points in 60 runs", items=200, effects=slow_wave(0.03, 60)),
    Cell(name="costs, 58 x 1, lognormal", items=58, costs=with_item_sizes(lognormal_noise)),
    Cell(name="costs, 58 x 1, retries cost 30 times as much", items=58, costs=with_item_sizes(retry_noise)),
    Cell(name="costs, 58 x 1, Student's t with 3 degrees", items=58, costs=with_item_sizes(t_noise)),
    Cell(name="costs, 58 x 1, Pareto 1.5", items=58, costs=with_item_sizes(pareto_noise)),
    Cell(
        name="costs, 58 x 1, runs vary by 15 %",
        items=58,
        costs=with_item_sizes(lognormal_noise),
        effects=independent(0.15),
    ),
)  # fmt: skip

# By name, which another process can be told.
CELLS = {cell.name: cell for cell in UNCHANGED}
CHANGED = tuple(UNCHANGED[index].name for index in (1, 2, 4, 5, 6, 16, 20, 24, 25))
SIZES = (0.05, 0.1, 0.3)
STARTS = (8, 20, 60)


class Rate(NamedTuple):
    """A mean over histories with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Rate":
        numbers = np.asarray(values, dtype=float)
        return cls(float(numbers.mean()), float(numbers.std() / math.sqrt(len(numbers))))


class UnchangedRates(NamedTuple):
    """Pages in 30 runs, the same in the first 12 runs, and the share of histories that page in the second run."""

    pages: Rate
    early_pages: Rate
    at_run_2: Rate


class Detection(NamedTuple):
    """The shares of histories that page by the first and fifth changed run, and the mean delay (31: never)."""

    by_1: float
    by_5: float
    delay: float


class Recovery(NamedTuple):
    """After 10 points for 30 runs: the shares of incidents that were closed in bad runs, and within 5 and 10 good ones."""

    false: float
    by_5: float
    by_10: float


def histories(
    name: str, change: Floats, count: int, false_pages: float = DEFAULT_FALSE_PAGES
) -> list[Events]:
    return [
        play(CELLS[name], change, np.random.default_rng([seed, len(change)]), false_pages)
        for seed in range(count)
    ]


def measure_unchanged(name: str, count: int, false_pages: float) -> UnchangedRates:
    pages = [events.pages for events in histories(name, np.zeros(RUNS), count, false_pages)]
    early = [sum(run <= FIRST_RUNS for run in runs) * 30 / FIRST_RUNS for runs in pages]
    return UnchangedRates(
        Rate.of([len(runs) * 30 / RUNS for runs in pages]),
        Rate.of(early),
        Rate.of([2 in runs for runs in pages]),
    )


def measure_drop(name: str, size: float, first: int, count: int) -> Detection:
    change = lasting_harm(CELLS[name], size, first, first + 30)
    return detection([events.pages for events in histories(name, change, count)], first)


def detection(pages: Sequence[Sequence[int]], first: int) -> Detection:
    delays = np.array(
        [min((run - first + 1 for run in runs if run >= first), default=31) for runs in pages]
    )
    delays = np.minimum(delays, 31)
    return Detection(float((delays <= 1).mean()), float((delays <= 5).mean()), float(delays.mean()))


def measure_recovery(name: str, size: float, count: int) -> Recovery:
    change = lasting_harm(CELLS[name], size, 21, 50)
    change = np.concatenate([change, np.zeros(15)])
    false, closed = [], []
    for events in histories(name, change, count):
        ends = events.runs_of(SeriesEvent.RESOLVED)
        opened = [run for run in events.runs_of(SeriesEvent.OPENED) if 21 <= run <= 50]
        if opened:
            false.append(any(opened[0] < run <= 50 for run in ends))
        open_since = max(
            (run for run in events.runs_of(SeriesEvent.OPENED) if run <= 50), default=0
        )
        if open_since > max((run for run in ends if run <= 50), default=0):
            closed.append(min((run - 50 for run in ends if run > 50), default=31))
    delays = np.array(closed)
    return Recovery(
        float(np.mean(false)), float((delays <= 5).mean()), float((delays <= 10).mean())
    )


def measure_second_drop(name: str, bad_runs: int, count: int) -> Detection:
    """A second drop of 10 points, 30 runs after the end of the first."""
    last = 20 + bad_runs
    first = lasting_harm(CELLS[name], 0.1, 21, last)
    change = np.concatenate([first, np.zeros(30), first[20:21].repeat(30)])
    return detection([events.pages for events in histories(name, change, count)], last + 31)


def interval_coverage(name: str, count: int) -> float:
    """The share of pages about a drop of 10 points whose interval has it."""
    change = lasting_harm(CELLS[name], 0.1, 20, 50)
    size, covered = change[-1], []
    for events in histories(name, change, count):
        page = next((run for run in events.pages if run >= 20), None)
        evidence = events.evidence[page - 1] if page else None
        if evidence is not None and evidence.low is not None and evidence.high is not None:
            covered.append(evidence.low <= size <= evidence.high)
    return float(np.mean(covered))


def measure_anomalies(name: str, count: int) -> tuple[Rate, Detection]:
    """How often ANOMALY_DETECTED fires in 30 runs of an unchanged agent, and about a drop of 10 points at run 20."""

    def fired(change: Floats) -> list[list[int]]:
        return [
            play_anomaly(CELLS[name], change, np.random.default_rng([seed, len(change)]))
            for seed in range(count)
        ]

    unchanged = Rate.of([len(runs) * 30 / RUNS for runs in fired(np.zeros(RUNS))])
    return unchanged, detection(fired(lasting_harm(CELLS[name], 0.1, 20, 50)), 20)


def main(count: int) -> None:
    with ProcessPoolExecutor(PROCESSES) as pool:
        print_unchanged(pool.map, 2 * count)
        print_drops(pool.map, count)
        print_after(pool.map, count)
        print_anomalies(pool.map, max(1, count // 2))


def print_anomalies(run: Callable[..., Iterable[Any]], count: int) -> None:
    print(
        "\n| ANOMALY_DETECTED | fires in 30 runs, unchanged | 10 points at run 20 |\n|---|---|---|"
    )
    rates, found = [], []
    for name, (rate, drop) in zip(
        CELLS, run(partial(measure_anomalies, count=count), CELLS), strict=True
    ):
        rates.append(rate.mean)
        found.append(drop)
        print(
            f"| {name} | {rate.mean:.2f} ± {rate.error:.3f} | {format_detection(drop)} |",
            flush=True,
        )
    mean = Detection(*map(float, np.mean(found, axis=0)))
    print(f"| mean | {np.mean(rates):.2f} | {format_detection(mean)} |")


def print_unchanged(run: Callable[..., Iterable[Any]], count: int) -> None:
    print("| Unchanged agent | pages in 30 runs | first 12 runs, per 30 | at run 2 |")
    print("|---|---|---|---|")
    usual = partial(measure_unchanged, count=count, false_pages=DEFAULT_FALSE_PAGES)
    means, above = [], []
    for name, rate in zip(CELLS, run(usual, CELLS), strict=True):
        means.append(rate.pages.mean)
        if rate.pages.mean > DEFAULT_FALSE_PAGES:
            above.append(name)
        print(
            f"| {name} | {rate.pages.mean:.2f} ± {rate.pages.error:.3f} | {rate.early_pages.mean:.2f} |"
            f" {100 * rate.at_run_2.mean:.1f} % |",
            flush=True,
        )
    print(f"| mean | {np.mean(means):.3f} | | |\n")
    for limit in STRICTER:
        strict = partial(measure_unchanged, count=count, false_pages=limit)
        for name, rate in zip(above, run(strict, above), strict=True):
            print(
                f"{name}, limit {limit}: {rate.pages.mean:.2f} ± {rate.pages.error:.3f}",
                flush=True,
            )
    print()


def print_drops(run: Callable[..., Iterable[Any]], count: int) -> None:
    scenarios = [(0.3, 2), *((size, first) for size in SIZES for first in STARTS)]
    print(
        "| Changed agent | "
        + " | ".join(f"{100 * size:.0f} points at run {first}" for size, first in scenarios)
        + " |"
    )
    print("|---|" + "---|" * len(scenarios))
    table = []
    for name in CHANGED:
        sizes, firsts = zip(*scenarios, strict=True)
        row = list(run(partial(measure_drop, name, count=count), sizes, firsts))
        table.append(row)
        print(f"| {name} | " + " | ".join(map(format_detection, row)) + " |", flush=True)
    columns = [
        Detection(*map(float, np.mean(column, axis=0))) for column in zip(*table, strict=True)
    ]
    print("| mean | " + " | ".join(map(format_detection, columns)) + " |\n")


def format_detection(rate: Detection) -> str:
    return f"{100 * rate.by_1:.0f}/{100 * rate.by_5:.0f}, {rate.delay:.1f}"


def print_after(run: Callable[..., Iterable[Any]], count: int) -> None:
    print(
        "| Changed agent | 10 points, recovery | 5 points, recovery | second drop after 20 bad runs | after 5 | interval |"
    )
    print("|---|---|---|---|---|---|")
    tasks = [
        partial(measure_recovery, size=0.1, count=count),
        partial(measure_recovery, size=0.05, count=count),
        partial(measure_second_drop, bad_runs=20, count=count),
        partial(measure_second_drop, bad_runs=5, count=count),
        partial(interval_coverage, count=count),
    ]
    columns = [list(run(task, CHANGED)) for task in tasks]
    for name, *row in zip(CHANGED, *columns, strict=True):
        tens, fives, long, short, covered = row
        print(
            f"| {name} | {format_recovery(tens)} | {format_recovery(fives)} | {format_detection(long)} |"
            f" {format_detection(short)} | {100 * covered:.0f} |"
        )


def format_recovery(rate: Recovery) -> str:
    return f"{100 * rate.false:.0f}; {100 * rate.by_5:.0f}, {100 * rate.by_10:.0f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else HISTORIES)
