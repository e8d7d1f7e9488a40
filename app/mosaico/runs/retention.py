"""Deletion and purge of runs.

A deleted run disappears with everything it measured. A purge removes the traces of a run and their
values, and keeps the run, its aggregates and its KPIs: the history. Both take effect at once. The
rows, which may be millions, are deleted afterwards by jobs, a range of positions per transaction;
those of a purge a day later, so that a mistaken purge can be undone.
A run that is pinned as a baseline is never purged.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    delete,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.annotations.service import remove_texts_of_run
from mosaico.benchmarks.models import Benchmark
from mosaico.comparison.comparison_store import delete_comparisons_of
from mosaico.core.batch_delete import delete_all, trusted_now
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.errors import Conflict
from mosaico.core.row_windows import RowWindow, iter_windows
from mosaico.jobs.declarations import DropPurgedRun, DropResults, DropTraces, EndLinks
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.queue import enqueue
from mosaico.jobs.row_deletion import repeat_batches
from mosaico.run_store import queries
from mosaico.run_store.models import BenchmarkBaseline, BenchmarkRun, RunShard, TraceResult
from mosaico.run_store.rules import FINAL, IllegalTransition, RunStatus
from mosaico.run_store.write_back_state import UNFINISHED
from mosaico.traces.models import Collection, LocalDataset
from mosaico.traces.queries import lock_for_deletion
from mosaico.traces.service import delete_positions

# Both limits keep transactions short: a purge must not hold locks that running workers wait for.
RUNS_PER_BATCH = 5
RUNS_PER_UNDO = 500
LINKS_PER_BATCH = 100
# To the first run over the same source run, and over the same data.
_LINKS = (BenchmarkRun.same_source_as, BenchmarkRun.same_data_as)
ROWS_PER_BATCH = 2_000
UNDO_PERIOD = timedelta(days=1)
A_DAY: ColumnElement[timedelta] = literal_column("INTERVAL '1 day'")


def is_written_back(run: type[BenchmarkRun]) -> ColumnElement[bool]:
    """Whether the write-back still needs the traces of a run."""
    status = type_coerce(run.write_back, JSONB)["status"].astext
    return func.coalesce(status.in_(UNFINISHED), false())


_PURGEABLE: tuple[ColumnElement[bool], ...] = (
    BenchmarkRun.status.in_(FINAL),
    BenchmarkRun.purged_at.is_(None),
    ~is_written_back(BenchmarkRun),
    ~exists().where(BenchmarkBaseline.run_id == BenchmarkRun.id),
)


class RunIsBaseline(Conflict):
    """The run is a pinned baseline; unpin it or pin another run, then delete it."""


class PurgeCounts(NamedTuple):
    """The number of rows that a purge would remove."""

    runs: int
    traces: int


def purge_expired_runs(session: Session, now: datetime) -> int:
    """Purge a batch of the runs that ended more than the `keepDays` of their benchmark ago; returns
    its size. Call it again, in a new transaction, until it returns 0.
    """
    return _purge_batch(session, _is_expired(now), now)


def purge_runs_before(
    session: Session, cutoff: datetime, now: datetime, *, benchmark_id: str | None = None
) -> int:
    """Purge a batch of the runs that ended before a time, regardless of `keepDays`; returns its size."""
    return _purge_batch(session, _ended_before(cutoff, benchmark_id), now)


def count_runs_before(
    db: Database, cutoff: datetime, *, benchmark_id: str | None = None
) -> PurgeCounts:
    """Count the rows that `purge_runs_before` would remove in all its batches."""
    traces = func.coalesce(func.sum(BenchmarkRun.traces_processed), 0)
    counts = (
        select(func.count(), traces)
        .select_from(BenchmarkRun)
        .join(Benchmark, Benchmark.id == BenchmarkRun.benchmark_id)
        .where(*_PURGEABLE, _ended_before(cutoff, benchmark_id))
    )
    total = PurgeCounts(runs=0, traces=0)
    for window in iter_windows(db, BenchmarkRun.seq):
        with db.read_statement() as session:
            runs, trace_count = session.execute(
                counts.where(window.contains(BenchmarkRun.seq))
            ).one()
        total = PurgeCounts(total.runs + runs, total.traces + trace_count)
    return total


def _is_expired(now: datetime) -> ColumnElement[bool]:
    too_old = BenchmarkRun.completed_at < now - Benchmark.keep_days * A_DAY
    return Benchmark.keep_days.is_not(None) & too_old


def _ended_before(cutoff: datetime, benchmark_id: str | None) -> ColumnElement[bool]:
    is_old = BenchmarkRun.completed_at < cutoff
    return is_old if benchmark_id is None else is_old & (Benchmark.id == benchmark_id)


def _purge_batch(session: Session, is_old: ColumnElement[bool], now: datetime) -> int:
    """Purge a batch of the purgeable runs that fulfil a condition on them and their benchmark."""
    # The oldest ones of each benchmark, in the order of an index: otherwise PostgreSQL reads all runs
    # when none is old.
    oldest = (
        select(BenchmarkRun.id)
        .where(BenchmarkRun.benchmark_id == Benchmark.id, *_PURGEABLE, is_old)
        .order_by(BenchmarkRun.completed_at)
        .limit(RUNS_PER_BATCH)
        .correlate(Benchmark)
        .lateral()
    )
    batch = select(oldest.c.id).select_from(Benchmark).join(oldest, true()).limit(RUNS_PER_BATCH)
    run_ids = session.scalars(batch).all()
    # Two purges lock in the same order.
    for run_id in sorted(run_ids):
        _purge(session, run_id, now)
    return len(run_ids)


def _purge(session: Session, run_id: str, now: datetime) -> None:
    run = _lock_ended(session, run_id)
    # Another purge took it between the selection and the lock.
    if run.purged_at is not None:
        return
    run.purged_at = now
    session.flush()
    _enqueue_drop(session, DropPurgedRun(run_id=run_id, purged_at=now))


def _enqueue_drop(session: Session, purge: DropPurgedRun) -> None:
    enqueue(session, purge, start_at=purge.purged_at + UNDO_PERIOD)


def restore_purged_runs(db: Database) -> int:
    """Undo the purges whose traces are not deleted yet, in short transactions; returns how many."""
    restored = 0
    for window in iter_windows(db, BenchmarkRun.seq):
        batch_size = RUNS_PER_UNDO
        while batch_size == RUNS_PER_UNDO:
            with db.begin() as session:
                batch_size = restore_purged_batch(session, window)
            restored += batch_size
    return restored


def restore_purged_batch(session: Session, window: RowWindow) -> int:
    """Undo a batch of the purges in a range of runs; returns its size."""
    is_waiting = BenchmarkRun.purged_at.is_not(None) & BenchmarkRun.collection_id.is_not(None)
    waiting = select(BenchmarkRun.seq).where(window.contains(BenchmarkRun.seq), is_waiting)
    batch = waiting.order_by(BenchmarkRun.seq).limit(RUNS_PER_UNDO).with_for_update()
    restored = update(BenchmarkRun).where(BenchmarkRun.seq.in_(batch)).values(purged_at=None)
    return len(session.scalars(restored.returning(BenchmarkRun.id)).all())


def drop_purged(job: JobContext, purge: DropPurgedRun) -> None:
    """Delete the traces and values of a run that was purged at this time, unless that was undone.

    Raises: `ClocksDiffer`, before anything is deleted: the job then waits until they agree.
    """
    with job.resources.db.begin() as session:
        # The clock of the database started this job, and may be ahead or have been set back since.
        if trusted_now(session, utc_now()) < purge.purged_at + UNDO_PERIOD:
            _enqueue_drop(session, purge)
            return
        run = _lock_ended(session, purge.run_id)
        # A run that was restored and purged again has a later job.
        if run.purged_at is None or run.purged_at != purge.purged_at:
            return
        collection_id, run.collection_id = run.collection_id, None
        # The shards hold summaries of the purged values, which later runs would otherwise reuse.
        delete_all(session, RunShard, RunShard.run_seq == run.seq)
        delete_comparisons_of(session, run.seq)
        session.flush()
        _drop(session, run.seq, collection_id)
    repeat_batches(job, lambda session: remove_texts_of_run(session, purge.run_id))


def _lock_ended(session: Session, run_id: str) -> BenchmarkRun:
    """A run that has ended, locked. Its shards are locked first, in the order in which storing a shard
    takes the two locks: any other order could deadlock with it.
    """
    seq = session.scalar(select(BenchmarkRun.seq).where(BenchmarkRun.id == run_id))
    if seq is not None:
        queries.lock_shards(session, seq)
    run = queries.get_run(session, run_id, for_update=True)
    if not RunStatus(run.status).is_final:
        raise IllegalTransition(f"the run {run.id} is {run.status}; cancel it first")
    return run


def _drop(session: Session, run_seq: int, collection_id: int | None) -> None:
    """Enqueue the deletion of the values of a run, and of its traces unless others have them."""
    enqueue(session, DropResults(run_seq=run_seq))
    if collection_id is not None:
        enqueue(session, DropTraces(collection_id=collection_id))


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run that has ended with its history, and enqueue the deletion of its values, and of
    its traces unless another run or an upload has them too.
    """
    run = _lock_ended(session, run_id)
    seq, collection_id, benchmark_id = run.seq, run.collection_id, run.benchmark_id
    # History, aggregates and KPIs go with it by foreign keys; values and traces have none and are
    # dropped by jobs.
    session.delete(run)
    try:
        session.flush()
    except IntegrityError:
        raise RunIsBaseline(
            f"the run {run_id} is a pinned baseline; pin another run first, or"
            f" DELETE /api/v1/benchmarks/{benchmark_id}/baseline"
        ) from None
    _drop(session, seq, collection_id)
    for link in _LINKS:
        linked = select(BenchmarkRun.seq).where(link == run_id)
        if session.scalar(linked.limit(1)) is not None:
            enqueue(session, EndLinks(run_id=run_id))
            return


