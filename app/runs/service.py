from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.errors import ForeignKeyViolation
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.agents.queries import get_agent
from app.alerts.evaluation import Decisions
from app.alerts.schemas import EventState
from app.alerts.service import RunNotice, record_decisions, tell_notice
from app.benchmarks.models import Benchmark
from app.benchmarks.queries import get_agent_ids_by_benchmark, get_benchmark
from app.comparison.baselines import PINNED
from app.comparison.verdict_view import NOT_COMPARABLE
from app.core.db import insert_row
from app.core.errors import Conflict, ErrorItem, Invalid, NotFound
from app.core.ids import new_id
from app.core.notify import notify_streams
from app.jobs.queue import enqueue
from app.kpis.evaluate import KpiValue, Standing
from app.kpis.service import RunKey, record_kpis
from app.kpis.verdicts import RunVerdicts
from app.metrics.aggregate import Aggregate
from app.results import queries, rules
from app.results.models import BenchmarkRun, RunMetric
from app.results.plan import RunPlan
from app.results.rules import RunStatus, TriggerType, ValidityVerdict
from app.statistics.verdict import Verdict
from app.traces.models import Collection
from app.traces.queries import lock_completed
from app.traces.registry import TRACE_SOURCES, TracePage
from app.traces.service import create_collection, store_page

STORED_STATISTICS = ("n", "mean", "std", "min", "max", "p50", "p95", "p99", "sum", "coverage")


