"""Writes the results of a run back to the source of its traces, as scores of that source.

It starts after the run has completed and never changes the run: errors are recorded in its
`write_back` only. The ID of a score depends on the benchmark, the source run, the trace and the
metric, but not on our run: a later run over the same traces replaces the scores instead of adding
to them.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.core.errors import AppError, Conflict
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import FailWriteBack, WriteBackScores
from mosaico.jobs.handlers import JobContext, describe_error
from mosaico.jobs.queue import enqueue
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.run_store import queries
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.rules import Validity
from mosaico.run_store.write_back_state import KPI_CURSOR, WriteBackState, WriteBackStatus
from mosaico.runs.leases import RunEnded
from mosaico.runs.plan_builder import record_credentials_result, trace_query
from mosaico.traces.models import Collection
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CredentialsRefused,
    NewScore,
    ScoreWriter,
    TraceQuery,
)

log = logging.getLogger(__name__)

# Scores between two stored positions: a worker that is killed repeats at most these.
SCORES_PER_BATCH: Final = 400
MAX_TURN_S: Final = 60.0


class ScoresNotWritable(Conflict):
    """The source of the traces does not accept scores; set `writeBack` of the benchmark to false."""

    code = "write-back-not-supported"


class Superseded(Conflict):
    """A later run of the benchmark writes its scores of the same traces instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBackLease:
    """The right to write the scores of a run; void once its fencing token was raised again.

    `cursor` is the position of the next trace, `KPI_CURSOR` before the first and None after the
    last; `written` counts the scores that the source has accepted.
    """

    run_id: str
    run_seq: int
    agent_id: str
    fencing_token: int
    plan: RunPlan
    query: TraceQuery
    write: ScoreWriter
    source_run_id: str
    source_run_at: datetime
    cursor: int | None
    written: int


class _ScoreBatch(NamedTuple):
    scores: list[NewScore]
    next_cursor: int | None


def request_write_back(session: Session, run_id: str, res: Resources) -> None:
    """Enqueue the job if the plan requires a write-back; call it in the transaction that completes
    the run.

    Write-backs to one source run one after the other. A rescored run writes nothing back.
    """
    run = queries.get_run(session, run_id)
    plan = run.begun_plan
    # Its scores would have the ids of the original run's and replace them.
    if run.rescore_of or not plan.write_back.is_requested:
        return
    state = WriteBackState(status=WriteBackStatus.PENDING, cursor=KPI_CURSOR)
    try:
        lock = _lock(plan, trace_query(session, plan, res))
    except (
        AppError
    ) as error:  # the agent's secret cannot be decrypted, say: that does not affect the run
        _store_state(session, run, state.ended(WriteBackStatus.FAILED, **describe_error(error)))
        return
    _store_state(session, run, state)
    enqueue(session, WriteBackScores(run_id=run.id), lock=lock)


def _lock(plan: RunPlan, query: TraceQuery) -> str | None:
    """The lock of write-backs with one key. Not that of collections: they do not wait for a write-back."""
    find_lock = TRACE_SOURCES.get(plan.source).lock
    lock = None if find_lock is None else find_lock(query)
    return lock and f"write-back:{lock}"


def write_back(job: JobContext, request: WriteBackScores) -> None:
    """Write the remaining scores and store the position after each batch.

    After `MAX_TURN_S` the job re-enqueues itself: other write-backs to the same source get their turn in
    between.
    """
    res, ends_at = job.resources, time.monotonic() + MAX_TURN_S
    with res.db.begin() as session:
        lease = _acquire(session, request.run_id, res)
    while lease is not None and lease.cursor is not None:
        with res.db.read() as session:
            batch = _next_batch(session, lease, lease.cursor)
        try:
            for _ in lease.write(res, lease.query, batch.scores):
                # Per score: writing is as slow as the source, and a stopping worker must not wait
                # for a batch.
                job.checkpoint()
        except CredentialsRefused:
            with res.db.begin() as session:
                record_credentials_result(session, lease.plan, lease.query, res, refused=True)
            raise
        # After the source has accepted the batch: a worker that is killed before repeats it, with
        # equal ids.
        lease = replace(lease, cursor=batch.next_cursor, written=lease.written + len(batch.scores))
        is_turn_over = lease.cursor is not None and time.monotonic() >= ends_at
        with res.db.begin() as session:
            _store_progress(session, lease)
            job.record_progress(session)
            if is_turn_over:
                lock = _lock(lease.plan, lease.query)
                enqueue(session, request, lock=lock)
        if is_turn_over:
            return


def write_back_failed(job: JobContext, failure: FailWriteBack) -> None:
    """Record on the run why its scores were not all written."""
    with job.resources.db.begin() as session:
        run = queries.get_run(session, failure.run_id, for_update=True)
        if run.write_back is not None:
            state = run.write_back.ended(WriteBackStatus.FAILED, failure.code, failure.message)
            _store_state(session, run, state)