def end_links(job: JobContext, deleted: EndLinks) -> None:
    """End the links of later runs over the same source run, or the same data, to a deleted one."""
    repeat_batches(job, lambda session: end_link_batch(session, deleted.run_id))


def end_link_batch(session: Session, run_id: str) -> int:
    """End a batch of the links to a deleted run; returns its size."""
    for link in _LINKS:
        linked = select(BenchmarkRun.seq).where(link == run_id).limit(LINKS_PER_BATCH)
        ended = update(BenchmarkRun).where(BenchmarkRun.seq.in_(linked)).values({link: None})
        if count := len(session.scalars(ended.returning(BenchmarkRun.seq)).all()):
            return count
    return 0


def drop_results(job: JobContext, dropped: DropResults) -> None:
    """Delete the values of a run that was deleted or purged."""
    of_run = TraceResult.run_seq == dropped.run_seq
    with job.resources.db.read() as session:
        last = session.scalar(select(func.max(TraceResult.position)).where(of_run))

    def drop(session: Session, first: int, last: int) -> None:
        session.execute(
            delete(TraceResult).where(of_run, TraceResult.position.between(first, last))
        )

    delete_in_batches(job, -1 if last is None else last, drop)


def drop_traces(job: JobContext, dropped: DropTraces) -> None:
    """Delete a collection, unless a run or an upload has it."""
    collection_id = dropped.collection_id
    with job.resources.db.begin() as session:
        trace_count = mark_unused(session, collection_id)
    if trace_count is None:
        return
    delete_in_batches(
        job,
        trace_count - 1,
        lambda session, first, last: delete_positions(session, collection_id, first, last),
    )
    with job.resources.db.begin() as session:
        # Last: a repeated job must still find how many traces there are. No foreign key searches for traces here: to read
        # the dead entries of the index takes a second per million.
        session.execute(delete(Collection).where(Collection.id == collection_id))


def mark_unused(session: Session, collection_id: int) -> int | None:
    """Mark a collection that neither a run nor an upload has, so that nobody takes it over any more.

    Returns: the number of its traces; None when it is used or deleted.
    Locks:   its row: waits for a run or an upload that is taking it over at this moment.
    """
    collection = lock_for_deletion(session, collection_id)
    users = (
        select(BenchmarkRun.seq).where(BenchmarkRun.collection_id == collection_id),
        select(LocalDataset.id).where(LocalDataset.collection_id == collection_id),
    )
    if collection is None or any(session.scalar(user.limit(1)) is not None for user in users):
        return None
    collection.completed_at = None
    return collection.trace_count


def delete_in_batches(
    job: JobContext, last: int, drop: Callable[[Session, int, int], None]
) -> None:
    for first in range(0, last + 1, ROWS_PER_BATCH):
        job.checkpoint()
        with job.resources.db.begin() as session:
            drop(session, first, first + ROWS_PER_BATCH - 1)
