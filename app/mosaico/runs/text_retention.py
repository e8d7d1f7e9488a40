"""Removal of texts that are older than `keepTextDays` of their benchmark; values, verdicts, tags and attributes stay.

Runs and uploads with the same traces share their texts: these go when they are too old for every run that has them.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import Select, select, true, update
from sqlalchemy.orm import Session, aliased

from mosaico.benchmarks.models import Benchmark
from mosaico.jobs.declarations import RemoveTexts
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.queue import enqueue
from mosaico.jobs.row_deletion import repeat_batches
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import FINAL
from mosaico.runs.erasure import remove_texts_at
from mosaico.runs.retention import A_DAY, delete_in_batches, is_written_back
from mosaico.traces.models import Collection
from mosaico.traces.queries import lock_for_deletion

COLLECTIONS_PER_BATCH: Final = 5
RUNS_PER_MARK: Final = 100

_Other, _OtherBenchmark = aliased(BenchmarkRun), aliased(Benchmark)


def remove_expired_texts(session: Session, now: datetime) -> int:
    """Remove the texts of a batch of collections, all of whose runs ended more than the `keepTextDays` of their benchmark
    ago; returns its size. Call it again, in a new transaction, until it returns 0.
    """
    # The oldest ones of each benchmark, in the order of an index.
    oldest = (
        select(BenchmarkRun.collection_id)
        .join(Collection, Collection.id == BenchmarkRun.collection_id)
        .where(
            BenchmarkRun.benchmark_id == Benchmark.id,
            BenchmarkRun.purged_at.is_(None),
            BenchmarkRun.texts_removed_at.is_(None),
            BenchmarkRun.completed_at < now - Benchmark.keep_text_days * A_DAY,
            Collection.texts_removed_at.is_(None),
            ~_readers(now).where(_Other.collection_id == Collection.id).exists(),
        )
        .order_by(BenchmarkRun.completed_at)
        .limit(COLLECTIONS_PER_BATCH)
        .correlate(Benchmark)
        .lateral()
    )
    batch = (
        select(oldest.c.collection_id)
        .distinct()
        .select_from(Benchmark)
        .join(oldest, true())
        .where(Benchmark.keep_text_days.is_not(None))
        .limit(COLLECTIONS_PER_BATCH)
    )
    # Two workers lock in the same order.
    removed = [
        _remove(session, collection_id, now) for collection_id in sorted(session.scalars(batch))
    ]
    return sum(removed)


def _readers(now: datetime) -> Select[int]:
    """The runs that need the texts of their traces."""
    is_kept = _OtherBenchmark.keep_text_days.is_(None) | (
        _Other.completed_at >= now - _OtherBenchmark.keep_text_days * A_DAY
    )
    runs = select(_Other.seq).join(_OtherBenchmark, _OtherBenchmark.id == _Other.benchmark_id)
    return runs.where(is_kept | _Other.status.not_in(FINAL) | is_written_back(_Other))


def _remove(session: Session, collection_id: int, now: datetime) -> bool:
    """Mark a collection, so that nobody takes it over any more, and have its texts removed by a job."""
    collection = lock_for_deletion(session, collection_id)
    # A run may have taken it over since the selection.
    reader = _readers(now).where(_Other.collection_id == collection_id).limit(1)
    if collection is None or session.scalar(reader) is not None:
        return False
    collection.texts_removed_at = now
    enqueue(session, RemoveTexts(collection_id=collection_id))
    return True


def remove_texts(job: JobContext, request: RemoveTexts) -> None:
    """Remove the texts of a marked collection, with its transcripts and the reasons of judges."""
    collection_id = request.collection_id
    with job.resources.db.read() as session:
        collection = session.get(Collection, collection_id)
    if collection is None or collection.texts_removed_at is None:
        return
    removed_at, last = collection.texts_removed_at, collection.trace_count - 1
    repeat_batches(job, lambda session: mark_runs(session, collection_id, removed_at))

    def remove(session: Session, first: int, last: int) -> None:
        remove_texts_at(session, collection_id, range(first, last + 1))

    delete_in_batches(job, last, remove)


def mark_runs(session: Session, collection_id: int, removed_at: datetime) -> int:
    """Mark a batch of the runs over a collection whose texts are removed; returns its size."""
    unmarked = select(BenchmarkRun.seq).where(
        BenchmarkRun.collection_id == collection_id, BenchmarkRun.texts_removed_at.is_(None)
    )
    marked = update(BenchmarkRun).where(BenchmarkRun.seq.in_(unmarked.limit(RUNS_PER_MARK)))
    statement = marked.values(texts_removed_at=removed_at).returning(BenchmarkRun.seq)
    return len(session.scalars(statement).all())
