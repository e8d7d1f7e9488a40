"""Writes of collections and their pages."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from psycopg.types.json import Jsonb
from sqlalchemy import delete, or_
from sqlalchemy.orm import Session

from app.core.batches import batched
from app.core.bulk_copy import copy_rows
from app.harness.transcript import document_of
from app.traces import queries
from app.traces.models import CollectedTrace, Collection, TraceTranscript
from app.traces.registry import TracePage
from app.traces.trial_numbers import number_stored_trials
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
    "attributes": "jsonb",
    "url": "text",
    "input_tokens": "int8",
    "output_tokens": "int8",
    "cost_usd": "float8",
    "latency_ms": "float8",
    "tool_calls": "jsonb",
    "turns": "int4",
    "scores": "jsonb",
}
TRANSCRIPT_COLUMNS = {"collection_id": "int8", "position": "int4", "transcript": "jsonb"}
# In one COPY: most pages have fewer.
COPIED_TRACES = 1_000

# The fields that make a trace what it is: all but its transcript. The text of a tuple is made in C, that of a
# dataclass in Python.
_identity_of = attrgetter(*(field.name for field in dataclasses.fields(Trace) if field.compare))

# The digest of a collection without traces.
EMPTY_DIGEST = hashlib.sha256().digest()


def create_collection(session: Session, source: str, query: dict[str, str | None]) -> Collection:
    """Create an empty collection."""
    collection = Collection(source=source, query=query, digest=EMPTY_DIGEST)
    session.add(collection)
    session.flush()
    return collection


def store_page(
    session: Session, collection: Collection, page: TracePage, now: datetime
) -> Collection:
    """Append the new traces of a page to the collection, and store the cursor.

    Returns: the collection; or an earlier complete collection with the same traces, which replaces
             it and cannot be deleted before the transaction ends.
    Locks:   the caller holds the lock of the run, so no other process appends.
    """
    fresh = _new_traces(session, collection, page)
    # None stays None: a digest with a gap must not equal that of another collection.
    digest = collection.digest and _extend_digest(collection.digest, fresh)
    run_id = page.run_id or collection.source_run_id
    same_traces = []
    # On the first page only: afterwards traces of this collection are stored already.
    if page.revision is not None and collection.trace_count == 0:
        same_traces.append(Collection.revision == page.revision)
    is_complete = page.cursor is None
    if is_complete and digest is not None and (fresh or collection.trace_count):
        same_run = Collection.source_run_id.is_not_distinct_from(run_id)
        same_traces.append((Collection.digest == digest) & same_run)
    # In one statement: most collections have one page, the first and the last one.
    if same_traces:
        earlier = queries.lock_completed(session, collection.source, or_(*same_traces))
        if earlier is not None:
            return earlier
    _append_traces(session, collection, page, fresh)
    collection.digest, collection.source_run_id = digest, run_id
    if is_complete:
        # Only now may later runs take it over.
        collection.completed_at = now
        # A collection of one page, as most are, is known here without a statement.
        if len(fresh) < collection.trace_count or _has_repeated_trials(fresh):
            number_stored_trials(session, collection.id, collection.trace_count)
    session.flush()
    return collection


def _new_traces(session: Session, collection: Collection, page: TracePage) -> list[Trace]:
    """The traces of a page that the collection does not hold."""
    # Sources repeat rows within a page and across pages, also after a resume; the first one counts.
    unique: dict[str, Trace] = {}
    for trace in page.traces:
        unique.setdefault(trace.trace_id, trace)
    stored_ids: set[str] = set()
    if collection.trace_count:
        stored_ids = queries.find_stored_trace_ids(session, collection.id, list(unique))
    return [trace for trace_id, trace in unique.items() if trace_id not in stored_ids]


def _append_traces(
    session: Session, collection: Collection, page: TracePage, fresh: Sequence[Trace]
) -> None:
    """Append the new traces of a page."""
    positioned = list(enumerate(fresh, start=collection.trace_count))
    for batch in batched(positioned, COPIED_TRACES):
        rows = (_collected_row(collection.id, position, trace) for position, trace in batch)
        copy_rows(session, "collected_traces", COLLECTED_COLUMNS, rows)
        transcripts = [
            (collection.id, position, Jsonb(document_of(trace.transcript)))
            for position, trace in batch
            if trace.transcript is not None
        ]
        if transcripts:
            copy_rows(session, "trace_transcripts", TRANSCRIPT_COLUMNS, transcripts)
    collection.trace_count += len(fresh)
    collection.cursor = page.cursor
    collection.expected_count = collection.expected_count if page.total is None else page.total
    collection.dataset_items = page.dataset_items or collection.dataset_items
    collection.as_of = page.as_of or collection.as_of
    collection.source_run_at = page.run_at or collection.source_run_at
    collection.source_warning = page.warning or collection.source_warning
    collection.revision = page.revision


def _extend_digest(digest: bytes, traces: Iterable[Trace]) -> bytes:
    """Extend a digest by traces one by one, so that the result does not depend on the pages."""
    for trace in traces:
        # Chained, so that it can be extended page by page and the order of the traces counts.
        digest = hashlib.sha256(digest + repr(_identity_of(trace)).encode()).digest()
    return digest


def _has_repeated_trials(traces: Sequence[Trace]) -> bool:
    return len({(trace.item_id, trace.trial) for trace in traces}) < len(traces)


def delete_positions(
    session: Session, collection_id: int, first_position: int, last_position: int
) -> None:
    """Delete the traces in a range of positions, both ends included, with their transcripts."""
    for table in (TraceTranscript, CollectedTrace):
        session.execute(
            delete(table).where(
                table.collection_id == collection_id,
                table.position.between(first_position, last_position),
            )
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
        Jsonb(dict(trace.attributes)) if trace.attributes else None,
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
