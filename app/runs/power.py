"""What a benchmark could see: the smallest drop that stands out from what its runs vary by."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, variance
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.db import Database
from app.core.errors import Conflict
from app.formula import CompiledFormula, Reference, compile_formula
from app.metrics.registry import column_of
from app.metrics.types import MetricRef
from app.runs.baselines import EarlierRun, valid_runs_before
from app.runs.comparing import in_child
from app.runs.item_counts import with_counts
from app.runs.items import ItemTable, items_of_runs, pair_items
from app.runs.models import BenchmarkRun
from app.runs.plan import RunPlan
from app.runs.questions import KpiQuestion, MetricQuestion, Question
from app.runs.rules import RunStatus, Validity
from app.runs.verdicts import Case
from app.statistics.power import (
    ChangeVariance,
    clustered_variance,
    items_needed,
    trials_needed,
    visible_change,
)
from app.statistics.verdict import FEW_CLUSTERS, Scale


class NothingMeasured(Conflict):
    """No valid run has measured the benchmark yet; start one, then ask what it can see."""

    code = "nothing-measured"


class Basis(StrEnum):
    """Where the variance comes from: how items changed between two runs, how the trials of one run
    differ, or how its items do, which is more than they will change by.
    """

    TWO_RUNS = "TWO_RUNS"
    TRIALS_OF_ONE_RUN = "TRIALS_OF_ONE_RUN"
    ITEMS_OF_ONE_RUN = "ITEMS_OF_ONE_RUN"


class Size(NamedTuple):
    """How much is measured, and the drop that somebody wants to see."""

    items: int | None
    trials: int | None
    drop: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What one KPI or metric could see with so many items and trials, in its own unit.

    `trials_needed` and `items_needed` are for the drop that is wanted; no number of trials may do.
    """

    kind: str
    name: str
    basis: Basis | None
    items: int
    trials: int
    smallest_drop: float | None
    trials_needed: int | None
    items_needed: int | None
    explanation: str


class _Item(NamedTuple):
    """The values of one item in one run."""

    n: int
    mean: float
    within: float | None


class Measured(NamedTuple):
    """The newest valid run of a benchmark, and the items of that run and the one before it; `counted`
    are the metrics whose value of the run is read off counts.
    """

    plan: RunPlan
    run: ItemTable
    before: ItemTable | None
    counted: Mapping[str, MetricRef]


class _Subject(NamedTuple):
    """A KPI or a metric, which is its own formula."""

    kind: str
    name: str
    formula: CompiledFormula


def tell_power(
    db: Database, benchmark_id: str, agent_id: str | None, size: Size
) -> Sequence[Power]:
    """What each KPI and each metric of a benchmark could see; KPIs first. What is no mean of items
    is resampled, in a process of its own. Raises: `NothingMeasured`, besides what `in_child` does.
    """
    with db.read() as session:
        runs = _last_runs(session, benchmark_id, agent_id)
    plan = runs[0].plan
    counted = Case(plan=plan, kpis=(), baseline=None).counted
    if all(_is_of_items(each.formula, counted) for each in _subjects(plan, counted)):
        return powers(_measured(db, runs), size)
    return in_child(_stored_powers, db.url, runs, size)


def _stored_powers(url: str, runs: Sequence[EarlierRun], size: Size) -> list[Power]:
    db = Database(url, pool_size=1, name="mosaico-power")
    try:
        return powers(_measured(db, runs), size)
    finally:
        db.engine.dispose()


def _last_runs(session: Session, benchmark_id: str, agent_id: str | None) -> list[EarlierRun]:
    """The newest valid run and the one before it, where there is one."""
    statement = select(BenchmarkRun).where(
        BenchmarkRun.benchmark_id == benchmark_id,
        BenchmarkRun.status == RunStatus.COMPLETED,
        BenchmarkRun.validity == Validity.VALID,
        BenchmarkRun.purged_at.is_(None),
    )
    if agent_id is not None:
        statement = statement.where(BenchmarkRun.agent_id == agent_id)
    run = session.scalars(statement.order_by(BenchmarkRun.seq.desc()).limit(1)).one_or_none()
    if run is None:
        of_agent = "" if agent_id is None else f" of the agent {agent_id!r}"
        raise NothingMeasured(
            f"the benchmark {benchmark_id!r} has no valid run{of_agent} yet;"
            " start one, then ask what it can see"
        )
    newest = EarlierRun(run.seq, run.id, RunPlan.model_validate(run.plan))
    return [newest, *valid_runs_before(session, run, 1)]


def _measured(db: Database, runs: Sequence[EarlierRun]) -> Measured:
    plan = runs[0].plan
    case = Case(plan=plan, kpis=(), baseline=None)
    tables = []
    for each in runs:
        columns = {each.seq: each.plan.columns}
        with db.read() as session:
            table = items_of_runs(session, columns, case.columns, cluster_field=plan.cluster_field)
        tables.append(with_counts(table, db, columns, case.counted))
    return Measured(plan, tables[0], tables[1] if len(tables) > 1 else None, case.counted)


def powers(measured: Measured, size: Size) -> list[Power]:
    """What each KPI and each metric of a benchmark could see; KPIs first. Imports numpy where one of
    them is no mean of items.
    """
    subjects = _subjects(measured.plan, measured.run.values)
    spreads = _resampled(
        measured, [each for each in subjects if not _is_of_items(each.formula, measured.counted)]
    )
    return [_power(each, measured, size, spreads.get(each.formula.source)) for each in subjects]


def _subjects(plan: RunPlan, columns: Iterable[str]) -> list[_Subject]:
    kpis = [_Subject("KPI", kpi.name, compile_formula(kpi.formula)) for kpi in plan.kpis]
    return [*kpis, *(_Subject("METRIC", name, compile_formula(name)) for name in columns)]


