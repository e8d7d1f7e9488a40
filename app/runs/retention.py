"""How long runs are kept: until somebody deletes them, or as long as their benchmark says.

A run that is deleted is gone at once, and so is what a purge takes from a run: its traces and their
values. The rows themselves, which may be millions, go after it in jobs, a stretch of positions in
each transaction. What a purge leaves are the run, its aggregates and its KPIs: the history. A run that is pinned as
baseline is not purged.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, delete, exists, false, func, literal_column, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.benchmarks.models import Benchmark
from app.core.errors import Conflict
from app.jobs.handlers import JobContext
from app.jobs.queue import enqueue
from app.results import queries
from app.results.models import BenchmarkBaseline, BenchmarkRun, RunShard, TraceResult
from app.results.rules import FINAL, IllegalTransition, RunStatus
from app.traces.models import Collection
from app.traces.queries import lock_for_deletion
from app.traces.service import delete_positions

RUNS_PER_BATCH = 20
ROWS_PER_BATCH = 10_000
A_DAY: ColumnElement[timedelta] = literal_column("INTERVAL '1 day'")


# The scores of such a run are still on their way to where its traces came from.
_IS_WRITTEN_BACK = func.coalesce(
    BenchmarkRun.write_back["status"].astext.in_(("PENDING", "WRITING")), false()
)


class RunIsBaseline(Conflict):
    """The run is the pinned baseline of later ones; unpin it, or pin another run, then delete it."""

    code = "run-is-baseline"


class PurgeCounts(NamedTuple):
    """How much a purge would take, before it does."""

    runs: int
    traces: int


def purge_expired_runs(session: Session, now: datetime) -> int:
    """Purge some of the runs that ended more than the `keepDays` of their benchmark ago; returns
    how many. Call again, in a new transaction, until it is 0.
    """
    return _purge_some(session, _past_their_days(now), now)


def purge_runs_before(
    session: Session, moment: datetime, now: datetime, *, benchmark_id: str | None = None
) -> int:
    """The same for runs that ended before a moment, whatever their benchmark says."""
    return _purge_some(session, _before(moment, benchmark_id), now)


def count_runs_before(
    session: Session, moment: datetime, *, benchmark_id: str | None = None
) -> PurgeCounts:
    """What `purge_runs_before` would take."""
    old = _before(moment, benchmark_id).subquery()
    traces = func.coalesce(func.sum(old.c.traces_processed), 0)
    return PurgeCounts(*session.execute(select(func.count(), traces).select_from(old)).one())


def _past_their_days(now: datetime) -> Select[str, int]:
    too_old = BenchmarkRun.completed_at < now - Benchmark.keep_days * A_DAY
    return (
        _unpurged()
        .join(Benchmark, Benchmark.id == BenchmarkRun.benchmark_id)
        .where(Benchmark.keep_days.is_not(None), too_old)
    )


def _before(moment: datetime, benchmark_id: str | None) -> Select[str, int]:
    statement = _unpurged().where(BenchmarkRun.completed_at < moment)
    if benchmark_id is not None:
        statement = statement.where(BenchmarkRun.benchmark_id == benchmark_id)
    return statement


def _unpurged() -> Select[str, int]:
    return select(BenchmarkRun.id, BenchmarkRun.traces_processed).where(
        BenchmarkRun.status.in_(FINAL),
        BenchmarkRun.purged_at.is_(None),
        ~_IS_WRITTEN_BACK,
        ~exists().where(BenchmarkBaseline.run_id == BenchmarkRun.id),
    )


def _purge_some(session: Session, old: Select[str, int], now: datetime) -> int:
    run_ids = list(session.scalars(old.order_by(BenchmarkRun.seq).limit(RUNS_PER_BATCH)))
    for run_id in run_ids:
        _purge(session, run_id, now)
    return len(run_ids)


def _purge(session: Session, run_id: str, now: datetime) -> None:
    run = _ended(session, run_id)
    if run.purged_at is not None:
        return
    collection_id, run.collection_id, run.purged_at = run.collection_id, None, now
    session.execute(delete(RunShard).where(RunShard.run_seq == run.seq))
    session.flush()
    _drop(session, run.seq, collection_id)


def _ended(session: Session, run_id: str) -> BenchmarkRun:
    """A run that has ended, locked after its shards, as a step that stores a shard does it."""
    seq = session.scalar(select(BenchmarkRun.seq).where(BenchmarkRun.id == run_id))
    if seq is not None:
        queries.lock_shards(session, seq)
    run = queries.get_run(session, run_id, for_update=True)
    if not RunStatus(run.status).is_final:
        raise IllegalTransition(f"the run {run.id} is {run.status}; cancel it first")
    return run


def _drop(session: Session, run_seq: int, collection_id: int | None) -> None:
    """Put on the queue what deletes the values of a run, and its traces unless others use them."""
    enqueue(session, "runs.drop_results", run_seq=run_seq)
    if collection_id is not None:
        _drop_unless_shared(session, collection_id)


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run that has ended with its history, and put on the queue what deletes all that it
    measured; its traces too, unless another run judges them as well.
    """
    run = _ended(session, run_id)
    seq, collection_id, benchmark_id = run.seq, run.collection_id, run.benchmark_id
    session.delete(run)
    try:
        session.flush()
    except IntegrityError:
        raise RunIsBaseline(
            f"the run {run_id} is the baseline of later ones;"
            f" DELETE /api/v1/benchmarks/{benchmark_id}/baseline first, or pin another run"
        ) from None
    _drop(session, seq, collection_id)


def _drop_unless_shared(session: Session, collection_id: int) -> None:
    collection = lock_for_deletion(session, collection_id)
    shared = select(BenchmarkRun.seq).where(BenchmarkRun.collection_id == collection_id)
    if session.scalar(shared.limit(1)) is None:
        collection.completed_at = None  # so that no run takes it over any more
        session.flush()
        enqueue(session, "runs.drop_traces", collection_id=collection_id)


def drop_results(job: JobContext, run_seq: int) -> None:
    """Delete the values of a run that was deleted or purged."""
    ours = TraceResult.run_seq == run_seq
    with job.resources.db.read() as session:
        last = session.scalar(select(func.max(TraceResult.position)).where(ours))

    def drop(session: Session, first: int, last: int) -> None:
        session.execute(delete(TraceResult).where(ours, TraceResult.position.between(first, last)))

    delete_in_batches(job, -1 if last is None else last, drop)


def drop_traces(job: JobContext, collection_id: int) -> None:
    """Delete a collection that no run judges."""
    with job.resources.db.read() as session:
        collection = session.get(Collection, collection_id)
    if collection is None:
        return
    delete_in_batches(
        job,
        collection.trace_count - 1,
        lambda session, first, last: delete_positions(session, collection_id, first, last),
    )
    with job.resources.db.begin() as session:
        session.execute(delete(Collection).where(Collection.id == collection_id))


def delete_in_batches(
    job: JobContext, last: int, drop: Callable[[Session, int, int], None]
) -> None:
    for first in range(0, last + 1, ROWS_PER_BATCH):
        job.checkpoint()
        with job.resources.db.begin() as session:
            drop(session, first, first + ROWS_PER_BATCH - 1)
