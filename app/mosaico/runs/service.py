"""Writes to runs: create, begin, cancel, retry, rescore and fail them."""

from datetime import datetime

import structlog
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.queries import get_agent
from mosaico.alerts import incidents
from mosaico.alerts.kept_states import keep_states_of_run
from mosaico.alerts.publishing import EventNotice, publish_notice
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.stored_series import accept_series
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.queries import get_benchmark
from mosaico.benchmarks.service import evaluated_agent_errors
from mosaico.comparison.acceptance import accept_level
from mosaico.core.errors import AppError, Conflict, ErrorItem, Invalid, NotFound
from mosaico.core.ids import new_id
from mosaico.core.postgres_notify import notify_streams
from mosaico.jobs.declarations import BeginRun, CollectTraces, FinishRun, RecordRunEnd
from mosaico.jobs.queue import enqueue, enqueue_next
from mosaico.run_store import queries, rules
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import RunStatus, TriggerType
from mosaico.runs.collection import choose_collection
from mosaico.runs.schemas import RunView
from mosaico.runs.views import run_view
from mosaico.traces.production import TraceWindow

log = structlog.stdlib.get_logger(__name__)


def create_run(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    *,
    trigger: TriggerType,
    trigger_event_id: str | None = None,
    schedule_id: str | None = None,
    run_name: str | None = None,
    window: TraceWindow | None = None,
    retry_of: BenchmarkRun | None = None,
    rescore_of: BenchmarkRun | None = None,
) -> RunView:
    """Insert a PENDING run and its first job. `trigger_event_id` or `schedule_id` is the ID of the trigger event
    or the schedule that started it; `window` is the range of production traces to read instead of the benchmark's;
    `rescore_of` is a run whose collection it scores instead of reading one.

    Raises: `NotFound` for an unknown benchmark or agent, `Invalid` when the benchmark does not
            evaluate the agent, `Conflict` when one of them is archived.
    """
    benchmark, agent = get_benchmark(session, benchmark_id), get_agent(session, agent_id)
    require_runnable(session, benchmark, agent)
    if window is not None and benchmark.production is None:
        raise reads_no_production(benchmark_id)
    run_id = new_id()
    run = BenchmarkRun(
        id=run_id,
        benchmark_id=benchmark_id,
        agent_id=agent_id,
        status=RunStatus.PENDING.value,
        triggered_by=trigger.value,
        trigger_event_id=trigger_event_id,
        schedule_id=schedule_id,
        run_name=run_name,
        trace_window=window,
        retry_of=retry_of.id if retry_of else None,
        retry_count=retry_of.retry_count + 1 if retry_of else 0,
    )
    if rescore_of is not None:
        _score_traces_of(run, rescore_of)
    _insert(session, run)
    # The open lists offer it at once, also while no worker is free.
    notify_streams(session, run_id)
    enqueue(session, BeginRun(run_id=run_id))
    return run_view(session, run)


def _score_traces_of(run: BenchmarkRun, rescored: BenchmarkRun) -> None:
    """Have a new run score the traces that another run collected."""
    run.rescore_of = rescored.rescore_of or rescored.id
    run.collection_id = rescored.collection_id
    run.source_key, run.source_seq = rescored.source_key, rescored.source_seq
    run.source_run_id, run.source_run_at = rescored.source_run_id, rescored.source_run_at
    run.source_warning = rescored.source_warning


def _insert(session: Session, run: BenchmarkRun) -> None:
    """Raises: `NotFound` when its benchmark or its agent is deleted at the same time."""
    session.add(run)
    try:
        session.flush()
    except IntegrityError:
        raise NotFound(
            "the benchmark or the agent was deleted in the meantime; choose another"
        ) from None


def reads_no_production(benchmark_id: str) -> Invalid:
    """The error of a window for a benchmark that reads runs."""
    return Invalid(
        f"the benchmark {benchmark_id!r} reads no production traces; set `production` of the benchmark, or"
        " omit traceWindow",
        errors=[
            ErrorItem(pointer="/traceWindow", detail="the benchmark reads no production traces")
        ],
    )