def _acquire(session: Session, run_id: str, res: Resources) -> WriteBackLease | None:
    """Acquire the lease; None when nothing is left to write, or when a later run of the benchmark
    has written its scores of the same traces, which is recorded.

    Raises: `ScoresNotWritable` when the source does not take scores.
    """
    run = queries.get_run(session, run_id, for_update=True)
    plan, state = run.begun_plan, run.write_back
    # A repeated job of a write-back that has ended.
    if state is None or state.is_finished:
        return None
    write = TRACE_SOURCES.get(plan.source).write_scores
    collection = session.get_one(Collection, run.collection_id)
    if (later := _later_run(session, run, collection)) is not None:
        cause = describe_error(
            Superseded(f"the later run {later} writes its scores of the same traces")
        )
        log.info("the scores of run %s are not written: %s", run.id, cause["message"])
        _store_state(session, run, state.ended(WriteBackStatus.SUPERSEDED, **cause))
        return None
    if write is None or collection.source_run_id is None or collection.source_run_at is None:
        raise ScoresNotWritable(
            f"the source {plan.source!r} does not accept scores for this run; set `writeBack` of "
            "the benchmark to false"
        )
    run.fencing_token += 1
    _store_state(session, run, state.moved_to(state.cursor, state.written))
    return WriteBackLease(
        run_id=run.id,
        run_seq=run.seq,
        agent_id=run.agent_id,
        fencing_token=run.fencing_token,
        plan=plan,
        query=trace_query(session, plan, res),
        write=write,
        source_run_id=collection.source_run_id,
        source_run_at=collection.source_run_at,
        cursor=state.cursor,
        written=state.written,
    )


def _later_run(session: Session, run: BenchmarkRun, collection: Collection) -> str | None:
    later = (
        select(BenchmarkRun.id)
        .join(Collection, Collection.id == BenchmarkRun.collection_id)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.seq > run.seq,
            # A later run without write-back replaces nothing.
            BenchmarkRun.write_back.is_not(None),
            Collection.source_run_id == collection.source_run_id,
        )
        .limit(1)
    )
    return session.scalar(later)


def _store_progress(session: Session, lease: WriteBackLease) -> None:
    """Raises: `RunEnded` when another worker took over the lease."""
    run = queries.get_run(session, lease.run_id, for_update=True)
    if run.fencing_token != lease.fencing_token:
        raise RunEnded
    assert run.write_back is not None, "a lease is acquired only on a run with a write-back"
    _store_state(session, run, run.write_back.moved_to(lease.cursor, lease.written))


def _store_state(session: Session, run: BenchmarkRun, state: WriteBackState) -> None:
    run.write_back = state
    session.flush()


def _next_batch(session: Session, lease: WriteBackLease, cursor: int) -> _ScoreBatch:
    """The next scores. Missing values, KPIs of an INVALID run and scores of the source are left out."""
    selection = lease.plan.write_back
    if cursor == KPI_CURSOR:
        scores = list(_kpi_scores(session, lease)) if selection.kpis else []
        return _ScoreBatch(scores, 0 if selection.metrics else None)
    # Whole traces per batch, so that a position is enough as cursor.
    scores_per_trace = sum(map(_is_written, lease.plan.metrics))
    traces = max(SCORES_PER_BATCH // max(scores_per_trace, 1), 1)
    rows = queries.read_trace_values(session, lease.run_seq, cursor, traces)
    scores = [score for row in rows for score in _metric_scores(lease, row.trace_id, row.values)]
    return _ScoreBatch(scores, rows[-1].position + 1 if rows else None)


def _kpi_scores(session: Session, lease: WriteBackLease) -> Iterator[NewScore]:
    for kpi in get_kpis_of_run(session, lease.run_seq):
        if kpi.value is not None and kpi.validity == Validity.VALID:
            yield _score(lease, "kpi", kpi.name, kpi.value, formula=kpi.formula)


def _is_written(metric: PlannedMetric) -> bool:
    """The source has what it delivered: a copy would be a second score with the same value. What the service adds of
    itself is not asked for.
    """
    return not (metric.is_delivered or metric.is_added)


def _metric_scores(
    lease: WriteBackLease, trace_id: str, values: Iterable[float | None]
) -> Iterator[NewScore]:
    for metric, value in zip(lease.plan.metrics, values, strict=True):
        if value is not None and _is_written(metric):
            yield _score(lease, "metric", metric.column, value, trace_id, version=metric.version)


def _score(
    lease: WriteBackLease,
    kind: str,
    name: str,
    value: float,
    trace_id: str | None = None,
    **metadata: str,
) -> NewScore:
    """One score. Its ID depends on the source run only, so that repeating it adds none."""
    identity = [lease.plan.benchmark_id, lease.source_run_id, kind, name, trace_id]
    return NewScore(
        id=hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32],
        name=name,
        value=value,
        at=_score_time(lease),
        run_id=lease.source_run_id,
        trace_id=trace_id,
        metadata={
            "benchmark": lease.plan.benchmark_id,
            "agent": lease.agent_id,
            "run": lease.run_id,
            **metadata,
        },
    )


def _score_time(lease: WriteBackLease) -> datetime:
    """The start of the source run, and a millisecond more for each run of the service.

    A source that orders writes by their time would ignore those of a later run otherwise. Never on
    another day, which is part of the identity of a score.
    """
    end_of_day = lease.source_run_at.replace(hour=23, minute=59, second=59, microsecond=999_000)
    return min(lease.source_run_at + timedelta(milliseconds=lease.run_seq), end_of_day)
