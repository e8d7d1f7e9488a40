"""What a benchmark could see: the smallest drop that stands out from what its runs vary by."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, variance
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.errors import Conflict
from app.formula import CompiledFormula, Reference, compile_formula
from app.metrics.registry import column_of
from app.metrics.run_value import is_run_metric
from app.runs.baselines import EarlierRun, valid_runs_before
from app.runs.items import ItemTable, items_of_runs, pair_items
from app.runs.models import BenchmarkRun
from app.runs.plan import RunPlan
from app.runs.rules import RunStatus, Validity
from app.statistics.power import ChangeVariance, items_needed, trials_needed, visible_change


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
    """The newest valid run of a benchmark, and the items of that run and the one before it."""

    plan: RunPlan
    run: ItemTable
    before: ItemTable | None


def measured_of(session: Session, benchmark_id: str, agent_id: str | None) -> Measured:
    """What is known of how a benchmark varies. Raises: `NothingMeasured`."""
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
    before = valid_runs_before(session, run, 1)
    columns = [one.column for one in newest.plan.metrics if not is_run_metric(one.ref)]
    tables = [
        items_of_runs(session, {each.seq: each.plan.columns}, columns) for each in (newest, *before)
    ]
    return Measured(newest.plan, tables[0], tables[1] if before else None)


def powers(measured: Measured, size: Size) -> list[Power]:
    """What each KPI and each metric of a benchmark could see; KPIs first."""
    subjects = [("KPI", kpi.name, compile_formula(kpi.formula)) for kpi in measured.plan.kpis]
    subjects += [("METRIC", column, compile_formula(column)) for column in measured.run.values]
    return [_power(kind, name, formula, measured, size) for kind, name, formula in subjects]


def _power(kind: str, name: str, formula: CompiledFormula, measured: Measured, size: Size) -> Power:
    run = _items(measured.run, formula)
    trials = size.trials or max(1, round(fmean(one.n for one in run.values()))) if run else 1
    items = size.items or len(run)
    found = _variance(measured, run, formula)
    if found is None or not items:
        return Power(
            kind=kind,
            name=name,
            basis=None,
            items=items,
            trials=trials,
            smallest_drop=None,
            trials_needed=None,
            items_needed=None,
            explanation=f"{name} is not made of means of items; its variance is not known.",
        )
    basis, spread = found
    smallest = visible_change(spread, items=items, trials=trials)
    wanted = size.drop
    remedy = trials_needed(spread, items=items, change=wanted) if wanted else None
    needed = None if wanted is None else remedy.more_trials if remedy else 1
    return Power(
        kind=kind,
        name=name,
        basis=basis,
        items=items,
        trials=trials,
        smallest_drop=smallest,
        trials_needed=needed,
        items_needed=items_needed(spread, trials=trials, change=wanted) if wanted else None,
        explanation=_explained(name, basis, smallest, items, trials, wanted, needed),
    )


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


def _variance(
    measured: Measured, run: dict[str, _Item], formula: CompiledFormula
) -> _Spread | None:
    """The variance of an item's change: from two runs where there are two."""
    if measured.before is not None:
        paired = pair_items(measured.before, measured.run)
        before, after = _items(paired.base, formula), _items(paired.candidate, formula)
        pairs = [(before[item], after[item]) for item in after if item in before]
        if len(pairs) > 1:
            return _Spread(Basis.TWO_RUNS, _of_changes(pairs))
    within = _mean_within(run.values())
    if within is not None:
        return _Spread(Basis.TRIALS_OF_ONE_RUN, ChangeVariance(0.0, 2 * within))
    if len(run) > 1:
        spread = variance([one.mean for one in run.values()])
        return _Spread(Basis.ITEMS_OF_ONE_RUN, ChangeVariance(2 * spread, None))
    return None


def _of_changes(pairs: Sequence[tuple[_Item, _Item]]) -> ChangeVariance:
    seen = variance([after.mean - before.mean for before, after in pairs])
    noise = [
        (before.within + after.within, before.within / before.n + after.within / after.n)
        for before, after in pairs
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
) -> str:
    seen = (
        f"With {items} items × {trials} trials a drop of {name} by {smallest:.3g} is seen in four"
        " runs of five."
    )
    said = [seen]
    if wanted is not None:
        said.append(
            f"No number of trials shows a drop of {wanted:g}: add items."
            if needed is None
            else f"For a drop of {wanted:g}, {needed} trials of each item are needed."
        )
    if basis is Basis.ITEMS_OF_ONE_RUN:
        said.append(
            "That is a guess from one run, and rather too careful: a second one tells more."
        )
    return " ".join(said)
