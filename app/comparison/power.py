"""What a benchmark could see: the smallest drop that stands out from what its runs vary by."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.comparison.baselines import EarlierRun, valid_runs_before
from app.comparison.item_counts import with_counts
from app.comparison.item_queries import items_of_runs
from app.comparison.run_verdicts import Case
from app.comparison.stored_runs import in_child
from app.comparison.variance import (
    Basis,
    Measured,
    Spread,
    is_of_items,
    resampled_spreads,
    spread_of_items,
    trials_of,
    values_of_items,
)
from app.core.db import Database
from app.core.errors import Conflict
from app.formula import CompiledFormula, compile_formula
from app.results.models import BenchmarkRun
from app.results.plan import RunPlan
from app.results.rules import RunStatus, Validity
from app.statistics.power import (
    ChangeVariance,
    benchmark_detectable_effect,
    items_needed,
    trials_needed,
)
from app.statistics.verdict import FEW_CLUSTERS, Remedy


class NothingMeasured(Conflict):
    """No valid run has measured the benchmark yet; start one, then ask what it can see."""

    code = "nothing-measured"


class Size(NamedTuple):
    """How much is measured, and the drop that somebody wants to see."""

    items: int | None
    trials: int | None
    drop: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What one KPI or metric could see with so many items and trials, in its own unit.

    `trials_needed` and `items_needed` are for the drop that is wanted; no number of trials may do,
    and where the noise of trials is not known, these are the fewest.
    """

    kind: str
    name: str
    basis: Basis | None
    items: int
    trials: int
    min_detectable_effect: float | None
    trials_needed: int | None
    items_needed: int | None
    explanation: str


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
    if all(is_of_items(each.formula, counted) for each in _subjects(plan, counted)):
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
    spreads = resampled_spreads(
        measured,
        [each.formula for each in subjects if not is_of_items(each.formula, measured.counted)],
    )
    return [_power(each, measured, size, spreads.get(each.formula.source)) for each in subjects]


def _subjects(plan: RunPlan, columns: Iterable[str]) -> list[_Subject]:
    kpis = [_Subject("KPI", kpi.name, compile_formula(kpi.formula)) for kpi in plan.kpis]
    return [*kpis, *(_Subject("METRIC", name, compile_formula(name)) for name in columns)]


def _power(subject: _Subject, measured: Measured, size: Size, drawn: Spread | None) -> Power:
    name = subject.name
    try:
        found = drawn or spread_of_items(measured, subject.formula)
        run = values_of_items(measured.run, subject.formula)
    except OverflowError:
        found, run = None, {}
    known = len(run) if run else len(measured.run.items)
    trials = size.trials or max(1, round(trials_of(measured.run, run)))
    items = size.items or known
    if found is None or not items or not math.isfinite(found.variance.with_trials(trials)):
        return Power(
            kind=subject.kind,
            name=name,
            basis=None,
            items=items,
            trials=trials,
            min_detectable_effect=None,
            trials_needed=None,
            items_needed=None,
            explanation=f"{name} cannot be resampled by item: what it varies by is not known.",
        )
    basis, spread = found
    smallest = benchmark_detectable_effect(spread, items=items, trials=trials)
    wanted = size.drop
    remedy = trials_needed(spread, items=items, change=wanted) if wanted else None
    needed = None if wanted is None else remedy.more_trials if remedy else 1
    return Power(
        kind=subject.kind,
        name=name,
        basis=basis,
        items=items,
        trials=trials,
        min_detectable_effect=smallest,
        trials_needed=needed,
        items_needed=_items_needed(spread, trials, wanted) if wanted else None,
        explanation=_explained(
            name, basis, smallest, items, trials, wanted, remedy, len({*measured.run.clusters})
        ),
    )


def _items_needed(spread: ChangeVariance, trials: int, wanted: float) -> int | None:
    """How many items show a drop; None where that is more than there are numbers."""
    try:
        return items_needed(spread, trials=trials, change=wanted)
    except OverflowError:
        return None


def _needed(wanted: float, remedy: Remedy | None) -> str:
    """How many trials show a drop."""
    if remedy is None:
        return f"For a drop of {wanted:g} one trial of each item is enough."
    if remedy.more_trials is None:
        return f"No number of trials shows a drop of {wanted:g}: add items."
    if remedy.at_best:
        return (
            f"For a drop of {wanted:g} at least {remedy.more_trials} trials of each item are needed;"
            " how much of it is noise of the trials is not known, and no number may be enough."
        )
    return f"For a drop of {wanted:g}, {remedy.more_trials} trials of each item are needed."


def _explained(
    name: str,
    basis: Basis,
    smallest: float,
    items: int,
    trials: int,
    wanted: float | None,
    remedy: Remedy | None,
    clusters: int,
) -> str:
    grouped = f" of {clusters} groups" if clusters else ""
    seen = (
        f"With {items} items{grouped} × {trials} trials a drop of {name} by {smallest:.3g} is seen in four"
        " runs of five."
    )
    said = [seen]
    if wanted is not None:
        said.append(_needed(wanted, remedy))
    if 0 < clusters < FEW_CLUSTERS:
        said.append("Of fewer than ten groups that is uncertain, and rather too small.")
    if basis is Basis.ITEMS_OF_ONE_RUN:
        said.append(
            "That is a guess from one run, and rather too careful: a second one tells more."
        )
    return " ".join(said)
