"""Simulated pairs of runs with a known truth, judged by the function that judges runs: `compute`.

A kind says how the values of items come about: passes by the pass rate of each item, or costs. A pair may have the same
items, items in clusters, or items of its own in each run, as samples of production have.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.verdict_rules import About, ChangeVerdict, Scale, Side, Verdict, VerdictRule

Floats: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Floats]

METRIC = "M"
# Whether an item passed, where its cost is the metric.
PASSES = "P"
CALLED = (Verdict.REGRESSED, Verdict.IMPROVED)
# Every change counts: what is measured is the test, not the smallest change that matters.
PASSED = MetricComparisonSpec(
    column=METRIC,
    rule=VerdictRule(side=Side.LOW, min_effect=0.0, margin=0.0),
    limits=ValueRange(0.0, 1.0),
    is_judged=True,
)
COST = MetricComparisonSpec(
    column=METRIC,
    rule=VerdictRule(side=Side.HIGH, scale=Scale.RATIO, min_effect=0.0, margin=0.0),
    limits=ValueRange(0.0, None),
    is_judged=True,
)
COST_PER_PASS = KpiComparisonSpec(
    id="cost per pass",
    formula=f"{METRIC} / {PASSES}",
    rule=VerdictRule(side=Side.HIGH, scale=Scale.NUMBER, min_effect=0.0, margin=0.0),
    limits=ValueRange(0.0, None),
    is_judged=True,
    is_amount=True,
)
# The metrics of a KPI have no verdict of their own.
_COLUMNS = [replace(COST, rule=None), replace(PASSED, column=PASSES, rule=None)]
Judged: TypeAlias = MetricComparisonSpec | KpiComparisonSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values: `rates` of passes by item, or `logarithms` of costs, one for each item. `is_per_pass`: what is
    judged is the cost of a pass; items pass as usual.
    """

    name: str
    draw: Draw
    is_cost: bool = False
    is_per_pass: bool = False

    @property
    def judged(self) -> Judged:
        if self.is_per_pass:
            return COST_PER_PASS
        return COST if self.is_cost else PASSED


def usual_rates(rng: np.random.Generator, items: int) -> Floats:
    """Their mean is 0.8: most items nearly always pass, a few nearly never."""
    return rng.beta(1.6, 0.4, items)


def near_one(rng: np.random.Generator, items: int) -> Floats:
    return rng.uniform(0.95, 1.0, items)


def always_or_never(rng: np.random.Generator, items: int) -> Floats:
    """70 % of the items always pass, 10 % never, 20 % are flaky."""
    kinds = rng.choice(3, items, p=(0.7, 0.1, 0.2))
    return np.choose(kinds, (np.ones(items), np.zeros(items), rng.uniform(0.2, 0.8, items)))


def lognormal(rng: np.random.Generator, items: int) -> Floats:
    return rng.normal(0.0, 1.0, items)


def with_retries(rng: np.random.Generator, items: int) -> Floats:
    """Two of a hundred traces cost 30 times as much."""
    retries = np.where(rng.random(items) < 0.02, math.log(30.0), 0.0)
    return rng.normal(0.0, 1.0, items) + retries


def pareto(rng: np.random.Generator, items: int) -> Floats:
    return rng.exponential(1 / 2.2, items)


USUAL = Kind("passes, 80 %", usual_rates)
NEAR_ONE = Kind("passes, 95-100 %", near_one)
MIXED = Kind("passes, always or never", always_or_never)
COSTS = Kind("costs, lognormal", lognormal, is_cost=True)
RETRIES = Kind("costs, retries cost 30 times as much", with_retries, is_cost=True)
PER_PASS = Kind("cost per pass, with such retries", with_retries, is_cost=True, is_per_pass=True)
PARETO = Kind("costs, Pareto 2.2", pareto, is_cost=True)


def passes(rates: Floats, trials: int, rng: np.random.Generator) -> Floats:
    """The passes and failures of shape (items, trials)."""
    return (rng.random((len(rates), trials)) < rates[:, None]).astype(np.float64)


def run_of(
    values: Floats,
    *,
    prefix: str = "",
    clusters: Sequence[int] = (),
    passed: Floats | None = None,
) -> ItemMatrix:
    """A run with values, and passes if they are given, of shape (items, trials); `clusters` are the sizes of its
    clusters.
    """
    items, trials = values.shape
    names = np.repeat(np.arange(len(clusters)), clusters).tolist() if clusters else []
    return ItemMatrix(
        items=[f"{prefix}{item:04d}" for item in range(items)],
        revisions=[""] * items,
        clusters=[str(name) for name in names],
        item_index=array("l", np.repeat(np.arange(items), trials).tolist()),
        run_index=array("l", [0] * values.size),
        values={
            name: array("d", column.ravel().tolist())
            for name, column in ((METRIC, values), (PASSES, passed))
            if column is not None
        },
    )


def judge(
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    judged: Judged,
    *,
    is_paired: bool = True,
    about: About | None = None,
    run_sd: float | None = None,
) -> ChangeVerdict:
    metrics, kpis = (
        ([judged], []) if isinstance(judged, MetricComparisonSpec) else (_COLUMNS, [judged])
    )
    spec = ComparisonSpec(
        run_sd=run_sd,
        run=candidate,
        candidate=candidate,
        baseline=baseline,
        is_paired=is_paired,
        about=about,
        metrics=metrics,
        kpis=kpis,
    )
    result = compute(spec)
    return result.kpis[kpis[0].id] if kpis else result.metrics[METRIC]
