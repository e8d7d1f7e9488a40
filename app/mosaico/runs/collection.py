"""Collecting the traces of a run, page by page, into a collection that later runs may share."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.core.postgres_notify import notify_streams
from mosaico.jobs.declarations import DropTraces
from mosaico.jobs.handlers import JobContext, RecordProgress, ignore_progress
from mosaico.jobs.queue import enqueue
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.queries import get_run
from mosaico.runs.dataset_items import page_completion, read_coverage
from mosaico.runs.leases import RunEnded, RunLease, is_held_by, lock_leased_run
from mosaico.runs.plan_builder import record_credentials_result, trace_query
from mosaico.runs.source_runs import assign_source_run
from mosaico.traces.models import Collection
from mosaico.traces.queries import count_items, lock_completed
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CredentialsRefused,
    TracePage,
    TraceQuery,
    collect,
)
from mosaico.traces.service import create_collection, store_page


def collect_run(job: JobContext, lease: RunLease) -> BenchmarkRun:
    """Complete the collection of a run, and note which run of its source it has; returns the run."""
    db = job.resources.db
    with db.read() as session:
        query = trace_query(session, lease.plan, job.resources)
        collection = get_collection(session, lease)
    # It is complete for a rescored run, a retry over traces that are all there, and a repeated job
    # that died after the last page.
    if collection.completed_at is None:
        return resume_collection(job, lease, query, collection.cursor)
    with db.begin() as session:
        run = lock_leased_run(session, lease)
        assign_source_run(session, run, collection)
    return run


def resume_collection(
    job: JobContext, lease: RunLease, query: TraceQuery, cursor: str | None
) -> BenchmarkRun:
    """Store the pages after `cursor`; returns the run.

    When the source refuses the agent's keys and the agent was given new ones since the job began,
    the collection continues with those from the last stored page.
    """
    res = job.resources
    source = TRACE_SOURCES.get(lease.plan.source)
    complete_page = page_completion(res.db, lease.plan)
    try:
        for page in collect(source.open(res), query, cursor, complete_page):
            # Per page, before its transaction: a stopping worker loses one page at most.
            job.checkpoint()
            with res.db.begin() as session:
                # The page and its cursor in one transaction: a killed worker continues exactly
                # after the last stored page.
                run = append_page(session, lease, page, res.clock(), job.record_progress)
                if run is not None:
                    record_credentials_result(session, lease.plan, query, res, refused=False)
            # Also when an earlier collection replaced this one: its remaining pages are not read.
            if run is not None:
                return run
    except CredentialsRefused:
        with res.db.begin() as session:
            record_credentials_result(session, lease.plan, query, res, refused=True)
            new_query = trace_query(session, lease.plan, res)
            cursor = get_collection(session, lease).cursor
        if new_query == query:
            # The same keys were refused: nobody has given new ones.
            raise
        # Ends: each recursion needs other keys than the refused ones, which only a user can set.
        return resume_collection(job, lease, new_query, cursor)
    # A source may end without a page that says so: the run has what is stored.
    with res.db.read() as session:
        return get_run(session, lease.run_id)


def append_page(
    session: Session,
    lease: RunLease,
    page: TracePage,
    now: datetime,
    record_progress: RecordProgress = ignore_progress,
) -> BenchmarkRun | None:
    """Store a page of traces together with its cursor; returns the run once its collection is complete.

    The collection is complete after the last page, or as soon as an earlier collection with the
    same traces replaces it.
    """
    run, began = _lock_run_with_collection(session, lease)
    run.waiting_for = page.waiting_for
    position = (began.trace_count, began.cursor)
    collection = store_page(session, began, page, now)
    # A source may repeat a page, or give an empty one while it waits.
    if (began.trace_count, began.cursor) != position:
        record_progress(session)
    if collection.id != began.id:
        run.collection_id = collection.id
        _drop_replaced(session, began)
    run.traces_total = max(page.total or 0, collection.trace_count)
    run.traces_collected = collection.trace_count + page.held_back
    # Store the name that the source resolved, so that a retry reads the same run of the source.
    run.run_name = run.run_name or page.run_name
    if collection.completed_at is not None:
        assign_source_run(session, run, collection)
    session.flush()
    return run if collection.completed_at is not None else None


def _drop_replaced(session: Session, collection: Collection) -> None:
    """Delete a collection that an earlier one replaces: at once without traces, as most are, otherwise
    by a job. The caller holds the lock of the run.
    """
    session.flush()
    if collection.trace_count == 0:
        session.delete(collection)
    else:
        enqueue(session, DropTraces(collection_id=collection.id))


def _lock_run_with_collection(session: Session, lease: RunLease) -> tuple[BenchmarkRun, Collection]:
    """Lock the run and its collection, and wake the event streams of the run. Raises: `RunEnded` when the
    lease is void.
    """
    statement = (
        select(BenchmarkRun, Collection)
        .join(Collection, Collection.id == lease.collection_id)
        .where(BenchmarkRun.id == lease.run_id)
        .with_for_update(key_share=True)
    )
    row = session.execute(statement).one_or_none()
    if row is None or not is_held_by(row[0], lease):
        raise RunEnded
    notify_streams(session, lease.run_id)
    return row[0], row[1]


def get_collection(session: Session, lease: RunLease) -> Collection:
    """Raises: `RunEnded` when another worker has replaced the collection of a void lease."""
    collection = session.get(Collection, lease.collection_id)
    if collection is None:
        raise RunEnded
    return collection


class AbsentTraces(NamedTuple):
    """The items of a run, the items that a complete run has (None: unknown, and not counted either),
    and the number of traces that are not there.
    """

    items: int
    expected_items: int | None
    traces: int

    @property
    def reason(self) -> str | None:
        """The missing items, as a reason for an invalid run."""
        if self.expected_items is None or self.items >= self.expected_items:
            return None
        return f"the run of the source has {self.items} of {self.expected_items} items"


def count_absent_traces(session: Session, lease: RunLease) -> AbsentTraces:
    """The traces that the source counts but did not deliver, and those of items that a complete run
    would have: as many for each as the other items have.
    """
    collection = get_collection(session, lease)
    expected = lease.plan.expect_items
    if expected is None and lease.plan.dataset_version is not None:
        return _count_absent_items(session, lease.plan, collection)
    if expected is None and lease.plan.production is None:
        expected = collection.dataset_items
    expected_items = expected if isinstance(expected, int) else None
    # Counted only where a number is expected: it reads all traces.
    items = 0 if expected_items is None else count_items(session, collection.id)
    trials = round(collection.trace_count / items) if items else 1
    # Not negative: a run of the source may have grown since it was counted.
    undelivered = max((collection.expected_count or 0) - collection.trace_count, 0)
    unanswered = max((expected_items or 0) - items, 0) * trials
    return AbsentTraces(items, expected_items, max(undelivered, unanswered))


def _count_absent_items(session: Session, plan: RunPlan, collection: Collection) -> AbsentTraces:
    """The traces of a version whose items are not there; items that the version does not have are no part of it."""
    coverage = read_coverage(session, plan, collection.id)
    items = coverage.items - coverage.absent
    run_items = items + coverage.unknown
    trials = round(collection.trace_count / run_items) if run_items else 1
    return AbsentTraces(items, coverage.items, coverage.absent * trials)


def choose_collection(
    session: Session, run: BenchmarkRun, plan: RunPlan, query: Mapping[str, str | None]
) -> int:
    """The ID of the collection that a run fills or scores: a rescored run has that of its origin,
    a retry takes over what the earlier attempt has read, any other run starts an empty one.
    """
    return (
        run.collection_id
        or _complete_collection_of_retried(session, run, plan)
        or _produced_collection_of_retried(session, run, plan)
        or create_collection(session, plan.source, dict(query), plan.redact).id
    )


def _complete_collection_of_retried(
    session: Session, run: BenchmarkRun, plan: RunPlan
) -> int | None:
    retried = run.retry_of and session.get(BenchmarkRun, run.retry_of)
    if not retried or not _reads_the_same(retried, plan):
        return None
    filled = (Collection.id == retried.collection_id) & (Collection.trace_count > 0)
    collection = lock_completed(session, plan.source, filled)
    return collection.id if collection else None


def _produced_collection_of_retried(
    session: Session, run: BenchmarkRun, plan: RunPlan
) -> int | None:
    """The unfinished collection of the retried run, where a model produces the traces.

    Its traces were paid for, so the retried run hands them over instead of having them produced
    again. None when the source produces nothing, or when the retried run is being deleted.
    """
    if not TRACE_SOURCES.get(plan.source).runs_models:
        return None
    # SKIP LOCKED: a run that somebody is deleting is not worth waiting for.
    statement = select(BenchmarkRun).where(BenchmarkRun.id == run.retry_of)
    retried = session.scalars(statement.with_for_update(skip_locked=True)).one_or_none()
    if retried is None or not _reads_the_same(retried, plan):
        return None
    # Moved, not shared: two runs that append to one collection would overwrite each other's
    # positions.
    collection_id, retried.collection_id = retried.collection_id, None
    return collection_id


def _reads_the_same(run: BenchmarkRun, plan: RunPlan) -> bool:
    if run.plan is None:
        return False
    earlier = run.plan
    return (
        run.run_name or earlier.run_name
    ) == plan.run_name and earlier.source_selection == plan.source_selection
