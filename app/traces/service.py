import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb
from sqlalchemy import delete, text
from sqlalchemy.orm import Session

from app.core.copy import copy_rows
from app.core.errors import Conflict, Invalid
from app.core.ids import new_id
from app.jobs.queue import enqueue
from app.traces import queries
from app.traces.models import CollectedTrace, Collection, LocalDataset
from app.traces.ndjson import MAX_TRIAL, parse_trace_line
from app.traces.registry import TracePage
from app.traces.types import ToolCall, Trace

COLLECTED_COLUMNS = {
    "collection_id": "int8",
    "position": "int4",
    "trace_id": "text",
    "item_id": "text",
    "trial": "int2",
    "outcome": "text",
    "input": "text",
    "expected_output": "text",
    "output": "text",
    "error": "text",
    "tags": "text[]",
    "url": "text",
    "input_tokens": "int8",
    "output_tokens": "int8",
    "cost_usd": "float8",
    "latency_ms": "float8",
    "tool_calls": "jsonb",
    "turns": "int4",
    "scores": "jsonb",
}
LOCAL_COLUMNS = {"dataset_id": "text", "position": "int4", "trace_id": "text", "line": "text"}

EMPTY_DIGEST = hashlib.sha256().digest()

_NUMBER_TRIALS = text(
    """
    WITH repeated AS (
        SELECT DISTINCT item_id FROM collected_traces WHERE collection_id = :collection
        GROUP BY item_id, trial HAVING count(*) > 1
    ), counted AS (
        SELECT position,
               row_number() OVER (PARTITION BY item_id ORDER BY trial, position) - 1 AS trial
        FROM collected_traces JOIN repeated USING (item_id) WHERE collection_id = :collection
    )
    UPDATE collected_traces AS trace SET trial = least(counted.trial, :most)
    FROM counted
    WHERE trace.collection_id = :collection AND trace.position = counted.position
      AND trace.trial <> counted.trial
    """
)


def create_collection(session: Session, source: str, query: dict[str, str | None]) -> Collection:
    collection = Collection(source=source, query=query, digest=EMPTY_DIGEST)
    session.add(collection)
    session.flush()
    return collection


def store_page(
    session: Session, collection: Collection, page: TracePage, now: datetime
) -> Collection:
    """Append the traces that the collection does not hold yet, and remember where to go on.

    Returns: the collection; or an earlier, complete one that holds the same traces and takes its
             place. That one cannot be dropped before the transaction ends.
    Locks:   the caller holds the run that collects, so nobody else appends.
    """
    if page.revision is not None and collection.trace_count == 0:
        known = Collection.revision == page.revision
        if (earlier := queries.lock_completed(session, collection.source, known)) is not None:
            return earlier
    _append_traces(session, collection, page)
    if page.cursor is not None:
        session.flush()
        return collection
    return _complete_collection(session, collection, now)


def _append_traces(session: Session, collection: Collection, page: TracePage) -> None:
    unique: dict[str, Trace] = {}
    for trace in page.traces:
        unique.setdefault(trace.trace_id, trace)
    known = queries.find_stored_trace_ids(session, collection.id, list(unique))
    fresh = [trace for trace_id, trace in unique.items() if trace_id not in known]
    rows = (
        _collected_row(collection.id, position, trace)
        for position, trace in enumerate(fresh, start=collection.trace_count)
    )
    copy_rows(session, "collected_traces", COLLECTED_COLUMNS, rows)
    collection.trace_count += len(fresh)
    collection.digest = collection.digest and _extend_digest(collection.digest, fresh)
    collection.cursor = page.cursor
    collection.expected_count = collection.expected_count if page.total is None else page.total
    collection.as_of = page.as_of or collection.as_of
    collection.source_run_id = page.run_id or collection.source_run_id
    collection.source_run_at = page.run_at or collection.source_run_at
    collection.revision = page.revision


def _extend_digest(before: bytes, traces: Iterable[Trace]) -> bytes:
    """The digest of some traces and then these: a chain, so that pages may be cut anywhere."""
    digest = before
    for trace in traces:
        digest = hashlib.sha256(digest + repr(trace).encode()).digest()
    return digest


def _complete_collection(session: Session, collection: Collection, now: datetime) -> Collection:
    """Mark a collection as complete, unless an earlier one holds the same traces."""
    if collection.trace_count and collection.digest is not None:
        same = (Collection.digest == collection.digest) & (
            Collection.source_run_id.is_not_distinct_from(collection.source_run_id)
        )
        if (earlier := queries.lock_completed(session, collection.source, same)) is not None:
            return earlier
    collection.completed_at = now
    _number_trials(session, collection)
    session.flush()
    return collection