def retry_run(session: Session, run_id: str) -> RunView:
    """Start a new attempt of a run that failed or was cancelled; raises `IllegalTransition` for any
    other run.
    """
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_retryable(run.id, RunStatus(run.status), run.retry_count)
    # Under the lock of the run: of two concurrent retries one creates a run, the other one gets
    # 409.
    newer = select(BenchmarkRun.id).where(BenchmarkRun.retry_of == run.id).limit(1)
    if (retried := session.scalar(newer)) is not None:
        raise rules.IllegalTransition(
            f"the run {run.id} was already retried as {retried}; retry that one"
        )
    return _create_again(session, run, retry_of=run)


def rescore_run(
    session: Session, run_id: str, trigger: TriggerType = TriggerType.MANUAL
) -> RunView:
    """Start a run that scores the traces of a completed one with the current metrics, formulas and
    baseline, without reading the source again.

    Raises: `IllegalTransition` for a run that is not completed, `RunPurged` when its traces are gone.
    """
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_traces(run.id, run.purged_at)
    rules.require_texts(run.id, run.texts_removed_at)
    if run.status != RunStatus.COMPLETED:
        raise rules.IllegalTransition(
            f"the run {run.id} is {run.status}; only COMPLETED runs can be rescored."
            " Retry it, or start a new run."
        )
    return _create_again(session, run, rescore_of=run, trigger=trigger)


def _create_again(
    session: Session,
    run: BenchmarkRun,
    *,
    retry_of: BenchmarkRun | None = None,
    rescore_of: BenchmarkRun | None = None,
    trigger: TriggerType = TriggerType.MANUAL,
) -> RunView:
    """A run about the same traces as an earlier one."""
    return create_run(
        session,
        run.benchmark_id,
        run.agent_id,
        trigger=trigger,
        run_name=run.run_name,
        window=run.trace_window,
        retry_of=retry_of,
        rescore_of=rescore_of,
    )


def accept_run(
    session: Session, run_id: str, *, by: str, note: str | None, now: datetime
) -> BenchmarkRun:
    """Accept the level of a regressed run, so that later runs are compared with it; `by` is the ID
    of an API key. Its open incidents are closed. Raises `NothingToAccept` for a run that is not held
    back.
    """
    keep_states_of_run(session, queries.get_run(session, run_id))
    run = accept_level(session, run_id, by=by, note=note, now=now)
    accept_series(session, run.source_seq or run.seq)
    incidents.accept_of_run(session, run, by, note, now)
    return run


def cancel_run(session: Session, run_id: str, now: datetime) -> BenchmarkRun:
    """Cancel a run; its workers stop at their next checkpoint. Raises `IllegalTransition` when the run
    has ended.
    """
    run = queries.get_run(session, run_id, for_update=True)
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.CANCELLED)
    end_run(session, run, RunStatus.CANCELLED, now)
    return run


def fail_run(session: Session, run_id: str, code: str, message: str, now: datetime) -> bool:
    """Fail a run; returns False when it has already ended."""
    run = queries.get_run(session, run_id, for_update=True)
    if RunStatus(run.status).is_final:
        return False
    run.error_code, run.error_message = code, message
    # Also of a run that fails without a job; its page shows this ID.
    log.error("run failed", run_id=run.id, code=code, error=message)
    publish_notice(session, _failed_notice(run), now)
    end_run(session, run, RunStatus.FAILED, now)
    return True


def _failed_notice(run: BenchmarkRun) -> EventNotice:
    return EventNotice(
        state=AlertEventState.RUN_FAILED,
        dedup_key=f"run-failed/{run.id}",
        name="run failed",
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.id,
        run_seq=run.seq,
        title_note=run.error_code,
        explanation=f"The run failed and has no results. {run.error_code}: {run.error_message}",
    )


def lock_pending(session: Session, run_id: str) -> BenchmarkRun | None:
    """Lock a run that is still PENDING, so that one worker only begins it; None for any other."""
    run = queries.get_run(session, run_id, for_update=True)
    return run if run.status == RunStatus.PENDING else None


