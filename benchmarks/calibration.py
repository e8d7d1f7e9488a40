"""The rates of `docs/research/verdicts.md`: how often two runs of an unchanged agent are called, and how often a change is found.

    python -m benchmarks.calibration [PAIRS]

prints the tables with two processes, of 1,000 pairs of each kind unless said otherwise, in less than ten minutes. Every
pair is judged by the function that judges runs. 5 % of 1,000 pairs have a standard error of 0.7.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.simulated_pairs import (
    CALLED,
    COSTS,
    MIXED,
    NEAR_ONE,
    PARETO,
    PASSED,
    PER_PASS,
    RETRIES,
    USUAL,
    Floats,
    Kind,
    judge,
    passes,
    run_of,
)
from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.verdict_rules import ALPHA, FEW, About, ChangeVerdict, Verdict

PAIRS = 1000
PROCESSES = 2
KINDS = {kind.name: kind for kind in (USUAL, NEAR_ONE, MIXED, COSTS, RETRIES, PARETO, PER_PASS)}
SAMPLE_KINDS = tuple(kind.name for kind in (USUAL, NEAR_ONE, COSTS, RETRIES, PARETO, PER_PASS))
RATES = (USUAL.name, NEAR_ONE.name, MIXED.name)
# Items and trials of each item.
DESIGNS = ((10, 1), (10, 5), (37, 1), (37, 5), (37, 10), (200, 1), (200, 5), (500, 1))
SAMPLES = ((20, 20), (40, 400), (400, 40), (60, 500), (500, 60))
CLUSTERS = (
    (30, 12, 8, 6, 4),
    (12, 12, 12, 12),
    (12, 12, 12, 12, 12),
    (30, 4, 4, 4, 4, 4, 4, 4, 4, 4),
    (1, 2, 3, 4, 5, 6, 8, 10, 12, 16),
)
# What an evening does to a cluster: the standard deviation on the logit scale.
EVENINGS = (0.0, 1.0, 2.0)
# The chance of items and trials alone; `run_variation` measures runs that vary.
judge_items = partial(judge, run_sd=0.0)


class Calls(NamedTuple):
    """The shares of pairs that are called worse or better by each question; None where it has no answer."""

    tasks: float | None
    population: float | None


class Found(NamedTuple):
    """The shares of pairs that are called as falls and as rises."""

    falls: float
    rises: float


class Detectable(NamedTuple):
    """The mean of the stated minimum detectable effects, the number of broken tasks, the shares of spread-out drops and
    of broken tasks of this size that regressed.
    """

    effect: float
    tasks: float
    spread: float
    broken: float


def measure_unchanged(kind: str, design: tuple[int, int], pairs: int) -> Calls:
    """Unchanged pairs with the same items."""
    (items, trials), random = design, np.random.default_rng([1, *design])
    called: dict[About, list[bool]] = {about: [] for about in About}
    for _ in range(pairs):
        rates = KINDS[kind].draw(random, items)
        first, second = (run_of(passes(rates, trials, random)) for _ in range(2))
        change = judge_items(first, second, PASSED)
        for answer in change.answers:
            called[answer.about].append(answer.p is not None and answer.p < ALPHA)
    tasks, population = (
        float(np.mean(called[about])) if called[about] else None for about in About
    )
    return Calls(tasks, population)


def measure_samples(kind: str, sizes: tuple[int, int], change: float, pairs: int) -> Found:
    """Pairs of samples of different items. `change` is the factor of costs and of pass rates."""
    random, values = np.random.default_rng([2, *sizes]), KINDS[kind]
    return _found(
        judge_items(
            _sample(values, sizes[0], 1.0, random, prefix="a"),
            _sample(values, sizes[1], change, random, prefix="b"),
            values.judged,
            is_paired=False,
        )
        for _ in range(pairs)
    )


def _sample(
    kind: Kind, size: int, factor: float, random: np.random.Generator, prefix: str
) -> ItemMatrix:
    values = kind.draw(random, size)
    if not kind.is_cost:
        return run_of(passes(factor * values, 1, random), prefix=prefix)
    passed = passes(USUAL.draw(random, size), 1, random) if kind.is_per_pass else None
    return run_of(factor * np.exp(values)[:, None], prefix=prefix, passed=passed)


def measure_clusters(sizes: Sequence[int], evening: float, lost: float, pairs: int) -> Found:
    """Pairs of runs of the same clusters; the second one loses this share of its passes."""
    random, units = np.random.default_rng([3, *sizes]), np.repeat(np.arange(len(sizes)), sizes)

    def run(rates: Floats, left: float) -> ItemMatrix:
        clipped = np.clip(rates, 1e-6, 1 - 1e-6)
        logits = np.log(clipped / (1 - clipped)) + random.normal(0, evening, len(sizes))[units]
        return run_of(passes(left / (1 + np.exp(-logits)), 1, random), clusters=sizes)

    return _found(
        judge_items(run(rates, 1.0), run(rates, 1 - lost), PASSED)
        for rates in (USUAL.draw(random, len(units)) for _ in range(pairs))
    )


def _found(changes: Iterable[ChangeVerdict]) -> Found:
    directions = np.array(
        [
            0.0 if change.verdict not in CALLED else np.sign(change.effect or 0.0)
            for change in changes
        ]
    )
    return Found(float((directions < 0).mean()), float((directions > 0).mean()))


def measure_detectable(
    kind: str, design: tuple[int, int], about: About, pairs: int
) -> Detectable | None:
    """How often a change of the stated size is found, which is stated from two unchanged runs: all items fall alike, or
    some break. Of these tasks the stated number breaks, those that pass most often; beyond them each task breaks with
    the same chance. None when less than half of the pairs state a change.
    """
    (items, trials), random = design, np.random.default_rng([4, *design])
    effects, numbers = list[float](), list[float]()
    spread, broken = list[bool](), list[bool]()
    for _ in range(pairs):
        rates = KINDS[kind].draw(random, items)
        before = run_of(passes(rates, trials, random))
        unchanged = judge_items(before, run_of(passes(rates, trials, random)), PASSED, about=about)
        if unchanged.mde is None or unchanged.mde > rates.mean():
            continue
        number = unchanged.broken_items or int(np.ceil(unchanged.mde * items - 1e-9))
        effects.append(unchanged.mde)
        numbers.append(number)
        fallen = rates * (1 - unchanged.mde / rates.mean())
        left = rates.copy()
        if about is About.TASKS:
            left[np.argsort(-rates)[:number]] = 0.0
        else:
            left[random.random(items) < unchanged.mde / rates.mean()] = 0.0
        for later, found in ((fallen, spread), (left, broken)):
            change = judge_items(before, run_of(passes(later, trials, random)), PASSED, about=about)
            found.append(change.verdict is Verdict.REGRESSED and not FEW & {*change.notes})
    if 2 * len(effects) < pairs:
        return None
    effect, tasks, of_all, of_broken = (
        float(np.mean(values)) for values in (effects, numbers, spread, broken)
    )
    return Detectable(effect, tasks, of_all, of_broken)


def main(pairs: int) -> None:
    with ProcessPoolExecutor(PROCESSES) as pool:
        print_unchanged(pool.map, pairs)
        print_samples(pool.map, pairs)
        print_clusters(pool.map, pairs)
        print_detectable(pool.map, max(1, pairs // 3))


Run = Callable[..., Iterable[Any]]


def print_unchanged(run: Run, pairs: int) -> None:
    print("Unchanged pairs that are called, in % (on these tasks / beyond these tasks):\n")
    print(f"| Items x trials | {' | '.join(RATES)} |\n|---|{'---|' * len(RATES)}")
    for design in DESIGNS:
        cells = run(partial(measure_unchanged, design=design, pairs=pairs), RATES)
        texts = [f"{_percent(calls.tasks)} / {_percent(calls.population)}" for calls in cells]
        print(f"| {design[0]} x {design[1]} | {' | '.join(texts)} |", flush=True)
    print()


def print_samples(run: Run, pairs: int) -> None:
    print(
        "Samples of different items, called in % as falls / rises when nothing changed; then found, when costs rise by"
        " half or 15 % of the passes are lost:\n"
    )
    print(
        f"| Values | {' | '.join(f'{a} v {b}' for a, b in SAMPLES)} |\n|---|{'---|' * len(SAMPLES)}"
    )
    for name in SAMPLE_KINDS:
        is_cost = KINDS[name].is_cost
        measure = partial(measure_samples, name, pairs=pairs)
        unchanged = run(partial(measure, change=1.0), SAMPLES)
        changed = run(partial(measure, change=1.5 if is_cost else 0.85), SAMPLES)
        cells = [
            f"{_percent(null.falls)} / {_percent(null.rises)}; {100 * (found.rises if is_cost else found.falls):.0f}"
            for null, found in zip(unchanged, changed, strict=True)
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print()


def print_clusters(run: Run, pairs: int) -> None:
    print(
        "Clusters, whose evenings differ by this standard deviation (logit): called in % when nothing changed; then found,"
        " when 70 % of the passes are lost:\n"
    )
    print(f"| Sizes | {' | '.join(map(str, EVENINGS))} |\n|---|{'---|' * len(EVENINGS)}")
    for sizes in CLUSTERS:
        measure = partial(measure_clusters, sizes, pairs=pairs)
        unchanged, changed = (run(partial(measure, lost=lost), EVENINGS) for lost in (0.0, 0.7))
        cells = [
            f"{_percent(null.falls + null.rises)}; {100 * found.falls:.0f}"
            for null, found in zip(unchanged, changed, strict=True)
        ]
        print(f"| {', '.join(map(str, sizes))} | {' | '.join(cells)} |", flush=True)
    print()


def print_detectable(run: Run, pairs: int) -> None:
    print(
        "Minimum detectable effect (mean), as a drop of all tasks or as broken tasks, and how often each is found in %, of"
        f" {pairs} pairs:\n"
    )
    header = [f"{about.phrase}: {name}" for about in About for name in RATES[:2]]
    print(f"| Tasks x trials | {' | '.join(header)} |\n|---|{'---|' * len(header)}")
    for design in DESIGNS:
        cells = []
        for about in About:
            measure = partial(measure_detectable, design=design, about=about, pairs=pairs)
            cells += [_describe(found) for found in run(measure, RATES[:2])]
        print(f"| {design[0]} x {design[1]} | {' | '.join(cells)} |", flush=True)


def _describe(found: Detectable | None) -> str:
    if found is None:
        return "none stated"
    return f"{found.effect:.3f} or {found.tasks:.0f}: {100 * found.spread:.0f}, {100 * found.broken:.0f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