class RunEnded(Conflict):
    """The run ended while this step was under way; what the step did is dropped."""

    code = "run-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A worker's right to do one step of a run: void once the fence was raised again."""

    run_id: str
    run_seq: int
    collection_id: int
    fence: int
    plan: RunPlan
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All that a completed run is found to be; `expected` is its number of traces, `standings` what
    is stored beside each KPI, `alerts` what it means for the rules about it.
    """

    expected: int
    aggregates: dict[str, Aggregate]
    kpis: Sequence[KpiValue]
    standings: Mapping[str, Standing]
    validity: ValidityVerdict
    verdicts: RunVerdicts
    alerts: Decisions


def create_run(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    *,
    trigger: TriggerType,
    trigger_event_id: str | None = None,
    run_name: str | None = None,
    retry_of: BenchmarkRun | None = None,
    rescore_of: BenchmarkRun | None = None,
) -> BenchmarkRun:
    """Insert a PENDING run and its first job; `trigger_event_id` names what started it.

    `rescore_of` is a run whose collection it judges instead of one of its own.

    Raises: `NotFound` for an unknown benchmark or agent, `Invalid` when the benchmark does not
            evaluate the agent, `Conflict` when one of them is archived.
    """
    if not queries.is_runnable(session, benchmark_id, agent_id):
        benchmark, agent = get_benchmark(session, benchmark_id), get_agent(session, agent_id)
        require_runnable(session, benchmark, agent)
    new = {
        "id": new_id(),
        "benchmark_id": benchmark_id,
        "agent_id": agent_id,
        "status": RunStatus.PENDING.value,
        "triggered_by": trigger.value,
        "trigger_event_id": trigger_event_id,
        "run_name": run_name,
        "retry_of": retry_of.id if retry_of else None,
        "retry_count": retry_of.retry_count + 1 if retry_of else 0,
        "rescore_of": (rescore_of.rescore_of or rescore_of.id) if rescore_of else None,
        "collection_id": rescore_of.collection_id if rescore_of else None,
    }
    try:
        run = BenchmarkRun(**insert_row(session, BenchmarkRun, new))
    except ForeignKeyViolation:
        raise NotFound(
            "the benchmark or the agent was deleted at this moment; list them, and choose again"
        ) from None
    enqueue(session, "runs.begin", run_id=run.id)
    return run


def retry_run(session: Session, run_id: str) -> BenchmarkRun:
    """A new run like one that failed or was cancelled; raises `IllegalTransition` otherwise."""
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_retryable(run.id, RunStatus(run.status), run.retry_count)
    newer = select(BenchmarkRun.id).where(BenchmarkRun.retry_of == run.id).limit(1)
    if (retried := session.scalar(newer)) is not None:
        raise rules.IllegalTransition(
            f"the run {run.id} was retried already, as {retried}; retry that one"
        )
    return create_run(
        session,
        run.benchmark_id,
        run.agent_id,
        trigger=TriggerType.MANUAL,
        run_name=run.run_name,
        retry_of=run,
    )


def rescore_run(session: Session, run_id: str) -> BenchmarkRun:
    """A new run over the traces of a completed one, by the metrics, formulas and baseline of now;
    their source is not asked. Raises `IllegalTransition`, or `RunPurged` when they are gone.
    """
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_traces(run.id, run.purged_at)
    if run.status != RunStatus.COMPLETED:
        raise rules.IllegalTransition(
            f"the run {run.id} is {run.status}; only COMPLETED runs are rescored."
            " Retry it, or start a new run."
        )
    return create_run(
        session,
        run.benchmark_id,
        run.agent_id,
        trigger=TriggerType.MANUAL,
        run_name=run.run_name,
        rescore_of=run,
    )


def cancel_run(session: Session, run_id: str, now: datetime) -> BenchmarkRun:
    """Workers see it at their next step; raises `IllegalTransition` when the run has ended."""
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.CANCELLED)
    _end(session, run, RunStatus.CANCELLED, now)
    return run


def fail_run(session: Session, run_id: str, code: str, message: str, now: datetime) -> bool:
    """End a run that cannot go on; False when it had ended before."""
    run = queries.get_run(session, run_id, for_update=True)
    if RunStatus(run.status).is_final:
        return False
    run.error_code, run.error_message = code, message
    tell_notice(session, _failed(run), now)
    _end(session, run, RunStatus.FAILED, now)
    return True


def _failed(run: BenchmarkRun) -> RunNotice:
    return RunNotice(
        state=EventState.RUN_FAILED,
        once=f"run-failed/{run.id}",
        name="run failed",
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.id,
        run_seq=run.seq,
        explanation=f"The run failed, and says nothing about the agent. {run.error_code}:"
        f" {run.error_message}",
    )


def may_begin(session: Session, run_id: str) -> bool:
    """Whether a run waits to be begun; locks it, so that nobody else begins it meanwhile."""
    return queries.get_run(session, run_id, for_update=True).status == RunStatus.PENDING


def begin_run(
    session: Session, run_id: str, plan: RunPlan, collect_lock: str | None, now: datetime
) -> None:
    """PENDING → RUNNING with a frozen plan, an empty collection and the job that fills it."""
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.RUNNING)
    query = {"dataset_ref": plan.dataset_ref, "run_name": plan.run_name}
    run.collection_id = (
        run.collection_id  # of the run that is rescored
        or _collected_before(session, run, plan)
        or _made_before(session, run, plan)
        or create_collection(session, plan.source, query).id
    )
    run.status, run.started_at = RunStatus.RUNNING, now
    run.plan, run.metric_keys = plan.document(), plan.columns
    session.flush()
    enqueue(session, "runs.collect", run_id=run.id, lock=collect_lock)
    notify_streams(session, run.id)


def _collected_before(session: Session, run: BenchmarkRun, plan: RunPlan) -> int | None:
    """The complete collection of the run that this one retries, where it asks for the same."""
    old = run.retry_of and session.get(BenchmarkRun, run.retry_of)
    if not old or not _asks_the_same(old, plan):
        return None
    ours = (Collection.id == old.collection_id) & (Collection.trace_count > 0)
    collection = lock_completed(session, plan.source, ours)
    return collection.id if collection else None


def _made_before(session: Session, run: BenchmarkRun, plan: RunPlan) -> int | None:
    """The traces that a model made for the run that this one retries, which that run gives away:
    they were paid for. None where the source makes none, or when somebody deletes that run just now.
    """
    if not TRACE_SOURCES.get(plan.source).runs_models:
        return None
    before = select(BenchmarkRun).where(BenchmarkRun.id == run.retry_of)
    old = session.scalars(before.with_for_update(skip_locked=True)).one_or_none()
    if old is None or not _asks_the_same(old, plan):
        return None
    collection_id, old.collection_id = old.collection_id, None
    return collection_id


def _asks_the_same(old: BenchmarkRun, plan: RunPlan) -> bool:
    if old.plan is None:
        return False
    before = RunPlan.model_validate(old.plan)
    return (old.run_name or before.run_name) == plan.run_name and before.reads == plan.reads


def open_step(session: Session, run_id: str) -> Step | None:
    """Take over the step of a running run that is not split in shards; None when it has ended."""
    run = queries.get_run(session, run_id, for_update=True)
    if run.status != RunStatus.RUNNING:
        return None
    run.fence += 1
    session.flush()
    assert run.collection_id is not None
    return Step(
        run_id=run.id,
        run_seq=run.seq,
        collection_id=run.collection_id,
        fence=run.fence,
        plan=RunPlan.model_validate(run.plan),
        fingerprint=run.fingerprint,
    )


def collection_of(session: Session, step: Step) -> Collection:
    return session.get_one(Collection, step.collection_id)


def absent_traces(session: Session, step: Step) -> int:
    """How many traces the source counted and did not give."""
    collection = collection_of(session, step)
    return max((collection.expected_count or 0) - collection.trace_count, 0)


def append_page(session: Session, step: Step, page: TracePage, now: datetime) -> bool:
    """Store a page of traces and where to go on; whether the collection is complete.

    It is after the last page, or when an earlier one with the same traces takes its place.
    """
    run = locked_run(session, step)
    collection = store_page(session, collection_of(session, step), page, now)
    if collection.id != run.collection_id:
        enqueue(session, "runs.drop_traces", collection_id=run.collection_id)
        run.collection_id = collection.id
    run.traces_total = max(page.total or 0, collection.trace_count)
    # From now on the run says which traces it judges, and a retry reads the same.
    run.run_name = run.run_name or page.run_name
    session.flush()
    notify_streams(session, run.id)
    return collection.completed_at is not None


def finish_run(session: Session, step: Step, found: Finished, now: datetime) -> None:
    """Write all that a run was found to be, and COMPLETED, together."""
    run = locked_run(session, step)
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.COMPLETED)
    session.execute(insert(RunMetric), _metric_rows(run.seq, step.plan, found))
    key = RunKey(run.seq, run.id, run.benchmark_id, run.agent_id)
    record_kpis(session, key, found.kpis, found.standings, found.validity.validity, now)
    run.verdict = found.verdicts.run
    run.validity, run.validity_reasons = found.validity.validity, list(found.validity.reasons)
    run.coverage, run.error_share = found.validity.coverage, found.validity.error_share
    if run.rescore_of is None:  # what is judged once more wakes nobody
        record_decisions(session, found.alerts, now)
        if _has_no_verdict(found):
            tell_notice(session, _not_comparable(run, found.verdicts), now)
    _end(session, run, RunStatus.COMPLETED, now)


def _has_no_verdict(found: Finished) -> bool:
    is_valid = found.validity.validity is rules.Validity.VALID
    return is_valid and found.verdicts.run.verdict is Verdict.INVALID


def _not_comparable(run: BenchmarkRun, found: RunVerdicts) -> RunNotice:
    """Told once of a history and a baseline that do not fit, and not again every night."""
    baseline = found.run.baseline
    is_pinned = baseline is not None and baseline.mode == PINNED
    ids = " ".join(baseline.run_ids) if baseline else ""
    remedy = (
        "Pin a newer run, or rescore the baseline."
        if is_pinned
        else "Later runs are compared with this one."
    )
    return RunNotice(
        state=EventState.RUN_INVALID,
        once=f"not-comparable/{run.fingerprint}/{ids}",
        name=NOT_COMPARABLE,
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.id,
        run_seq=run.seq,
        explanation=f"This run has no verdict: {found.run.reason}. Its numbers are right all the"
        f" same. {remedy}",
    )


def _end(session: Session, run: BenchmarkRun, status: RunStatus, now: datetime) -> None:
    """The one way into a final state."""
    run.status, run.completed_at = status, now
    run.fence += 1
    session.flush()
    if run.triggered_by == TriggerType.SCHEDULED:
        enqueue(session, "schedules.run_ended", run_id=run.id)
    notify_streams(session, run.id)


def locked_run(session: Session, step: Step) -> BenchmarkRun:
    """The run, locked; raises `RunEnded` unless the step may still write to it."""
    run = queries.get_run(session, step.run_id, for_update=True)
    if run.status != RunStatus.RUNNING or run.fence != step.fence:
        raise RunEnded
    return run


def require_runnable(session: Session, benchmark: Benchmark, agent: Agent) -> None:
    """Raise `Conflict` or `Invalid` unless the benchmark may be run for the agent."""
    if benchmark.archived or agent.archived:
        raise Conflict(
            "an archived benchmark or agent is not run;"
            ' PATCH it with {"archived": false} to bring it back'
        )
    evaluated = get_agent_ids_by_benchmark(session, [benchmark.id]).get(benchmark.id)
    if evaluated and agent.id not in evaluated:
        raise Invalid(
            f"the benchmark {benchmark.id!r} does not evaluate the agent {agent.id!r};"
            " add it to `evaluates`",
            errors=[ErrorItem(pointer="/agentId", detail="is not among those evaluated")],
        )


def _metric_rows(run_seq: int, plan: RunPlan, found: Finished) -> list[dict[str, object]]:
    return [
        {
            "run_seq": run_seq,
            "metric": metric.column,
            "ordinal": ordinal,
            "version": metric.version,
            "expected": found.expected,
            "missing": dict(aggregate.missing),
            "interval_low": interval.low if interval else None,
            "interval_high": interval.high if interval else None,
            "verdict": found.verdicts.metrics.get(metric.column),
            **{name: aggregate.statistic(name) for name in STORED_STATISTICS},
        }
        for ordinal, metric in enumerate(plan.metrics)
        for aggregate in [found.aggregates[metric.column]]
        for interval in [found.verdicts.metric_intervals.get(metric.column)]
    ]
