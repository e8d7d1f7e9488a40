"""Writes of traces: collections, their pages, and uploaded datasets."""

import dataclasses
import hashlib
import re
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import IO

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb
from sqlalchemy import delete, or_, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.core.batches import batched
from app.core.bulk_copy import copy_encoded_file, copy_rows, encode_row
from app.core.errors import ErrorItem, Invalid
from app.core.ids import new_id
from app.harness.transcript import document_of
from app.jobs.declarations import DropUpload, RecordChange
from app.jobs.queue import enqueue
from app.traces import queries
from app.traces.files.ndjson import BYTE_ORDER_MARK, IgnoredKeys, parse_trace_line
from app.traces.models import CollectedTrace, Collection, LocalDataset, TraceTranscript
from app.traces.registry import TracePage
from app.traces.trial_numbers import number_stored_trials
from app.traces.types import ToolCall, Trace
from app.traces.upload_errors import DatasetExists, DuplicateTrace, UploadInFlight

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
LOCAL_COLUMNS = ("dataset_id", "position", "trace_id", "line")
_POSITION = struct.Struct(">i")
MEMORY_BYTES = 1024**2
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTraces:
    """The validated traces of an upload as rows of `local_traces`; `rows` is at its beginning.

    `ignored_keys` are the first keys of traces that are not used.
    """

    dataset_id: str
    count: int
    rows: IO[bytes]
    ignored_keys: Sequence[str] = ()


@contextmanager
def encode_traces(numbered_lines: Iterable[tuple[int, bytes]]) -> Iterator[EncodedTraces]:
    """Validate the lines of an upload and keep them on disk until the block ends.

    Before the transaction that stores them: parsing millions of lines takes minutes.
    Raises:  `Invalid` with the number of a line that is not a trace, or without any line.
    """
    dataset_id, count, ignored_keys = new_id(), 0, IgnoredKeys()
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as rows:
        for number, line in numbered_lines:
            trace_id = parse_trace_line(line, number, ignored_keys).trace_id
            rows.write(
                encode_row(
                    dataset_id.encode(),
                    _POSITION.pack(count),
                    trace_id.encode(),
                    line.removeprefix(BYTE_ORDER_MARK).strip(),
                )
            )
            count += 1
        if count == 0:
            raise Invalid(
                "the upload has no traces; send one JSON object per line", code="no-traces"
            )
        rows.seek(0)
        yield EncodedTraces(
            dataset_id=dataset_id,
            count=count,
            rows=rows,
            ignored_keys=ignored_keys.names,
        )


def store_local_dataset(
    session: Session,
    name: str,
    run_name: str,
    traces: EncodedTraces,
    *,
    agent_id: str | None = None,
    size_bytes: int,
    replace: bool,
) -> LocalDataset:
    """Store the traces of one run of a dataset.

    Raises:  `Conflict` when the upload exists and `replace` is not set, or during a concurrent
             upload of the same run; `Invalid` for a repeated traceId or an unknown agent. After any
             error the previous upload is unchanged.
    """
    # An advisory lock, because the row to lock may not exist yet. Without waiting: an upload takes
    # minutes.
    _lock_upload(session, name, run_name, agent_id)
    # Millions of rows: this may exceed the limit that protects requests.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    # In the transaction of the new upload: readers see the old one until it is complete, and keep
    # it if it fails.
    _delete_replaced(session, name, run_name, agent_id, replace=replace)
    dataset = LocalDataset(
        id=traces.dataset_id,
        name=name,
        run_name=run_name,
        agent_id=agent_id,
        trace_count=traces.count,
        size_bytes=size_bytes,
        ignored_keys=list(traces.ignored_keys),
    )
    session.add(dataset)
    try:
        session.flush()
    except IntegrityError:
        raise Invalid(
            f"the agent {agent_id!r} does not exist; GET /api/v1/agents lists all agents",
            errors=[ErrorItem(pointer="agentId", detail="is not an agent; create the agent first")],
        ) from None
    _copy_traces(session, traces)
    session.refresh(dataset)
    change = RecordChange(
        event="dataset-updated", subject=name, run_name=run_name, agent_id=agent_id
    )
    enqueue(session, change)
    return dataset


def delete_local_dataset(session: Session, dataset_id: str) -> None:
    """Delete an upload; runs keep their copies of its traces."""
    _delete_upload(session, queries.get_local_dataset(session, dataset_id).id)


def _delete_replaced(
    session: Session, name: str, run_name: str, agent_id: str | None, *, replace: bool
) -> None:
    previous = queries.find_same_upload(session, name, run_name, agent_id)
    if previous is None:
        return
    if not replace:
        raise DatasetExists(
            f"the dataset {name!r} already has an upload for the run {run_name!r}; choose another"
            " runName, or send replace=true"
        )
    _delete_upload(session, previous.id)


def _delete_upload(session: Session, dataset_id: str) -> None:
    session.execute(delete(LocalDataset).where(LocalDataset.id == dataset_id))
    enqueue(session, DropUpload(dataset_id=dataset_id))


def _copy_traces(session: Session, traces: EncodedTraces) -> None:
    try:
        copy_encoded_file(session, "local_traces", LOCAL_COLUMNS, traces.rows)
    except UniqueViolation as error:
        raise DuplicateTrace(
            f"{_describe_duplicate(error)} occurs twice; give each trace a unique ID"
        ) from None


def _describe_duplicate(error: UniqueViolation) -> str:
    match = re.search(r"=\([0-9a-f-]+, (.*)\)", error.diag.message_detail or "", re.DOTALL)
    return f"the traceId {match[1]!r}" if match else "a traceId"


def _lock_upload(session: Session, name: str, run_name: str, agent_id: str | None) -> None:
    lock = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 1))")
    if not session.scalar(lock, {"name": f"{name}/{run_name}/{agent_id or ''}"}):
        raise UploadInFlight(
            f"another upload of {name!r}, run {run_name!r}, is in progress; try again after it"
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
