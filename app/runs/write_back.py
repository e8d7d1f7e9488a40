"""Writing what a run was found to be where its traces came from, as scores of that place.

It begins when the run has completed and never changes it: whatever goes wrong is only told there.
A score is known again by what it says of what, not by the run that says it: another run of the
benchmark over the same traces takes the place of this one's scores.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.errors import AppError, Conflict
from app.core.resources import Resources
from app.jobs.handlers import JobContext, describe_error
from app.jobs.queue import enqueue
from app.kpis.queries import get_kpis_of_run
from app.results import queries
from app.results.models import BenchmarkRun
from app.results.plan import RunPlan
from app.results.rules import Validity
from app.runs.leases import RunEnded
from app.runs.plan_builder import record_credentials_result, trace_query
from app.traces.models import Collection
from app.traces.registry import TRACE_SOURCES, CredentialsRefused, NewScore, ScoreWriter, TraceQuery

log = logging.getLogger(__name__)

# So many scores are written before it is noted: what a kill repeats.
SCORES_PER_BATCH: Final = 400
KPI_CURSOR: Final = -1
MAX_TURN_S: Final = 60.0


class WriteBackStatus(StrEnum):
    PENDING = "PENDING"
    WRITING = "WRITING"
    WRITTEN = "WRITTEN"
    FAILED = "FAILED"
    SUPERSEDED = "SUPERSEDED"


UNFINISHED: Final = (WriteBackStatus.PENDING, WriteBackStatus.WRITING)


class ScoresNotWritable(Conflict):
    """The scores of the run cannot be written where its traces came from; see its source."""

    code = "no-way-back"


class Superseded(Conflict):
    """A later run of the benchmark writes its scores of the same traces; these are not needed."""

    code = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBackLease:
    """A worker's right to write: void once the fence of the run was raised again.

    `at` is the position of the next trace, `KPIS_FIRST` before all of them, or None after the last;
    `written` counts the scores that were accepted.
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
    at: int | None
    written: int


class _Batch(NamedTuple):
    scores: list[NewScore]
    next: int | None


def request_write_back(session: Session, run_id: str, res: Resources) -> None:
    """Put the job on the queue, in the transaction that completes the run, where the plan wants it.

    It takes its turn with the collections from the same place. A rescored run leaves that place as
    it is.
    """
    run = queries.get_run(session, run_id)
    plan = RunPlan.model_validate(run.plan)
    if run.rescore_of is not None or not (plan.write_back.kpis or plan.write_back.metrics):
        return
    begin = {"at": KPI_CURSOR, "written": 0}
    try:
        lock = TRACE_SOURCES.get(plan.source).lock(trace_query(session, plan, res))
    except AppError as error:  # of the agent's secret, say: the run itself is as good as ever
        told = describe_error(error)
        why = {"error_code": told["code"], "error": told["message"]}
        _note(session, run, WriteBackStatus.FAILED, **begin, **why)
        return
    _note(session, run, WriteBackStatus.PENDING, **begin)
    enqueue(session, "runs.write_back", run_id=run.id, lock=lock)


def write_back(job: JobContext, run_id: str) -> None:
    """Write the scores that are left, and note after each batch how far they are.

    After a while it goes to the end of the line: collections from the same place wait there.
    """
    res, ends_at = job.resources, time.monotonic() + MAX_TURN_S
    with res.db.begin() as session:
        step = _open(session, run_id, res)
    while step is not None and step.at is not None:
        with res.db.read() as session:
            batch = _batch(session, step, step.at)
        try:
            for _ in step.write(res, step.query, batch.scores):
                job.checkpoint()
        except CredentialsRefused:
            with res.db.begin() as session:
                record_credentials_result(session, step.plan, step.query, res, refused=True)
            raise
        step = replace(step, at=batch.next, written=step.written + len(batch.scores))
        over = step.at is not None and time.monotonic() >= ends_at
        with res.db.begin() as session:
            _note_progress(session, step)
            if over:
                lock = TRACE_SOURCES.get(step.plan.source).lock(step.query)
                enqueue(session, "runs.write_back", run_id=run_id, lock=lock)
        if over:
            return


def write_back_failed(job: JobContext, run_id: str, code: str, message: str, **_: object) -> None:
    """Say on the run why its scores were not all written."""
    with job.resources.db.begin() as session:
        run = queries.get_run(session, run_id, for_update=True)
        _note_end(session, run, WriteBackStatus.FAILED, code, message)


