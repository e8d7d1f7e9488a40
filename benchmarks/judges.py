"""The tables of `docs/research/judges.md`: how often the interval of a corrected mean has the truth, and how much narrower it is.

    python -m benchmarks.judges [RUNS]

prints them, of 2,000 simulated runs of each kind unless said otherwise, in ten minutes of one processor. Every mean is computed by
the functions that the pages of judges (`correct_mean`) and KPIs (`carry_correction`) use. 95 % of 2,000 runs have a standard error of 0.5.
"""

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from benchmarks.simulated_pairs import Floats
from mosaico.statistics.carried_correction import JudgedRun, carry_correction
from mosaico.statistics.corrected_mean import JudgedItems, correct_mean
from mosaico.statistics.judge_agreement import AnnotatedAnswers, measure_agreement

RUNS: Final = 2000
PROCESSES: Final = 2
# Annotated items, and items.
DESIGNS: Final = ((20, 200), (50, 200), (200, 1000), (20, 1000), (50, 1000))
# Items in clusters of so many, of which all or none are annotated.
CLUSTER_SIZES: Final = (1, 5)
RATES: Final = (0.8, 0.95)

Judge = Callable[[Floats, np.random.Generator], Floats]


def _flip(random: np.random.Generator, right: Floats, missed: float, excused: float) -> Floats:
    """Pass or fail of a judge that fails a share of the right answers and passes a share of the wrong ones."""
    draws = random.random(len(right))
    return np.where(right > 0, draws >= missed, draws < excused).astype(np.float64)


JUDGES: Final[dict[str, Judge]] = {
    "good: errs in 5 %": lambda right, random: _flip(random, right, 0.05, 0.05),
    "kind: passes 60 % of the wrong": lambda right, random: _flip(random, right, 0.02, 0.6),
    "strict: fails 30 % of the right": lambda right, random: _flip(random, right, 0.3, 0.02),
    "scores: 0.8 and 0.5 on average": lambda right, random: np.clip(
        0.5 + 0.3 * right + random.normal(0, 0.15, len(right)), 0, 1
    ),
    "useless: passes 70 % of all": lambda right, random: _flip(random, right, 0.3, 0.7),
}


class Coverage(NamedTuple):
    """The shares of intervals that have the truth: corrected, of the judge alone and of the annotations alone; and the mean
    width of the corrected ones divided by that of the annotations alone.
    """

    corrected: float
    judge: float
    annotations: float
    width: float


def measure_coverage(design: tuple[int, int], name: str, rate: float, size: int, runs: int) -> Coverage:  # fmt: skip
    """Simulated runs whose answers are right with this chance, more or less in each cluster."""
    (annotated, items), random = design, np.random.default_rng([5, *design, size])
    hits = np.zeros((runs, 3))
    widths = np.zeros((runs, 2))
    for run in range(runs):
        judged = draw_items(random, JUDGES[name], rate, annotated, items, size)
        corrected = correct_mean(judged)
        scores = judged._replace(annotations=judged.scores, annotated_scores=judged.scores)
        by_judge = correct_mean(scores)
        for column, interval in enumerate((corrected.interval, by_judge.alone, corrected.alone)):
            hits[run, column] = interval is not None and interval.low <= rate <= interval.high
        widths[run] = [
            0.0 if interval is None else interval.high - interval.low
            for interval in (corrected.interval, corrected.alone)
        ]
    totals = widths.sum(axis=0)
    corrected_hits, judge_hits, alone_hits = map(float, hits.mean(axis=0))
    return Coverage(corrected_hits, judge_hits, alone_hits, width=float(totals[0] / totals[1]))