def delete_positions(
    session: Session, collection_id: int, first_position: int, last_position: int
) -> None:
    """Delete the traces of a stretch of positions, both ends included."""
    session.execute(
        delete(CollectedTrace).where(
            CollectedTrace.collection_id == collection_id,
            CollectedTrace.position.between(first_position, last_position),
        )
    )


def _number_trials(session: Session, collection: Collection) -> None:
    """Where several traces of one item claim the same trial, count them in their order."""
    session.execute(text("SET LOCAL statement_timeout = 0"))
    session.execute(_NUMBER_TRIALS, {"collection": collection.id, "most": MAX_TRIAL})


def store_local_dataset(
    session: Session,
    name: str,
    run_name: str,
    lines: Iterable[bytes],
    *,
    size_bytes: int,
    replace: bool,
) -> LocalDataset:
    """Store the traces of one run of a dataset.

    Raises:  `Conflict` when there are some and `replace` is not set, or when somebody else uploads
             the same at this moment; `Invalid` for no trace at all, or one that comes twice.
             Whatever is raised, by `lines` too, leaves the old upload as it was.
    """
    _lock_upload(session, name, run_name)
    _delete_replaced(session, name, run_name, replace=replace)
    dataset = LocalDataset(
        id=new_id(), name=name, run_name=run_name, trace_count=0, size_bytes=size_bytes
    )
    session.add(dataset)
    session.flush()
    dataset.trace_count = _copy_lines(session, dataset.id, lines)
    if dataset.trace_count == 0:
        raise Invalid(
            "the upload holds no trace; send one JSON object on each line", code="no-traces"
        )
    session.flush()
    session.refresh(dataset)
    enqueue(session, "triggers.on_event", event="dataset-updated", subject=name, run_name=run_name)
    return dataset


def delete_local_dataset(session: Session, dataset_id: str) -> None:
    """Delete an upload; runs keep their own copy of its traces."""
    session.delete(queries.get_local_dataset(session, dataset_id))
    session.flush()


def _delete_replaced(session: Session, name: str, run_name: str, *, replace: bool) -> None:
    before = queries.find_local_dataset(session, name, run_name)
    if before is None:
        return
    if not replace:
        raise Conflict(
            f"traces of {name!r}, run {run_name!r}, were uploaded already;"
            " choose another runName, or send replace=true",
            code="dataset-exists",
        )
    session.execute(delete(LocalDataset).where(LocalDataset.id == before.id))


def _copy_lines(session: Session, dataset_id: str, lines: Iterable[bytes]) -> int:
    session.execute(text("SET LOCAL statement_timeout = 0"))
    try:
        return copy_rows(session, "local_traces", LOCAL_COLUMNS, _local_rows(dataset_id, lines))
    except UniqueViolation as error:
        raise Invalid(
            f"{_describe_duplicate(error)} comes twice; give every trace an id of its own",
            code="duplicate-trace",
        ) from None


def _describe_duplicate(error: UniqueViolation) -> str:
    found = re.search(r"=\([0-9a-f-]+, (.*)\)", error.diag.message_detail or "", re.DOTALL)
    return f"the traceId {found[1]!r}" if found else "a traceId"


def _local_rows(dataset_id: str, lines: Iterable[bytes]) -> Iterator[tuple[object, ...]]:
    """A row for each line that is not blank; raises `Invalid` for one that holds no trace."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            trace = parse_trace_line(line, number)
            yield dataset_id, position, trace.trace_id, line.decode("utf-8-sig").strip()
            position += 1


def _lock_upload(session: Session, name: str, run_name: str) -> None:
    turn = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 1))")
    if not session.scalar(turn, {"name": f"{name}/{run_name}"}):
        raise Conflict(
            f"another upload of {name!r}, run {run_name!r}, is under way; try again after it",
            code="upload-in-flight",
        )


def _collected_row(collection_id: int, position: int, trace: Trace) -> tuple[object, ...]:
    return (
        collection_id,
        position,
        trace.trace_id,
        trace.item_id,
        trace.trial,
        trace.outcome.value,
        trace.input,
        trace.expected_output,
        trace.output,
        trace.error,
        list(trace.tags),
        trace.url,
        trace.input_tokens,
        trace.output_tokens,
        trace.cost_usd,
        trace.latency_ms,
        None if trace.tool_calls is None else Jsonb(list(_tool_calls(trace.tool_calls))),
        trace.turns,
        Jsonb(dict(trace.scores)) if trace.scores else None,
    )


def _tool_calls(calls: Iterable[ToolCall]) -> Iterator[dict[str, object]]:
    return (dataclasses.asdict(call) for call in calls)
