"""How long runs are kept: until somebody deletes them, or as long as their benchmark says.

A run is gone at once. Its values and traces, which may be millions of rows, go after it in jobs, a
stretch of positions in each transaction.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, literal_column, select
from sqlalchemy.orm import Session

from app.benchmarks.models import Benchmark
from app.jobs.handlers import Job
from app.jobs.queue import enqueue
from app.runs import queries
from app.runs.models import BenchmarkRun, TraceResult
from app.runs.rules import FINAL, IllegalTransition, RunStatus
from app.traces.models import Collection
from app.traces.queries import lock_to_drop
from app.traces.service import drop_stretch

BATCH = 20
DROPPED_AT_ONCE = 10_000
A_DAY: ColumnElement[timedelta] = literal_column("INTERVAL '1 day'")


def purge_old_runs(session: Session, now: datetime) -> int:
    """Delete some of the runs that ended more than the `keepDays` of their benchmark ago; returns
    how many. Call again, in a new transaction, until it is 0.
    """
    too_old = BenchmarkRun.completed_at < now - Benchmark.keep_days * A_DAY
    statement = (
        select(BenchmarkRun.id)
        .join(Benchmark, Benchmark.id == BenchmarkRun.benchmark_id)
        .where(Benchmark.keep_days.is_not(None), BenchmarkRun.status.in_(FINAL), too_old)
        .order_by(BenchmarkRun.seq)
        .limit(BATCH)
    )
    run_ids = list(session.scalars(statement))
    for run_id in run_ids:
        delete_run(session, run_id)
    return len(run_ids)


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run that has ended, and put on the queue what deletes all that it measured; its
    traces too, unless another run judges them as well.

    Locks:   the shards before the run, as a step that stores a shard does.
    """
    queries.lock_shards(session, queries.get_run(session, run_id).seq)
    run = queries.get_run(session, run_id, for_update=True)
    if not RunStatus(run.status).is_final:
        raise IllegalTransition(f"the run {run.id} is {run.status}; cancel it first")
    session.delete(run)
    session.flush()
    enqueue(session, "runs.drop_results", run_seq=run.seq)
    if run.collection_id is not None:
        _drop_unless_shared(session, run.collection_id)


def _drop_unless_shared(session: Session, collection_id: int) -> None:
    collection = lock_to_drop(session, collection_id)
    shared = select(BenchmarkRun.seq).where(BenchmarkRun.collection_id == collection_id)
    if session.scalar(shared.limit(1)) is None:
        collection.completed_at = None  # so that no run takes it over any more
        session.flush()
        enqueue(session, "runs.drop_traces", collection_id=collection_id)


def drop_results(job: Job, run_seq: int) -> None:
    """Delete what a run measured that is not there any more."""
    ours = TraceResult.run_seq == run_seq
    with job.resources.db.read() as session:
        last = session.scalar(select(func.max(TraceResult.position)).where(ours))

    def drop(session: Session, first: int, last: int) -> None:
        session.execute(delete(TraceResult).where(ours, TraceResult.position.between(first, last)))

    _piece_by_piece(job, -1 if last is None else last, drop)


def drop_traces(job: Job, collection_id: int) -> None:
    """Delete a collection that no run judges."""
    with job.resources.db.read() as session:
        collection = session.get(Collection, collection_id)
    if collection is None:
        return
    _piece_by_piece(
        job,
        collection.trace_count - 1,
        lambda session, first, last: drop_stretch(session, collection_id, first, last),
    )
    with job.resources.db.begin() as session:
        session.execute(delete(Collection).where(Collection.id == collection_id))


def _piece_by_piece(job: Job, last: int, drop: Callable[[Session, int, int], None]) -> None:
    for first in range(0, last + 1, DROPPED_AT_ONCE):
        job.checkpoint()
        with job.resources.db.begin() as session:
            drop(session, first, first + DROPPED_AT_ONCE - 1)