def _open(session: Session, run_id: str, res: Resources) -> WriteBackLease | None:
    """Take over the writing; None when nothing is left to write, or a later run has its scores
    where these would go, which is noted. Raises: `NoWayBack` when there is nobody to write to.
    """
    run = queries.get_run(session, run_id, for_update=True)
    plan, done = RunPlan.model_validate(run.plan), run.write_back or {}
    if done.get("status") not in UNFINISHED:
        return None
    write = TRACE_SOURCES.get(plan.source).write_scores
    collection = session.get_one(Collection, run.collection_id)
    if (later := _later_run(session, run, collection)) is not None:
        why = describe_error(
            Superseded(f"the later run {later} writes its scores of the same traces")
        )
        log.info("the scores of run %s are not written: %s", run.id, why["message"])
        _note_end(session, run, WriteBackStatus.SUPERSEDED, **why)
        return None
    if write is None or collection.source_run_id is None or collection.source_run_at is None:
        raise ScoresNotWritable(
            f"the source {plan.source!r} does not take scores of the run that was read;"
            " set the benchmark's writeBack to false"
        )
    run.fencing_token += 1
    _note_position(session, run, done["at"], done["written"])
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
        at=done["at"],
        written=done["written"],
    )


def _later_run(session: Session, run: BenchmarkRun, collection: Collection) -> str | None:
    later = (
        select(BenchmarkRun.id)
        .join(Collection, Collection.id == BenchmarkRun.collection_id)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.seq > run.seq,
            BenchmarkRun.write_back.is_not(None),
            Collection.source_run_id == collection.source_run_id,
        )
        .limit(1)
    )
    return session.scalar(later)


def _note_progress(session: Session, step: WriteBackLease) -> None:
    """Raises: `RunEnded` when another worker took the writing over."""
    run = queries.get_run(session, step.run_id, for_update=True)
    if run.fencing_token != step.fencing_token:
        raise RunEnded
    _note_position(session, run, step.at, step.written)


def _note_position(session: Session, run: BenchmarkRun, at: int | None, written: int) -> None:
    status = WriteBackStatus.WRITTEN if at is None else WriteBackStatus.WRITING
    _note(session, run, status, at=at, written=written)


def _note_end(
    session: Session, run: BenchmarkRun, status: WriteBackStatus, code: str, message: str
) -> None:
    done = {name: (run.write_back or {}).get(name) for name in ("at", "written")}
    _note(session, run, status, **done, error_code=code, error=message)


def _note(session: Session, run: BenchmarkRun, status: WriteBackStatus, **more: Any) -> None:
    run.write_back = {"status": status, "error_code": None, "error": None, **more}
    session.flush()


def _batch(session: Session, step: WriteBackLease, at: int) -> _Batch:
    """The next scores. A value that is missing, or a KPI of an INVALID run, is no score."""
    wanted = step.plan.write_back
    if at == KPI_CURSOR:
        scores = list(_kpi_scores(session, step)) if wanted.kpis else []
        return _Batch(scores, 0 if wanted.metrics else None)
    traces = max(SCORES_PER_BATCH // len(step.plan.columns), 1)
    rows = queries.read_trace_values(session, step.run_seq, at, traces)
    scores = [score for row in rows for score in _metric_scores(step, row.trace_id, row.values)]
    return _Batch(scores, rows[-1].position + 1 if rows else None)


def _kpi_scores(session: Session, step: WriteBackLease) -> Iterator[NewScore]:
    for kpi in get_kpis_of_run(session, step.run_seq):
        if kpi.value is not None and kpi.validity == Validity.VALID:
            yield _score(step, "kpi", kpi.name, kpi.value, formula=kpi.formula)


def _metric_scores(
    step: WriteBackLease, trace_id: str, values: Iterable[float | None]
) -> Iterator[NewScore]:
    for metric, value in zip(step.plan.metrics, values, strict=True):
        if value is not None:
            yield _score(step, "metric", metric.column, value, trace_id, version=metric.version)


def _score(
    step: WriteBackLease,
    kind: str,
    name: str,
    value: float,
    trace_id: str | None = None,
    **about: str,
) -> NewScore:
    """The score; its time is that of the run that was read, so that it is always the same."""
    says = [step.plan.benchmark_id, step.source_run_id, kind, name, trace_id]
    return NewScore(
        id=hashlib.sha256(json.dumps(says).encode()).hexdigest()[:32],
        name=name,
        value=value,
        at=step.source_run_at,
        run_id=step.source_run_id,
        trace_id=trace_id,
        metadata={
            "benchmark": step.plan.benchmark_id,
            "agent": step.agent_id,
            "run": step.run_id,
            **about,
        },
    )
