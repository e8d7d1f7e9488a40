"""The variance of KPI and metric changes, estimated from the latest runs of a benchmark."""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from statistics import fmean, variance
from typing import NamedTuple

from app.comparison.comparison_spec import (
    EXTREMES,
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from app.comparison.item_matrix import ItemMatrix, pair_items
from app.formula import CompiledFormula, Reference
from app.formula.ast import Arithmetic, Call, Expr, Metric, Negative, Number
from app.metrics.registry import column_of
from app.metrics.types import MetricRef
from app.results.plan import RunPlan
from app.statistics.power import ChangeVariance, clustered_variance
from app.statistics.verdict_rules import Scale


class VarianceBasis(StrEnum):
    """The source of a variance estimate.

    TWO_RUNS: the changes of items between two runs. TRIALS_OF_ONE_RUN: the trials of one run.
    ITEMS_OF_ONE_RUN: the items of one run, which differ more than they will change.
    """

    TWO_RUNS = "TWO_RUNS"
    TRIALS_OF_ONE_RUN = "TRIALS_OF_ONE_RUN"
    ITEMS_OF_ONE_RUN = "ITEMS_OF_ONE_RUN"


class ItemValues(NamedTuple):
    """The trials of one item in one run; `variance` is None for a single trial."""

    n: int
    mean: float
    variance: float | None


class ChangeSpread(NamedTuple):
    """The variance of an item's change, and what it was estimated from."""

    basis: VarianceBasis
    variance: ChangeVariance


class MeasuredRuns(NamedTuple):
    """The newest valid run of a benchmark and the one before it.

    `count_metrics` are the metrics whose value of the run is computed from label counts.
    """

    plan: RunPlan
    run: ItemMatrix
    previous: ItemMatrix | None
    count_metrics: Mapping[str, MetricRef]


def is_item_mean(formula: CompiledFormula, count_metrics: Mapping[str, MetricRef]) -> bool:
    """Whether the value of the run is the mean of the formula's values over the items."""
    return _is_linear(formula.root) and all(
        ref.stat == "mean" and column_of(ref.key) not in count_metrics for ref in formula.references
    )


def _is_linear(node: Expr) -> bool:
    match node:
        case Number() | Metric():
            return True
        case Negative():
            return _is_linear(node.operand)
        case Arithmetic(operator="+" | "-"):
            return _is_linear(node.left) and _is_linear(node.right)
        case (
            Arithmetic(operator="*", left=Number(), right=other)
            | Arithmetic(operator="*" | "/", left=other, right=Number())
        ):
            return _is_linear(other)
        case Call(function="AVERAGE" | "WEIGHTED_SUM"):
            return all(_is_linear(argument.value) for argument in node.arguments)
        case _:
            return False


def resample_spreads(
    runs: MeasuredRuns, formulas: Sequence[CompiledFormula]
) -> dict[str, ChangeSpread]:
    """The spreads of formulas that are no mean over items, by formula text, from resamples.

    Formulas that cannot be resampled are left out. Imports numpy and scipy when there is one.
    """
    resampled = _resampled_formulas(runs, formulas)
    if not resampled or not runs.run.items:
        return {}
    from app.comparison.child_computation import kpi_change_errors

    pairing = pair_items(runs.previous, runs.run) if runs.previous else None
    if pairing is not None and (not pairing.is_paired or len(pairing.baseline.items) < 2):  # noqa: PLR2004 - a variance
        pairing = None
    spec = ComparisonSpec(
        run=runs.run,
        candidate=pairing.candidate if pairing else None,
        baseline=pairing.baseline if pairing else None,
        metrics=[
            MetricComparisonSpec(column=column, scale=Scale.NUMBER, rule=None, count_metric=ref)
            for column, ref in runs.count_metrics.items()
        ],
        kpis=[
            KpiComparisonSpec(
                id=formula.source, formula=formula.source, column=None, is_gate=False, rule=None
            )
            for formula in resampled
        ],
    )
    # One run shows the variance of its value; the difference of two such runs has twice as much.
    basis, factor = (VarianceBasis.TWO_RUNS, 1) if pairing else (VarianceBasis.ITEMS_OF_ONE_RUN, 2)
    matrix = spec.candidate or spec.run
    return {
        name: ChangeSpread(
            basis,
            ChangeVariance(factor * error**2 * len(matrix.items), None, mean_trials(matrix, {})),
        )
        for name, error in kpi_change_errors(spec).items()
        if error
    }


def _resampled_formulas(
    runs: MeasuredRuns, formulas: Sequence[CompiledFormula]
) -> list[CompiledFormula]:
    """The formulas whose metrics can be resampled in all runs."""
    matrices = [matrix for matrix in (runs.run, runs.previous) if matrix]
    columns = {
        column
        for column in runs.run.values
        if column not in runs.count_metrics or all(column in matrix.counts for matrix in matrices)
    }
    return [
        formula
        for formula in formulas
        if all(
            column_of(ref.key) in columns and ref.stat not in EXTREMES for ref in formula.references
        )
    ]


def item_values(matrix: ItemMatrix, formula: CompiledFormula) -> dict[str, ItemValues]:
    """The value of a formula in each trial, by item; empty when it reads more than means."""
    columns = {ref: matrix.values.get(column_of(ref.key)) for ref in formula.references}
    if any(ref.stat != "mean" or column is None for ref, column in columns.items()):
        return {}
    values: dict[str, list[float]] = {}
    for trace, item in enumerate(matrix.item_index):
        inputs: dict[Reference, float | None] = {
            ref: column[trace] for ref, column in columns.items() if column is not None
        }
        if all(value is not None and math.isfinite(value) for value in inputs.values()):
            value = formula.evaluate(inputs).value
            if value is not None:
                values.setdefault(matrix.items[item], []).append(value)
    return {
        item: ItemValues(len(trials), fmean(trials), variance(trials) if len(trials) > 1 else None)
        for item, trials in values.items()
    }


def item_spread(runs: MeasuredRuns, formula: CompiledFormula) -> ChangeSpread | None:
    """The variance of an item's change; from two runs, when there are two with common items."""
    if not is_item_mean(formula, runs.count_metrics):
        return None
    run = item_values(runs.run, formula)
    clusters = dict(zip(runs.run.items, runs.run.clusters, strict=False))
    if runs.previous is not None:
        pairing = pair_items(runs.previous, runs.run)
        before = item_values(pairing.baseline, formula)
        after = item_values(pairing.candidate, formula)
        pairs = {item: (before[item], after[item]) for item in after if item in before}
        # A variance needs two values.
        if len(pairs) > 1:
            change = _change_variance(pairs, clusters)
            return None if change is None else ChangeSpread(VarianceBasis.TWO_RUNS, change)
    trial_variance = _mean_trial_variance(run.values())
    if trial_variance is not None:
        # Two runs, each with this noise; that the items themselves change is unknown from one run.
        change = ChangeVariance(0.0, 2 * trial_variance)
        return ChangeSpread(VarianceBasis.TRIALS_OF_ONE_RUN, change)
    if len(run) > 1:
        spread = _clustered({item: trials.mean for item, trials in run.items()}, clusters)
        if spread is not None:
            change = ChangeVariance(2 * spread, None)
            return ChangeSpread(VarianceBasis.ITEMS_OF_ONE_RUN, change)
    return None


def _clustered(values: Mapping[str, float], clusters: Mapping[str, str]) -> float | None:
    """The variance per item; items without a cluster are clusters of their own."""
    return clustered_variance([*values.values()], [clusters.get(item, item) for item in values])


def _change_variance(
    pairs: Mapping[str, tuple[ItemValues, ItemValues]], clusters: Mapping[str, str]
) -> ChangeVariance | None:
    changes = {item: after.mean - before.mean for item, (before, after) in pairs.items()}
    observed = _clustered(changes, clusters)
    if observed is None:
        return None
    noise = [
        (before.variance + after.variance, before.variance / before.n + after.variance / after.n)
        for before, after in pairs.values()
        if before.variance is not None and after.variance is not None
    ]
    if not noise:
        return ChangeVariance(observed, None)
    trial_variance, explained = (fmean(column) for column in zip(*noise, strict=True))
    # The variance of the trials is part of the observed one; what remains is that between items.
    return ChangeVariance(max(0.0, observed - explained), trial_variance)


def _mean_trial_variance(items: Iterable[ItemValues]) -> float | None:
    variances = [item.variance for item in items if item.variance is not None]
    return fmean(variances) if variances else None


def mean_trials(matrix: ItemMatrix, values: Mapping[str, ItemValues]) -> float:
    """The mean number of traces per item: of those with a value, when values are given."""
    if values:
        return fmean(item.n for item in values.values())
    return len(matrix.item_index) / len(matrix.items) if matrix.items else 1.0
