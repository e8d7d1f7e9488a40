"""V1: the verdicts of a run, from two runs of 1000 items × 5 trials to 20 KPIs with intervals.

The peer is scipy's `bootstrap` for the same work: for each KPI, the item means of its metrics in
both runs are resampled together, and a hand-written numpy formula is computed for all resamples at
once. It has no concept of trials, so it gets their means beforehand.
"""

import time
from array import array
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import bootstrap

from benchmarks.result_rows import BenchRow, interleave
from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import ComparisonResult, ComparisonSpec, KpiComparisonSpec
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.verdict_rules import Side, VerdictRule

ITEMS, TRIALS, KPIS = 1000, 5, 20
ROUNDS = 3
RESAMPLES = 2000
GOAL_SECONDS = 2.0
RULE = VerdictRule(side=Side.LOW)
# The item of each trace: the trials of an item follow each other.
PLACES = np.repeat(np.arange(ITEMS), TRIALS)


TEXTS = (
    "WEIGHTED_SUM(M{a}:0.5, M{b}:0.5)",
    "2 * M{a} * M{b} / (M{a} + M{b})",
    "MIN(M{a}, M{b})",
    "IF M{a} >= 0.75 THEN M{b} ELSE SQRT(M{a})",
)
BY_HAND = (
    lambda a, b: a * 0.5 + b * 0.5,
    lambda a, b: 2 * a * b / (a + b),
    np.minimum,
    lambda a, b: np.where(a >= 0.75, b, np.sqrt(a)),
)


class TwoRuns(NamedTuple):
    """The values of every metric by trace, of the baseline and of the candidate."""

    base: dict[str, FloatArray]
    candidate: dict[str, FloatArray]


def measure() -> Iterator[BenchRow]:
    """One row for the comparison with scipy, and one for the seconds."""
    two_runs = _two_runs()
    spec = _spec(two_runs)
    ours, peer = interleave(
        lambda: _verdicts(spec),
        lambda: _scipy(two_runs),
        repeat=ROUNDS,
        clock=time.process_time,
    )
    shape = f"{ITEMS} items × {TRIALS} trials × {KPIS} KPIs, scipy with {RESAMPLES} resamples"
    yield BenchRow(
        name="V1 verdicts",
        goal=f"under {GOAL_SECONDS:g} s of CPU",
        ratio=ours,
        holds=ours < GOAL_SECONDS,
        note=f"seconds: {shape}",
    )
    yield BenchRow(
        name="V1 scipy",
        goal="faster",
        ratio=peer / ours,
        holds=peer > ours,
        note=f"{peer:.2f} s compared with {ours:.2f} s of CPU: {shape}",
    )


def _verdicts(spec: ComparisonSpec) -> ComparisonResult:
    return compute(spec)


def _spec(two_runs: TwoRuns) -> ComparisonSpec:
    baseline, candidate = (_matrix(run) for run in two_runs)
    return ComparisonSpec(
        run=candidate,
        candidate=candidate,
        baseline=baseline,
        metrics=(),
        kpis=[
            KpiComparisonSpec(
                id=text, formula=text, is_judged=False, rule=RULE, limits=ValueRange(0.0, 1.0)
            )
            for text in _texts()
        ],
    )


def _matrix(run: dict[str, FloatArray]) -> ItemMatrix:
    return ItemMatrix(
        items=[f"{item:04d}" for item in range(ITEMS)],
        revisions=[""] * ITEMS,
        item_index=array("l", PLACES.tolist()),
        run_index=array("l", [0] * len(PLACES)),
        values={key: array("d", values.tolist()) for key, values in run.items()},
    )


def _scipy(two_runs: TwoRuns) -> None:
    for k in range(KPIS):
        bootstrap(
            [_item_means(run, (k + step) % KPIS) for run in two_runs for step in (0, 1)],
            partial(_change, BY_HAND[k % len(BY_HAND)]),
            n_resamples=RESAMPLES,
            method="percentile",
            paired=True,
            vectorized=True,
            batch=100,
            rng=np.random.default_rng(0),
        )


def _item_means(run: dict[str, FloatArray], k: int) -> FloatArray:
    means: FloatArray = run[f"M{k}"].reshape(ITEMS, TRIALS).mean(axis=1)
    return means


def _change(formula: Any, a: Any, b: Any, c: Any, d: Any, axis: int) -> Any:
    return formula(c.mean(axis), d.mean(axis)) - formula(a.mean(axis), b.mean(axis))


def _two_runs() -> TwoRuns:
    random = np.random.default_rng(6)
    # Items of which most pass in most trials: the mean of this distribution is 4 / (4 + 1).
    difficulty = random.beta(4, 1, (KPIS, ITEMS))[:, PLACES]
    runs = [(random.random(difficulty.shape) < difficulty).astype(float) for _ in range(2)]
    return TwoRuns(*({f"M{k}": run[k] for k in range(KPIS)} for run in runs))


def _texts() -> list[str]:
    """Formulas of neighboring metrics, five of each form."""
    return [TEXTS[k % len(TEXTS)].format(a=k, b=(k + 1) % KPIS) for k in range(KPIS)]