def _is_of_items(formula: CompiledFormula, counted: Mapping[str, MetricRef]) -> bool:
    """Whether a formula reads nothing but means of items."""
    return all(
        ref.stat == "mean" and column_of(ref.key) not in counted for ref in formula.references
    )


def _power(subject: _Subject, measured: Measured, size: Size, drawn: "_Spread | None") -> Power:
    name = subject.name
    found = drawn or _variance(measured, subject.formula)
    run = _items(measured.run, subject.formula)
    known = len(run) if run else len(measured.run.items)
    trials = size.trials or max(1, round(_trials(measured.run, run)))
    items = size.items or known
    if found is None or not items:
        return Power(
            kind=subject.kind,
            name=name,
            basis=None,
            items=items,
            trials=trials,
            smallest_drop=None,
            trials_needed=None,
            items_needed=None,
            explanation=f"{name} is not made of items, or of too few; its variance is not known.",
        )
    basis, spread = found
    smallest = visible_change(spread, items=items, trials=trials)
    wanted = size.drop
    remedy = trials_needed(spread, items=items, change=wanted) if wanted else None
    needed = None if wanted is None else remedy.more_trials if remedy else 1
    return Power(
        kind=subject.kind,
        name=name,
        basis=basis,
        items=items,
        trials=trials,
        smallest_drop=smallest,
        trials_needed=needed,
        items_needed=items_needed(spread, trials=trials, change=wanted) if wanted else None,
        explanation=_explained(
            name, basis, smallest, items, trials, wanted, needed, len({*measured.run.clusters})
        ),
    )


def _trials(table: ItemTable, run: Mapping[str, _Item]) -> float:
    if run:
        return fmean(one.n for one in run.values())
    return len(table.places) / len(table.items) if table.items else 1.0


def _resampled(measured: Measured, subjects: Sequence[_Subject]) -> "dict[str, _Spread]":
    """The variance of what is no mean of items, by formula: as resamples of the items show it."""
    columns = {
        column
        for column in measured.run.values
        if column not in measured.counted
        or all(column in each.counts for each in (measured.run, measured.before) if each)
    }
    known = [
        each
        for each in subjects
        if {column_of(ref.key) for ref in each.formula.references} <= columns
    ]
    if not known or not measured.run.items:
        return {}
    from app.runs.judging import errors_of_change

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
                id=each.formula.source,
                formula=each.formula.source,
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
        name: _Spread(
            basis,
            ChangeVariance(runs * error**2 * len(table.items), None, _trials(table, {})),
        )
        for name, error in errors_of_change(asked).items()
        if error
    }


def _items(table: ItemTable, formula: CompiledFormula) -> dict[str, _Item]:
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
        item: _Item(len(theirs), fmean(theirs), variance(theirs) if len(theirs) > 1 else None)
        for item, theirs in values.items()
    }


class _Spread(NamedTuple):
    basis: Basis
    variance: ChangeVariance


def _variance(measured: Measured, formula: CompiledFormula) -> _Spread | None:
    """The variance of an item's change: from two runs where there are two."""
    if not _is_of_items(formula, measured.counted):
        return None
    run = _items(measured.run, formula)
    clusters = dict(zip(measured.run.items, measured.run.clusters, strict=False))
    if measured.before is not None:
        paired = pair_items(measured.before, measured.run)
        before, after = _items(paired.base, formula), _items(paired.candidate, formula)
        pairs = {item: (before[item], after[item]) for item in after if item in before}
        if len(pairs) > 1:
            found = _of_changes(pairs, clusters)
            return None if found is None else _Spread(Basis.TWO_RUNS, found)
    within = _mean_within(run.values())
    if within is not None:
        return _Spread(Basis.TRIALS_OF_ONE_RUN, ChangeVariance(0.0, 2 * within))
    if len(run) > 1:
        spread = _spread({item: one.mean for item, one in run.items()}, clusters)
        if spread is not None:
            return _Spread(Basis.ITEMS_OF_ONE_RUN, ChangeVariance(2 * spread, None))
    return None


def _spread(values: Mapping[str, float], clusters: Mapping[str, str]) -> float | None:
    """The variance of an item, where items come in clusters as their mean sees it."""
    names = [clusters.get(item, item) for item in values]
    return clustered_variance([*values.values()], names)


def _of_changes(
    pairs: Mapping[str, tuple[_Item, _Item]], clusters: Mapping[str, str]
) -> ChangeVariance | None:
    changes = {item: after.mean - before.mean for item, (before, after) in pairs.items()}
    seen = _spread(changes, clusters)
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


def _mean_within(items: Iterable[_Item]) -> float | None:
    known = [one.within for one in items if one.within is not None]
    return fmean(known) if known else None


def _explained(
    name: str,
    basis: Basis,
    smallest: float,
    items: int,
    trials: int,
    wanted: float | None,
    needed: int | None,
    clusters: int,
) -> str:
    grouped = f" of {clusters} groups" if clusters else ""
    seen = (
        f"With {items} items{grouped} × {trials} trials a drop of {name} by {smallest:.3g} is seen in four"
        " runs of five."
    )
    said = [seen]
    if wanted is not None:
        said.append(
            f"No number of trials shows a drop of {wanted:g}: add items."
            if needed is None
            else f"For a drop of {wanted:g}, {needed} trials of each item are needed."
        )
    if 0 < clusters < FEW_CLUSTERS:
        said.append("Of fewer than ten groups that is uncertain, and rather too small.")
    if basis is Basis.ITEMS_OF_ONE_RUN:
        said.append(
            "That is a guess from one run, and rather too careful: a second one tells more."
        )
    return " ".join(said)
