"""Writes of collections and their pages."""

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

from sqlalchemy import delete, or_
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.core.bulk_copy import copy_encoded_rows
from mosaico.traces import queries
from mosaico.traces.models import CollectedTrace, Collection, TraceTranscript
from mosaico.traces.reader_versions import reader_of_source
from mosaico.traces.redaction import RedactionRules, count_marked_texts
from mosaico.traces.registry import TracePage
from mosaico.traces.trace_rows import (
    EMPTY_DIGEST,
    TRACE_COLUMNS,
    TRANSCRIPT_COLUMNS,
    EncodedTrace,
    encode_trace,
    extend_digest,
    trace_row,
    transcript_row,
)
from mosaico.traces.trial_numbers import number_stored_trials
from mosaico.traces.types import Trace

# In one COPY: most pages have fewer.
COPIED_TRACES = 1_000


def create_collection(
    session: Session,
    source: str,
    query: dict[str, str | None],
    redaction: RedactionRules | None = None,
) -> Collection:
    """Create an empty collection, whose texts will be redacted by the rules."""
    collection = Collection(
        source=source,
        query=query,
        digest=EMPTY_DIGEST,
        reader=reader_of_source(source),
        redaction=redaction,
        redacted_texts=0,
    )
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
    encoded = [encode_trace(trace) for trace in fresh]
    # None stays None: a digest with a gap must not equal that of another collection.
    digest = collection.digest and reduce(extend_digest, encoded, collection.digest)
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
    _append_traces(session, collection, page, encoded)
    collection.redacted_texts += sum(map(count_marked_texts, fresh))
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
    session: Session,
    collection: Collection,
    page: TracePage,
    encoded: Sequence[EncodedTrace],
) -> None:
    """Append the new traces of a page."""
    positioned = list(enumerate(encoded, start=collection.trace_count))
    for batch in batched(positioned, COPIED_TRACES):
        rows = (trace_row(collection.id, position, trace) for position, trace in batch)
        copy_encoded_rows(session, "collected_traces", TRACE_COLUMNS, rows)
        transcripts = [
            transcript_row(collection.id, position, trace.transcript)
            for position, trace in batch
            if trace.transcript is not None
        ]
        if transcripts:
            copy_encoded_rows(session, "trace_transcripts", TRANSCRIPT_COLUMNS, transcripts)
    collection.trace_count += len(encoded)
    collection.retired_traces += page.retired_traces
    collection.cursor = page.cursor
    collection.expected_count = collection.expected_count if page.total is None else page.total
    collection.dataset_items = page.dataset_items or collection.dataset_items
    collection.as_of = page.as_of or collection.as_of
    collection.source_run_at = page.run_at or collection.source_run_at
    collection.source_warning = page.warning or collection.source_warning
    collection.revision = page.revision


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
