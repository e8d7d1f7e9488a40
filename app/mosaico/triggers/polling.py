"""Polls trace sources for new runs, for the benchmarks with a `newRun` trigger."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.batch_delete import delete_all
from mosaico.core.batches import STATEMENT_ROWS, batched
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import PollSource
from mosaico.jobs.queue import enqueue_once
from mosaico.run_store.rules import TriggerType
from mosaico.runs.source_runs import (
    ListedRun,
    find_evaluated_runs,
    match_names,
    read_dataset_source,
    select_complete_runs,
)
from mosaico.traces.registry import TRACE_SOURCES, SourceRun, TraceQuery
from mosaico.triggers import queries, service
from mosaico.triggers.models import ProcessedSourceRun, SourceSubscription
from mosaico.triggers.queries import SubscriptionKey
from mosaico.triggers.rules import POLL_INTERVAL, RunRequest, digest

# Each poll is enqueued with a savepoint of its own: a thousand in one transaction took two seconds.
POLL_BATCH = 25

# Arrays, because a row of VALUES takes four of the 65,535 parameters of a statement.
_STORE_PROCESSED: Final = text(
    """
    INSERT INTO processed_source_runs (benchmark_id, agent_id, source_run_id, ended_at)
    SELECT :benchmark_id, :agent_id, run.id, run.ended_at
    FROM unnest(CAST(:ids AS text[]), CAST(:ends AS timestamptz[])) AS run (id, ended_at)
    ON CONFLICT (benchmark_id, agent_id, source_run_id) DO UPDATE SET ended_at = excluded.ended_at
    """
)


class PollTarget(NamedTuple):
    """A place to poll for runs; `source_digest` identifies it."""

    subscription: SubscriptionKey
    source: str
    query: TraceQuery
    pattern: str

    @property
    def source_digest(self) -> str:
        query = self.query
        parts = (self.source, query.dataset_ref, query.url, query.public_key)
        return digest(*(part or "" for part in parts))


def enqueue_due_polls(session: Session, now: datetime) -> int:
    """Enqueue a poll for each subscription that no process has polled for `POLL_INTERVAL`.

    Returns: how many were due; if `POLL_BATCH` or more, call again in a new transaction.
    """
    # A subscription per agent and benchmark: the row is what processes lock, and remembers the last
    # poll. Those that are left out are stored by the next call: as many are due then.
    missing = queries.select_missing_subscriptions(STATEMENT_ROWS)
    rows = insert(SourceSubscription).from_select(SubscriptionKey._fields, missing)
    session.execute(rows.on_conflict_do_nothing())
    due = queries.lock_due_subscriptions(session, now - POLL_INTERVAL, POLL_BATCH)
    wanted_keys = queries.list_subscriptions(session, due)
    for key, subscription in due.items():
        if key not in wanted_keys:
            # Deleted, so that a trigger that is turned on again takes a new starting point.
            session.delete(subscription)
        else:
            # Set when the poll is enqueued, so that a slow source is not polled twice at the same
            # time.
            subscription.polled_at = now
            enqueue_once(
                session,
                PollSource(benchmark_id=key.benchmark_id, agent_id=key.agent_id),
                key=f"triggers.poll:{key.benchmark_id}:{key.agent_id}",
            )
    session.flush()
    return len(due)


def find_target(session: Session, key: SubscriptionKey, res: Resources) -> PollTarget | None:
    """The place to poll now; None when the benchmark has no `newRun` trigger any more."""
    benchmark = get_benchmark(session, key.benchmark_id)
    agent = get_agent(session, key.agent_id)
    new_run = benchmark.triggers.new_run
    if new_run is None or benchmark.archived or agent.archived:
        return None
    return make_target(session, key, res, pattern=new_run.pattern)


def make_target(
    session: Session, key: SubscriptionKey, res: Resources, *, pattern: str
) -> PollTarget:
    """The place where the runs of a benchmark's dataset are listed with the keys of an agent."""
    source, query = read_dataset_source(session, key.benchmark_id, key.agent_id, res)
    return PollTarget(key, source, query, pattern)


def list_complete_runs(target: PollTarget, res: Resources) -> list[ListedRun]:
    """The complete runs of the source, oldest first. Network I/O: never call it in a transaction.

    Raises: `CollectionFailed`, `Unavailable`, `NotFound` when the source is not registered.
    """
    return select_complete_runs(list_all_runs(target, res))[::-1]


