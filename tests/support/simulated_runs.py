"""Simulated pairs of runs with a known truth, judged by the decision path of the product.

A `Design` says how many items, trials, clusters and baseline runs there are. All metrics of a pair
are drawn together, so that one pair serves every KPI.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.comparison.child_computation import assess_changes
from mosaico.comparison.comparison_spec import ComparisonSpec, KpiComparisonSpec
from mosaico.comparison.run_changes import RunChanges
from mosaico.comparison.tested_change import TestedChange
from mosaico.comparison.value_failures import ValueFailures
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.formulas.run_statistics import RunStatistics
from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.verdict_rules import ALPHA, FEW, About, ChangeVerdict, Side, VerdictRule

Values: TypeAlias = NDArray[np.float64]

RATE, MULTIPLE = ValueRange(0.0, 1.0), ValueRange(0.0, None)


@dataclass(frozen=True, kw_only=True)
class Design:
    """The size of two runs. `clusters` are the items of each cluster; without any, items are
    independent. `trials` (0: 1 to 8 per item and run) and a share of `missing` values hold for both
    runs; `runs` is the number of baseline runs.
    """

    items: int
    trials: int = 1
    clusters: Sequence[int] = ()
    missing: float = 0.0
    runs: int = 1

    def __str__(self) -> str:
        parts = [f"{self.items}×{self.trials or '1-8'}"]
        if self.clusters:
            parts.append(
                f"{len(self.clusters)} clusters of {min(self.clusters)}-{max(self.clusters)}"
            )
        if self.missing:
            parts.append(f"{self.missing:.0%} missing")
        if self.runs > 1:
            parts.append(f"{self.runs} runs")
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A KPI and its range."""

    name: str
    formula: str
    limits: ValueRange = RATE
    side: Side = Side.LOW


SCENARIOS = (
    Scenario(name="passes, easy", formula="EASY"),
    Scenario(name="passes, mixed", formula="MIXED"),
    Scenario(name="passes, all or nothing", formula="SPLIT"),
    Scenario(name="grades with spikes", formula="GRADE"),
    Scenario(name="latency", formula="DURATION * 1", limits=MULTIPLE, side=Side.HIGH),
    Scenario(name="sum of costs", formula="PRICE.sum", limits=MULTIPLE, side=Side.HIGH),
    Scenario(name="weighted sum", formula="WEIGHTED_SUM(GRADE:0.5, OTHER:0.5)"),
    Scenario(name="cost per pass", formula="PRICE / MIXED", limits=MULTIPLE, side=Side.HIGH),
    Scenario(name="MIN of tied metrics", formula="MIN(GRADE, OTHER)"),
)
JUMPS = (
    Scenario(name="THRESHOLD at its limit", formula="THRESHOLD(MIXED, 0.5)"),
    Scenario(name="IF at its limit", formula="IF MIXED >= 0.5 THEN GRADE ELSE EASY"),
    Scenario(name="95th percentile", formula="DURATION.p95", limits=MULTIPLE, side=Side.HIGH),
)
# What each metric is when an item falls to its worst value.
METRICS = ("EASY", "MIXED", "SPLIT", "GRADE", "OTHER", "DURATION", "PRICE", "TOKENS")
# A cost that varies from trial to trial only: the others vary from run to run, too much for any
# number of trials to settle them.
TOKENS = Scenario(name="tokens", formula="TOKENS * 1", limits=MULTIPLE, side=Side.HIGH)


class Pair(NamedTuple):
    """Baseline and candidate of one simulation."""

    baseline: ItemMatrix
    candidate: ItemMatrix


@dataclass
class Tally:
    """The outcomes of one scenario."""

    pairs: int = 0
    down: int = 0
    up: int = 0
    covered: int = 0

    def add(self, change: TestedChange | ChangeVerdict) -> None:
        """Adds the change of an unchanged pair; a change without a test calls nothing."""
        self.pairs += 1
        if isinstance(change, ChangeVerdict) or change.test is None:
            return
        # Too few units are inconclusive, whatever their p.
        if change.test.p < ALPHA and not FEW & {*change.notes}:
            self.down += change.test.effect < 0
            self.up += change.test.effect > 0
        interval = change.test.interval(ALPHA)
        self.covered += interval is None or interval.low <= 0 <= interval.high

    def share(self, count: int) -> float:
        return count / max(1, self.pairs)

    @property
    def called(self) -> float:
        return self.share(self.down + self.up)

    @property
    def coverage(self) -> float:
        return self.share(self.covered)


def draw_pair(
    design: Design,
    random: np.random.Generator,
    *,
    thinning: float = 0.0,
    factor: float = 1.0,
    noise: float = 0.0,
) -> Pair:
    """A pair of runs. In the candidate a share `thinning` of the passes and grades falls to 0, and
    latency and cost are multiplied by `factor`. `noise` is the standard deviation, in logits, of
    what an evening does to an item or a cluster.
    """
    items = design.items
    units = np.repeat(np.arange(len(design.clusters)), design.clusters) if design.clusters else None
    abilities = {
        "EASY": random.beta(8, 2, items),
        "MIXED": random.beta(2, 2, items),
        "SPLIT": random.beta(0.5, 0.5, items),
        "GRADE": random.beta(2, 2, items),
        "DURATION": random.normal(0, 1, items),
        "PRICE": random.normal(0, 1, items),
    }
    baseline = [
        _draw_run(design, abilities, units, random, noise=noise) for _ in range(design.runs)
    ]
    candidate = [
        _draw_run(design, abilities, units, random, noise=noise, thinning=thinning, factor=factor)
    ]
    return Pair(_matrix(baseline, units), _matrix(candidate, units))


