"""Power of a benchmark: the drops that a planned number of items and trials detects."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.baselines import list_baseline_runs
from mosaico.comparison.child_process import query_in_child
from mosaico.comparison.comparison_rules import HARM_SIDES, RunComparison, TestedSignal
from mosaico.comparison.measured_runs import read_measured_runs
from mosaico.comparison.schemas import PowerSubjectKind, PowerView, VarianceBasis
from mosaico.comparison.value_failures import ValueFailures, log_failures
from mosaico.comparison.whole_run_rules import whole_runs_of
from mosaico.core.db import Database
from mosaico.core.errors import Conflict
from mosaico.core.text import count_noun
from mosaico.formula import CompiledFormula, compile_formula
from mosaico.items.label_counts import with_label_counts
from mosaico.items.matrix import ItemMatrix
from mosaico.items.queries import read_items
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import Direction
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.statistics import whole_runs
from mosaico.statistics.verdict_rules import Remedy, Side

if TYPE_CHECKING:
    from mosaico.comparison.change_spread import ChangeSpread


class PowerRuns(NamedTuple):
    """The newest valid run of a benchmark, with its ID, the one before it, and how much whole runs vary, by series."""

    run_id: str
    plan: RunPlan
    run: ItemMatrix
    previous: ItemMatrix | None
    variation: Mapping[str, whole_runs.MeasuredRuns] = MappingProxyType({})


class NoValidRun(Conflict):
    """The benchmark has no valid run yet; start one, then estimate its power."""

    code = "nothing-measured"


class BenchmarkSize(NamedTuple):
    """A planned number of items and trials, and the drop to detect; None is that of the last run."""

    items: int | None
    trials: int | None
    drop: float | None


class _PowerSubject(NamedTuple):
    """A KPI, or a metric as the formula that is its name; `harm` is its direction for the worse."""

    kind: PowerSubjectKind
    name: str
    formula: CompiledFormula
    signal: TestedSignal
    harm: Side


class _Estimate(NamedTuple):
    """The drop that is detected, what detects the requested drop, and both in sentences."""

    explanation: str
    effect: float | None = None
    trials_needed: int | None = None
    items_needed: int | None = None


def estimate_power(
    db: Database, benchmark_id: str, agent_id: str | None, size: BenchmarkSize
) -> Sequence[PowerView]:
    """The power of each KPI and each metric of a benchmark, KPIs first, in a child process.

    Raises: `NoValidRun`, and the errors of `query_in_child`.
    """
    with db.read() as session:
        run = find_newest_run(session, benchmark_id, agent_id)
        if run is None:
            agent = "" if agent_id is None else f" of the agent {agent_id!r}"
            raise NoValidRun(
                f"the benchmark {benchmark_id!r} has no valid run{agent} yet;"
                " start one, then estimate its power"
            )
        runs = with_run_before(session, run)
    return query_in_child(db, _estimate_stored, runs, size)


def _estimate_stored(
    db: Database, runs: Sequence[BaselineRun], size: BenchmarkSize
) -> list[PowerView]:
    return estimate_powers(measure_runs(db, runs), size)


def find_newest_run(
    session: Session, benchmark_id: str, agent_id: str | None = None
) -> BenchmarkRun | None:
    """The newest valid run that has its traces; None without one."""
    statement = select(BenchmarkRun).where(
        BenchmarkRun.benchmark_id == benchmark_id,
        BenchmarkRun.status == RunStatus.COMPLETED,
        BenchmarkRun.validity == Validity.VALID,
        BenchmarkRun.purged_at.is_(None),
    )
    if agent_id is not None:
        statement = statement.where(BenchmarkRun.agent_id == agent_id)
    return session.scalars(statement.order_by(BenchmarkRun.seq.desc()).limit(1)).one_or_none()


def with_run_before(session: Session, run: BenchmarkRun) -> list[BaselineRun]:
    """A run and the valid one before it, if any."""
    return [
        BaselineRun(run.seq, run.id, run.begun_plan),
        *list_baseline_runs(session, run, 1),
    ]


def measure_runs(db: Database, runs: Sequence[BaselineRun], metric: str | None = None) -> PowerRuns:
    """The newest run and the one before it as matrices of all metrics, or of one that is a mean over items."""
    plan = runs[0].plan
    comparison = RunComparison(plan=plan, kpis=(), baseline=None)
    item_columns = comparison.item_columns if metric is None else [metric]
    count_metrics = comparison.count_metrics if metric is None else {}
    matrices = []
    for run in runs:
        columns = {run.seq: run.plan.columns}
        with db.read() as session:
            matrix = read_items(
                session,
                columns,
                item_columns,
                cluster_field=plan.cluster_field,
                is_sample=plan.is_sample,
            )
        matrices.append(with_label_counts(matrix, db, columns, count_metrics))
    previous = matrices[1] if len(matrices) > 1 else None
    with db.read() as session:
        variation = read_measured_runs(session, runs[0].seq, with_run=True)
    return PowerRuns(runs[0].id, plan, matrices[0], previous, variation)


def estimate_powers(runs: PowerRuns, size: BenchmarkSize) -> list[PowerView]:
    """The power of each KPI and each metric, KPIs first. Imports numpy."""
    failures, views = ValueFailures(), []
    for subject in _subjects(runs.plan, runs.run.values):
        name = subject.name
        key = (name, None) if subject.kind == "METRIC" else (None, name)
        view = failures.attempt(key, partial(_estimate, subject, runs, size))
        if view is None:
            error = failures.by_key[key].error
            failed = _Estimate(f"The estimate of {name} failed: {error}.")
            view = _view(subject, runs, size, None, failed)
        views.append(view)
    log_failures(runs.run_id, failures.by_key)
    return views


def estimate_drops(
    runs: PowerRuns, metric: str, choose_drops: Callable[[PowerView], Sequence[float]]
) -> list[PowerView]:
    """What the runs detect of a metric, then what each of the drops needs that are chosen by it. Imports numpy."""
    [subject] = [subject for subject in _subjects(runs.plan, [metric]) if subject.kind == "METRIC"]
    spread = _spread(subject, runs)
    size = BenchmarkSize(None, None, None)
    now = _view_of_spread(subject, runs, size, spread)
    return [
        now,
        *(
            _view_of_spread(subject, runs, size._replace(drop=drop), spread)
            for drop in choose_drops(now)
        ),
    ]


def _subjects(plan: RunPlan, columns: Iterable[str]) -> list[_PowerSubject]:
    comparison = RunComparison(plan=plan, kpis=(), baseline=None)
    directions = {metric.column: provider_for(metric.ref).spec.direction for metric in plan.metrics}
    named: list[tuple[PowerSubjectKind, str, str, Direction]] = [
        *(("KPI", kpi.name, kpi.formula, Direction(kpi.direction)) for kpi in plan.kpis),
        *(
            ("METRIC", name, name, directions[name])
            for name in columns
            if name not in plan.added_columns
        ),
    ]
    return [
        _PowerSubject(kind, name, formula, comparison.signal(formula), HARM_SIDES[direction])
        for kind, name, source, direction in named
        for formula in [compile_formula(source)]
    ]


def _estimate(subject: _PowerSubject, runs: PowerRuns, size: BenchmarkSize) -> PowerView:
    return _view_of_spread(subject, runs, size, _spread(subject, runs))


def _spread(subject: _PowerSubject, runs: PowerRuns) -> "ChangeSpread | None":
    # numpy is imported in the child process only.
    from mosaico.comparison.change_spread import estimate_spread

    comparison = RunComparison(plan=runs.plan, kpis=(), baseline=None)
    return estimate_spread(
        runs.run,
        runs.previous,
        comparison.count_metrics,
        subject.formula,
        subject.signal,
        subject.harm,
        whole_runs=_whole_runs(subject, runs),
        about=runs.plan.baseline.about,
    )


def _view_of_spread(
    subject: _PowerSubject, runs: PowerRuns, size: BenchmarkSize, spread: "ChangeSpread | None"
) -> PowerView:
    if spread is None:
        name = subject.name
        estimate = _Estimate(
            f"The variance of {name} is unknown: its items or its trials do not show one."
        )
    else:
        clusters = len({*runs.run.clusters})
        items, trials = _planned(runs, size, spread)
        estimate = _estimate_detectable(subject.name, spread, items, trials, size.drop, clusters)
    return _view(subject, runs, size, spread, estimate)


def _whole_runs(subject: _PowerSubject, runs: PowerRuns) -> whole_runs.WholeRuns:
    """How much whole runs of a KPI or metric vary."""
    ids = {kpi.name: kpi.id for kpi in runs.plan.kpis}
    is_kpi = subject.kind == "KPI"
    return whole_runs_of(
        None if is_kpi else subject.name,
        ids[subject.name] if is_kpi else None,
        subject.signal.line,
        subject.signal.limits,
        is_amount=RunComparison(plan=runs.plan, kpis=(), baseline=None).is_amount(subject.formula),
        measured=runs.variation,
        given_sd=runs.plan.baseline.run_sd,
    )


def _planned(
    runs: PowerRuns, size: BenchmarkSize, spread: "ChangeSpread | None"
) -> tuple[int, int]:
    """The items, and the trials of each: by default those of the newest run."""
    items = size.items or (spread.items if spread else len(runs.run.items))
    trials = size.trials or max(1, round(len(runs.run.item_index) / max(1, len(runs.run.items))))
    return items, trials


def _view(
    subject: _PowerSubject,
    runs: PowerRuns,
    size: BenchmarkSize,
    spread: "ChangeSpread | None",
    estimate: _Estimate,
) -> PowerView:
    items, trials = _planned(runs, size, spread)
    return PowerView(
        kind=subject.kind,
        name=subject.name,
        basis=spread.basis if spread else None,
        items=items,
        trials=trials,
        about=spread and spread.question(trials),
        min_detectable_effect=estimate.effect,
        min_detectable_tasks=spread and spread.detectable_tasks(items, trials),
        trials_needed=estimate.trials_needed,
        items_needed=estimate.items_needed,
        explanation=estimate.explanation,
    )


def _estimate_detectable(
    name: str, spread: "ChangeSpread", items: int, trials: int, drop: float | None, clusters: int
) -> _Estimate:
    # As in `_estimate`: only the child process imports numpy.
    from mosaico.statistics.power import items_needed, items_to_detect_any, trials_needed

    effect = spread.detectable(items, trials) if items else math.inf
    if not math.isfinite(effect):
        needed = items_to_detect_any(spread.detector(trials), trials=trials)
        enough = (
            "No number of items is sufficient."
            if needed is None
            else f"At least {needed} items are required."
        )
        return _Estimate(f"{items} items cannot reliably detect any change of {name}. {enough}")
    if effect <= 0:
        return _Estimate(
            f"All values of {name} are equal in these runs, so the change that is detected is unknown."
        )
    in_clusters = f" in {clusters} clusters" if clusters else ""
    planned = f"{items} items{in_clusters} × {trials} {'trial' if trials == 1 else 'trials'}"
    about = spread.question(trials)
    tasks = spread.detectable_tasks(items, trials)
    broken = f", or {count_noun(tasks, 'task')} that break," if tasks else ""
    sentences = [
        f"{planned} detect a drop of {name} by {effect:.3g}{broken} {about.phrase} with 80 % power."
    ]
    required_trials = required_items = None
    if drop is not None:
        change = spread.on_test_scale(drop)
        # Of the question that decides now: with several trials another one might.
        detector = spread.detector(trials)
        remedy = trials_needed(detector, items=items, change=change)
        required_trials = remedy.more_trials if remedy else 1
        required_items = items_needed(detector, trials=trials, change=change)
        sentences.append(_explain_trials(drop, remedy, has_items=required_items is not None))
    if spread.basis is VarianceBasis.ITEMS_OF_ONE_RUN:
        sentences.append(
            "The estimate from one run is too large; a second run improves the estimate."
        )
    return _Estimate(" ".join(sentences), effect, required_trials, required_items)


def _explain_trials(drop: float, remedy: Remedy | None, *, has_items: bool) -> str:
    if not has_items and (remedy is None or remedy.more_trials is None):
        return (
            f"No number of trials or items detects a drop of {drop:g} between two runs, because whole runs vary: compare"
            " with the mean of several runs, or over runs (alerts)."
        )
    if remedy is None:
        return f"A drop of {drop:g} needs one trial per item."
    if remedy.more_trials is None:
        return f"No number of trials detects a drop of {drop:g}: add items."
    if remedy.at_best:
        return (
            f"A drop of {drop:g} needs at least {remedy.more_trials} trials per item, or more items:"
            " the noise between trials is unknown."
        )
    return f"A drop of {drop:g} needs {remedy.more_trials} trials per item."