def draw_items(
    random: np.random.Generator, judge: Judge, rate: float, annotated: int, items: int, size: int
) -> JudgedItems:
    """One run: the judge scores all items, people those of the first clusters."""
    units = np.arange(items) // size
    rates = np.full(items, rate)
    if size > 1:
        # A beta distribution with this mean; the answers of a cluster correlate by 0.2.
        rates = random.beta(4 * rate, 4 * (1 - rate), items // size)[units]
    right = (random.random(items) < rates).astype(np.float64)
    scores = judge(right, random)
    is_annotated = np.arange(items) < annotated
    return JudgedItems(
        scores=scores,
        annotations=np.where(is_annotated, right, np.nan),
        annotated_scores=np.where(is_annotated, scores, np.nan),
        units=units,
    )


class CarriedCoverage(NamedTuple):
    """Of runs that annotations of earlier runs correct: the shares of intervals that have the truth, corrected and as if the
    annotated answers were a sample of the run, the mean width of the corrected ones, and the share of runs that were
    not corrected.
    """

    corrected: float
    as_a_sample: float
    width: float
    uncorrected: float


def measure_carried(annotated: int, name: str, rates: tuple[float, float], runs: int) -> CarriedCoverage:  # fmt: skip
    """Simulated runs of 200 items, right by the second rate; the annotated answers are right by the first one."""
    random, items = np.random.default_rng([7, annotated]), 200
    hits, widths = np.zeros((runs, 2)), np.full(runs, np.nan)
    for run in range(runs):
        people = (random.random(annotated) < rates[0]).astype(np.float64)
        earlier = JUDGES[name](people, random)
        right = (random.random(items) < rates[1]).astype(np.float64)
        scores = JUDGES[name](right, random)
        units = np.arange(items + annotated)
        carried = carry_correction(
            JudgedRun(scores, units[:items], AnnotatedAnswers(earlier, people, units[items:]))
        )
        none = np.full(items, np.nan)
        sampled = correct_mean(
            JudgedItems(
                scores=np.concatenate([scores, earlier]),
                annotations=np.concatenate([none, people]),
                annotated_scores=np.concatenate([none, earlier]),
                units=units,
            )
        )
        for column, interval in enumerate((carried.interval, sampled.interval)):
            hits[run, column] = interval is not None and interval.low <= rates[1] <= interval.high
        if carried.interval is not None:
            widths[run] = carried.interval.high - carried.interval.low
    is_corrected = np.isfinite(widths)
    if not is_corrected.any():
        return CarriedCoverage(math.nan, float(hits[:, 1].mean()), math.nan, 1.0)
    return CarriedCoverage(
        corrected=float(hits[is_corrected, 0].mean()),
        as_a_sample=float(hits[:, 1].mean()),
        width=float(widths[is_corrected].mean()),
        uncorrected=float(1 - is_corrected.mean()),
    )


def measure_agreement_coverage(annotated: int, name: str, rate: float, runs: int) -> dict[str, float]:  # fmt: skip
    """How often the intervals of the agreement have its value over a million answers."""
    random = np.random.default_rng([6, annotated])

    def answers(count: int) -> AnnotatedAnswers:
        right = (random.random(count) < rate).astype(np.float64)
        return AnnotatedAnswers(JUDGES[name](right, random), right, np.arange(count))

    truth = measure_agreement(answers(1_000_000))
    hits = {measure: list[bool]() for measure in ("share", "kappa", "bias", "correlation")}
    for _ in range(runs):
        found = measure_agreement(answers(annotated))
        for measure, covered in hits.items():
            interval, value = getattr(found, measure).interval, getattr(truth, measure).value
            if interval is not None and value is not None:
                covered.append(interval.low <= value <= interval.high)
    return {measure: float(np.mean(covered)) for measure, covered in hits.items() if covered}


def main(runs: int) -> None:
    with ProcessPoolExecutor(PROCESSES) as pool:
        for size in CLUSTER_SIZES:
            for rate in RATES:
                print(
                    f"\n{rate:.0%} right, {'single items' if size == 1 else f'clusters of {size}'}:\n"
                )
                print(f"| Judge | {' | '.join(f'{n} of {all_}' for n, all_ in DESIGNS)} |")
                print(f"|---|{'---|' * len(DESIGNS)}")
                for name in JUDGES:
                    measure = partial(measure_coverage, name=name, rate=rate, size=size, runs=runs)
                    cells = [_describe(found) for found in pool.map(measure, _designs(size))]
                    print(f"| {name} | {' | '.join(cells)} |", flush=True)
        print(
            "\n| Judge | Annotated | Share | Kappa | Bias | Correlation |\n|---|---|---|---|---|---|"
        )
        for name in JUDGES:
            for annotated in (20, 50, 200):
                found = measure_agreement_coverage(annotated, name, RATES[0], runs)
                cells = [f"{100 * share:.1f}" for share in found.values()]
                print(f"| {name} | {annotated} | {' | '.join(cells)} |", flush=True)
    print_carried(runs)


def print_carried(runs: int) -> None:
    """The table of the KPIs of later runs."""
    shifts = ((0.8, 0.8), (0.8, 0.6), (0.8, 0.95))
    titles = " | ".join(f"{first:.0%} → {second:.0%}" for first, second in shifts)
    print(f"\n| Judge | Annotated | {titles} |\n|---|---|---|---|---|")
    for name in JUDGES:
        for annotated in (30, 50, 200):
            cells = [
                _describe_carried(measure_carried(annotated, name, shift, runs)) for shift in shifts
            ]
            print(f"| {name} | {annotated} | {' | '.join(cells)} |", flush=True)


def _describe_carried(found: CarriedCoverage) -> str:
    shares = " / ".join(f"{100 * share:.1f}" for share in found[:2])
    return f"{shares}; {found.width:.2f}; {100 * found.uncorrected:.0f}"


def _designs(size: int) -> list[tuple[int, int]]:
    """With clusters, as many clusters as items without."""
    return [(annotated * size, items * size) for annotated, items in DESIGNS]


def _describe(found: Coverage) -> str:
    shares = " / ".join(f"{100 * share:.1f}" for share in found[:3])
    return f"{shares}; {found.width:.2f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