def _draw_run(
    design: Design,
    abilities: Mapping[str, Values],
    units: NDArray[np.intp] | None,
    random: np.random.Generator,
    *,
    noise: float,
    thinning: float = 0.0,
    factor: float = 1.0,
) -> tuple[NDArray[np.intp], dict[str, Values]]:
    """The item of each trace, and the values of each metric."""
    trials = random.integers(1, 9, design.items) if not design.trials else design.trials
    index = np.repeat(np.arange(design.items), trials)
    count = len(index)
    # What the evening does to an item, or to a whole cluster, is chance, too.
    if units is None:
        evening = random.normal(0, 1, design.items)[index] * noise
    else:
        evening = random.normal(0, 1, units[-1] + 1)[units][index] * (noise or 0.7)

    def shifted(shares: Values) -> Values:
        clipped = np.clip(shares[index], 1e-9, 1 - 1e-9)
        return 1 / (1 + (1 / clipped - 1) * np.exp(-evening))

    is_unthinned = random.random(count) >= thinning
    columns: dict[str, Values] = {
        name: ((random.random(count) < shifted(abilities[name])) & is_unthinned).astype(np.float64)
        for name in ("EASY", "MIXED", "SPLIT")
    }
    shared = random.normal(0, 0.15, count)
    for name in ("GRADE", "OTHER"):
        grade = np.clip(shifted(abilities["GRADE"]) + shared + random.normal(0, 0.15, count), 0, 1)
        columns[name] = np.where(random.random(count) < 0.1, 0.0, grade) * is_unthinned
    for name in ("DURATION", "PRICE"):
        spread = abilities[name][index] + random.normal(0, 0.6, count) + 0.5 * evening
        per_item = random.normal(0, 0.6, design.items)[index]
        columns[name] = factor * np.exp(spread + per_item)
    # The noise of a trial has the standard deviation 0.6, as that of the other costs.
    columns["TOKENS"] = factor * np.exp(0.5 * abilities["DURATION"][index] + 4 * shared)
    if design.missing:
        is_missing = random.random(count) < design.missing
        columns = {name: np.where(is_missing, np.nan, values) for name, values in columns.items()}
    return index, columns


def _matrix(
    runs: Sequence[tuple[NDArray[np.intp], dict[str, Values]]], units: NDArray[np.intp] | None
) -> ItemMatrix:
    index = np.concatenate([run[0] for run in runs])
    order = np.argsort(index, kind="stable")
    run_index = np.concatenate([np.full(len(run[0]), number) for number, run in enumerate(runs)])
    items = int(index.max()) + 1
    return ItemMatrix(
        items=[f"{item:05d}" for item in range(items)],
        revisions=[""] * items,
        clusters=[] if units is None else [str(unit) for unit in units.tolist()],
        item_index=array("l", index[order].tolist()),
        run_index=array("l", run_index[order].tolist()),
        values={
            name: array("d", np.concatenate([run[1][name] for run in runs])[order].tolist())
            for name in METRICS
        },
    )


def judge(
    pair: Pair,
    scenarios: Sequence[Scenario],
    *,
    min_effect: float = 0.0,
    is_judged: bool = False,
    is_paired: bool = True,
) -> dict[str, ChangeVerdict]:
    """The verdicts of the product, by scenario; every change counts unless `min_effect` is given. These runs have the
    chance of their items and trials only.
    """
    spec = ComparisonSpec(
        about=About.POPULATION,
        run_sd=0.0,
        run=pair.candidate,
        candidate=pair.candidate,
        baseline=pair.baseline,
        is_paired=is_paired,
        metrics=[],
        kpis=[
            KpiComparisonSpec(
                id=scenario.name,
                formula=scenario.formula,
                is_judged=is_judged,
                rule=VerdictRule(
                    side=scenario.side, min_effect=min_effect, margin=2.5 * min_effect
                ),
                limits=scenario.limits,
                line=line_of(compile_formula(scenario.formula)),
            )
            for scenario in scenarios
        ],
    )
    changes = assess_changes(spec, pair.baseline, pair.candidate, ValueFailures())
    return {scenario.name: changes[None, scenario.name] for scenario in scenarios}


def play(
    design: Design,
    scenarios: Sequence[Scenario],
    pairs: int,
    *,
    seed: int = 37,
    noise: float = 0.0,
) -> dict[str, Tally]:
    """The outcomes of pairs of runs without a change, by scenario."""
    random = np.random.default_rng([seed, design.items, design.trials, pairs])
    tallies = {scenario.name: Tally() for scenario in scenarios}
    for _ in range(pairs):
        changes = changes_of(draw_pair(design, random, noise=noise))
        for scenario in scenarios:
            tallies[scenario.name].add(change_of(changes, scenario))
    return tallies


def changes_of(pair: Pair, *, is_paired: bool = True) -> RunChanges:
    """The changes between the runs, as a sample of items: the tests decide the verdicts of `judge`."""
    runs = (RunStatistics(matrix, {}) for matrix in pair)
    return RunChanges(*runs, is_paired=is_paired, about=About.POPULATION)


@np.errstate(all="ignore")
def change_of(changes: RunChanges, scenario: Scenario) -> TestedChange | ChangeVerdict:
    """The tested change of a scenario; a fraction of the time of its verdict."""
    line = line_of(compile_formula(scenario.formula))
    signal = str(line.reference) if line else scenario.formula
    return changes.change(compile_formula(signal), scenario.limits, harm=scenario.side)


def chance_error(share: float, pairs: int) -> float:
    """The standard error of a simulated share."""
    return math.sqrt(share * (1 - share) / pairs)