def list_all_runs(target: PollTarget, res: Resources) -> Sequence[SourceRun]:
    """The runs of the source, newest first, also those that are not complete.

    Raises: as `list_complete_runs`.
    """
    list_runs = TRACE_SOURCES.get(target.source).list_runs
    return list_runs(res, target.query) if list_runs else []


def find_changed_runs(
    session: Session, target: PollTarget, listed: Sequence[ListedRun]
) -> list[ListedRun]:
    """The listed runs with activity since the last poll; none at the first poll of a place."""
    subscription = session.get(SourceSubscription, target.subscription)
    if subscription is None or subscription.source_digest != target.source_digest:
        return []
    processed = queries.find_processed_runs(
        session, target.subscription, [run.id for run in listed]
    )
    return [run for run in listed if is_changed(run, processed)]


def is_changed(listed: ListedRun, earlier: Mapping[str, datetime | None]) -> bool:
    """Return whether a run is new, or has more activity than it had earlier."""
    ended_at = listed.run.ended_at
    if listed.id not in earlier:
        return True
    earlier_end = earlier[listed.id]
    return ended_at is not None and earlier_end is not None and ended_at > earlier_end


def find_newest_runs(
    target: PollTarget, res: Resources, changed: Sequence[ListedRun]
) -> dict[str, SourceRun]:
    """The newest of the runs that share the ID of a changed run, by that ID. Network I/O.

    Raises: as `list_complete_runs`.
    """
    narrow = TRACE_SOURCES.get(target.source).narrow_run
    return {run.id: narrow(res, target.query, run.run) if narrow else run.run for run in changed}


def select_new_runs(
    changed: Iterable[ListedRun],
    newest: Mapping[str, SourceRun],
    earlier: Mapping[str, datetime | None],
) -> list[ListedRun]:
    """The runs that did not exist earlier: with a new ID, or begun after the last activity of theirs."""
    new_runs = []
    for listed_run in changed:
        run, earlier_end = newest[listed_run.id], earlier.get(listed_run.id)
        if earlier_end is None or run.started_at > earlier_end:
            new_runs.append(listed_run.narrowed_to(run))
    return new_runs


def start_new_runs(
    session: Session,
    target: PollTarget,
    listed: Sequence[ListedRun],
    newest: Mapping[str, SourceRun],
    now: datetime,
) -> None:
    """Start one run for each new run of the source; the runs of the first poll are skipped.

    Parameters: `newest` are those of the changed runs.
    """
    # The lock serializes polls of one subscription, so that no run is started twice.
    subscription = session.get(SourceSubscription, target.subscription, with_for_update=True)
    if subscription is None:
        return
    # The first poll of this place: runs that exist already are not news.
    if subscription.source_digest != target.source_digest:
        _delete_processed(session, target.subscription)
        subscription.source_digest = target.source_digest
        _insert_processed(session, target.subscription, listed)
        return
    processed = queries.find_processed_runs(
        session, target.subscription, [run.id for run in listed]
    )
    changed = [run for run in listed if run.id in newest and is_changed(run, processed)]
    new_runs = select_new_runs(changed, newest, processed)
    # Also the runs that do not match: a pattern that is changed later must not start old ones.
    _insert_processed(session, target.subscription, changed)
    matching_runs = match_names(new_runs, target.pattern)
    evaluated = (
        find_evaluated_runs(session, *target.subscription, matching_runs) if matching_runs else ()
    )
    for run in matching_runs:
        if run.id in evaluated:
            continue
        request = RunRequest(*target.subscription, run.selector)
        event = service.record_new_run(session, request, now)
        service.start_runs(session, event, [request], TriggerType.EVENT, now, default_reason="")


def _delete_processed(session: Session, key: SubscriptionKey) -> None:
    is_of_subscription = (ProcessedSourceRun.benchmark_id == key.benchmark_id) & (
        ProcessedSourceRun.agent_id == key.agent_id
    )
    delete_all(session, ProcessedSourceRun, is_of_subscription)


def _insert_processed(session: Session, key: SubscriptionKey, runs: Sequence[ListedRun]) -> None:
    for batch in batched(runs):
        ids, ends = [run.id for run in batch], [run.run.ended_at for run in batch]
        session.execute(_STORE_PROCESSED, {**key._asdict(), "ids": ids, "ends": ends})
    session.flush()
