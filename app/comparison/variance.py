"""How much the KPIs of a benchmark vary by chance, as its stored runs show it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from statistics import fmean, variance
from typing import NamedTuple

from app.comparison.comparison_spec import EXTREMES, KpiQuestion, MetricQuestion, Question
from app.comparison.item_matrix import ItemTable, pair_items
from app.formula import CompiledFormula, Reference
from app.formula.ast import Arithmetic, Call, Expr, Metric, Negative, Number
from app.metrics.registry import column_of
from app.metrics.types import MetricRef
from app.results.plan import RunPlan
from app.statistics.power import ChangeVariance, clustered_variance
from app.statistics.verdict import Scale


class Basis(StrEnum):
    """Where the variance comes from: how items changed between two runs, how the trials of one run
    differ, or how its items do, which is more than they will change by.
    """

    TWO_RUNS = "TWO_RUNS"
    TRIALS_OF_ONE_RUN = "TRIALS_OF_ONE_RUN"
    ITEMS_OF_ONE_RUN = "ITEMS_OF_ONE_RUN"


class ItemValues(NamedTuple):
    """The values of one item in one run."""

    n: int
    mean: float
    within: float | None


class Spread(NamedTuple):
    """The variance of an item's change, and where it is known from."""

    basis: Basis
    variance: ChangeVariance


class Measured(NamedTuple):
    """The newest valid run of a benchmark, and the items of that run and the one before it; `counted`
    are the metrics whose value of the run is read off counts.
    """

    plan: RunPlan
    run: ItemTable
    before: ItemTable | None
    counted: Mapping[str, MetricRef]


def is_of_items(formula: CompiledFormula, counted: Mapping[str, MetricRef]) -> bool:
    """Whether the value of the run is the mean of what the formula says of each item."""
    return _is_linear(formula.root) and all(
        ref.stat == "mean" and column_of(ref.key) not in counted for ref in formula.references
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


def resampled_spreads(measured: Measured, formulas: Sequence[CompiledFormula]) -> dict[str, Spread]:
    """The variance of what is no mean of items, by formula: as resamples of the items show it."""
    columns = {
        column
        for column in measured.run.values
        if column not in measured.counted
        or all(column in each.counts for each in (measured.run, measured.before) if each)
    }
    known = [
        each
        for each in formulas
        if all(
            column_of(ref.key) in columns and ref.stat not in EXTREMES for ref in each.references
        )
    ]
    if not known or not measured.run.items:
        return {}
    from app.comparison.compute import errors_of_change

    paired = pair_items(measured.before, measured.run) if measured.before else None
    both = paired is not None and paired.paired and len(paired.base.items) > 1
    asked = Question(
        run=measured.run,
        candidate=paired.candidate if paired and both else None,
        base=paired.base if paired and both else None,
        metrics=[
            MetricQuestion(column=name, scale=Scale.NUMBER, rule=None, counted=ref)
            for name, ref in measured.counted.items()
        ],
        kpis=[
            KpiQuestion(
                id=each.source,
                formula=each.source,
                column=None,
                is_gate=False,
                rule=None,
            )
            for each in known
        ],
    )
    basis, runs = (Basis.TWO_RUNS, 1) if both else (Basis.ITEMS_OF_ONE_RUN, 2)
    table = asked.candidate or asked.run
    return {
        name: Spread(
            basis,
            ChangeVariance(runs * error**2 * len(table.items), None, trials_of(table, {})),
        )
        for name, error in errors_of_change(asked).items()
        if error
    }


def values_of_items(table: ItemTable, formula: CompiledFormula) -> dict[str, ItemValues]:
    """The value of a formula in each trial, by item; empty where it reads more than means."""
    columns = {ref: table.values.get(column_of(ref.key)) for ref in formula.references}
    if any(ref.stat != "mean" or column is None for ref, column in columns.items()):
        return {}
    values: dict[str, list[float]] = {}
    for trace, place in enumerate(table.places):
        seen: dict[Reference, float | None] = {
            ref: column[trace] for ref, column in columns.items() if column is not None
        }
        if all(value is not None and math.isfinite(value) for value in seen.values()):
            value = formula.evaluate(seen).value
            if value is not None:
                values.setdefault(table.items[place], []).append(value)
    return {
        item: ItemValues(len(theirs), fmean(theirs), variance(theirs) if len(theirs) > 1 else None)
        for item, theirs in values.items()
    }


def spread_of_items(measured: Measured, formula: CompiledFormula) -> Spread | None:
    """The variance of an item's change: from two runs where there are two."""
    if not is_of_items(formula, measured.counted):
        return None
    run = values_of_items(measured.run, formula)
    clusters = dict(zip(measured.run.items, measured.run.clusters, strict=False))
    if measured.before is not None:
        paired = pair_items(measured.before, measured.run)
        before, after = (
            values_of_items(paired.base, formula),
            values_of_items(paired.candidate, formula),
        )
        pairs = {item: (before[item], after[item]) for item in after if item in before}
        if len(pairs) > 1:
            found = _of_changes(pairs, clusters)
            return None if found is None else Spread(Basis.TWO_RUNS, found)
    within = _mean_within(run.values())
    if within is not None:
        return Spread(Basis.TRIALS_OF_ONE_RUN, ChangeVariance(0.0, 2 * within))
    if len(run) > 1:
        spread = _variance_of({item: one.mean for item, one in run.items()}, clusters)
        if spread is not None:
            return Spread(Basis.ITEMS_OF_ONE_RUN, ChangeVariance(2 * spread, None))
    return None


def _variance_of(values: Mapping[str, float], clusters: Mapping[str, str]) -> float | None:
    """The variance of an item, where items come in clusters as their mean sees it."""
    names = [clusters.get(item, item) for item in values]
    return clustered_variance([*values.values()], names)


def _of_changes(
    pairs: Mapping[str, tuple[ItemValues, ItemValues]], clusters: Mapping[str, str]
) -> ChangeVariance | None:
    changes = {item: after.mean - before.mean for item, (before, after) in pairs.items()}
    seen = _variance_of(changes, clusters)
    if seen is None:
        return None
    noise = [
        (before.within + after.within, before.within / before.n + after.within / after.n)
        for before, after in pairs.values()
        if before.within is not None and after.within is not None
    ]
    if not noise:
        return ChangeVariance(seen, None)
    trial, explained = (fmean(column) for column in zip(*noise, strict=True))
    return ChangeVariance(max(0.0, seen - explained), trial)


def _mean_within(items: Iterable[ItemValues]) -> float | None:
    known = [one.within for one in items if one.within is not None]
    return fmean(known) if known else None


def trials_of(table: ItemTable, run: Mapping[str, ItemValues]) -> float:
    """How many traces an item has: those with a value, where values of items are known."""
    if run:
        return fmean(one.n for one in run.values())
    return len(table.places) / len(table.items) if table.items else 1.0