def begin_run(
    session: Session,
    run: BenchmarkRun,
    plan: RunPlan,
    collect_lock: str | None,
    now: datetime,
) -> None:
    """PENDING → RUNNING, with the frozen plan, a collection and the job that fills it. The caller holds
    the lock of the run.
    """
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.RUNNING)
    query = {"dataset_ref": plan.dataset_ref, "run_name": plan.run_name}
    run.collection_id = choose_collection(session, run, plan, query)
    run.status, run.started_at = RunStatus.RUNNING, now
    # Frozen: edits of the benchmark during the run do not change what it measures.
    # A retry reads the same window.
    run.trace_window = plan.production.window if plan.production else None
    run.plan, run.metric_keys = plan, plan.columns
    if plan.dataset_version is not None:
        run.dataset_name, run.dataset_version = plan.dataset_ref, plan.dataset_version
    session.flush()
    # The lock makes collections with one key of a source wait for each other, in any number of
    # workers.
    enqueue_next(session, CollectTraces(run_id=run.id), lock=collect_lock)


def end_run(
    session: Session,
    run: BenchmarkRun,
    status: RunStatus,
    now: datetime,
) -> None:
    """Move a locked run to a final state; every way into one passes here."""
    run.status, run.completed_at = status, now
    # Voids the lease of any worker that is still at a step of the run.
    run.fencing_token += 1
    session.flush()
    if run.rescore_of is not None:
        _finish_waiting(session, run)
    if run.triggered_by == TriggerType.SCHEDULED:
        enqueue_next(session, RecordRunEnd(run_id=run.id))


def wait_for_baseline(session: Session, run: BenchmarkRun, baseline_id: str) -> bool:
    """Have the traces of a baseline measured by the ruler of a locked run, once for each run; returns whether the run
    must wait: `end_run` of the rescored run finishes it.

    The run does not wait where the traces are gone, or where they were measured again in vain.
    """
    baseline = queries.get_run(session, baseline_id)
    origin_id = baseline.rescore_of or baseline.id
    # Locked: the end of that run is either visible here, or sees that this run waits.
    rescored = session.scalars(
        select(BenchmarkRun)
        .where(BenchmarkRun.rescore_of == origin_id, BenchmarkRun.seq > run.seq)
        .order_by(BenchmarkRun.seq.desc())
        .limit(1)
        .with_for_update()
    ).one_or_none()
    if rescored is not None:
        return not RunStatus(rescored.status).is_final
    try:
        rescore_run(session, baseline_id, TriggerType.EVENT)
    except AppError as error:
        log.info("baseline not measured again", run_id=run.id, baseline=baseline_id, error=error)
        return False
    return True


def _finish_waiting(session: Session, rescored: BenchmarkRun) -> None:
    """Finish the runs that waited until a rescored run has ended. One that does not wait is finished once all the same:
    the worker with the newer job goes on.
    """
    waiting = select(BenchmarkRun.id).where(
        BenchmarkRun.benchmark_id == rescored.benchmark_id,
        BenchmarkRun.agent_id == rescored.agent_id,
        BenchmarkRun.status == RunStatus.RUNNING,
        BenchmarkRun.rescore_of.is_(None),
        BenchmarkRun.shards_done == BenchmarkRun.shards_total,
        BenchmarkRun.seq < rescored.seq,
    )
    for run_id in session.scalars(waiting).all():
        enqueue_next(session, FinishRun(run_id=run_id))


def require_runnable(session: Session, benchmark: Benchmark, agent: Agent) -> None:
    """Raise `Conflict` or `Invalid` unless the benchmark may be run for the agent."""
    if benchmark.archived or agent.archived:
        raise Conflict(
            "the benchmark or the agent is archived;"
            ' PATCH it with {"archived": false} to run it again'
        )
    if errors := evaluated_agent_errors(session, benchmark.id, agent.id):
        raise Invalid(
            f"the benchmark {benchmark.id!r} does not evaluate the agent {agent.id!r};"
            " add it to `evaluates`",
            errors=errors,
        )
