"""Reads of traces: uploads, collections and collected traces."""

from collections.abc import Sequence

from pydantic import Field
from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import Session

from app.core.db import fetch_tuples
from app.core.keyset import (
    BadCursor,
    PageQuery,
    PageRows,
    decode_cursor,
    encode_cursor,
    select_page,
)
from app.core.list_filters import filter_value
from app.core.schemas import ListFilter
from app.harness.transcript import Transcript, parse_transcript
from app.traces.models import (
    CollectedTrace,
    Collection,
    LocalDataset,
    TraceTranscript,
)
from app.traces.repetition_names import PREFIX
from app.traces.upload_errors import UploadNotFound

MAX_RUN_NAMES_SHOWN = 10
MAX_PAGE_BYTES = 8 * 1024 * 1024

# One lookup in the unique index for each ID. With IN, and without statistics of a collection that is just
# being filled, Postgres reads all of its traces for each page, so that their cost grows with the square.
STORED_TRACE_IDS = text(
    """
    SELECT id FROM unnest(CAST(:trace_ids AS text[])) AS id CROSS JOIN LATERAL (
        SELECT FROM collected_traces WHERE collection_id = :collection AND trace_id = id LIMIT 1
    ) AS stored
    """
)
# By rows: positions are unique, and a range would look for equal ones.
LOCAL_LINES = """
    SELECT line FROM (
        SELECT position, line,
               sum(octet_length(line)) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING)
               - octet_length(line) AS bytes_before
        FROM local_traces
        WHERE dataset_id = %(dataset_id)s AND position BETWEEN %(first)s AND %(last)s
    ) AS lines
    WHERE bytes_before < %(max_bytes)s
      AND EXISTS (SELECT FROM local_datasets WHERE id = %(dataset_id)s)
    ORDER BY position
"""


def find_same_upload(
    session: Session, name: str, run_name: str, agent_id: str | None
) -> LocalDataset | None:
    """The upload that one of the same dataset, run and agent replaces."""
    statement = select(LocalDataset).where(
        LocalDataset.name == name,
        LocalDataset.run_name == run_name,
        LocalDataset.agent_id == agent_id,
    )
    return session.scalars(statement).one_or_none()


def has_attribute(session: Session, collection_id: int, name: str) -> bool:
    """Return whether a trace of a collection has an attribute, or a tag with this prefix."""
    tag = func.unnest(CollectedTrace.tags).column_valued("tag")
    has_tag = select(tag).where(func.starts_with(tag, f"{name}:")).exists()
    statement = select(CollectedTrace.position).where(
        CollectedTrace.collection_id == collection_id,
        CollectedTrace.attributes.has_key(name) | has_tag,
    )
    # All rows are read when none has it.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    return session.scalar(statement.limit(1)) is not None


def list_uploads_for_agent(
    session: Session, name: str, run_name: str | None, agent_id: str | None
) -> list[LocalDataset]:
    """At most two uploads that a run of an agent may read: those of the agent before those that name
    no agent, then newest first. Without a name, repetitions of runs are left out.
    """
    statement = select(LocalDataset).where(
        LocalDataset.name == name,
        LocalDataset.agent_id.is_(None) | (LocalDataset.agent_id == agent_id),
    )
    statement = statement.where(
        ~LocalDataset.run_name.startswith(PREFIX, autoescape=True)
        if run_name is None
        else LocalDataset.run_name == run_name
    )
    order = (
        LocalDataset.agent_id.is_(None),
        LocalDataset.created_at.desc(),
        LocalDataset.id.desc(),
    )
    return list(session.scalars(statement.order_by(*order).limit(2)))


def get_local_dataset(session: Session, dataset_id: str) -> LocalDataset:
    """An upload by ID. Raises: `NotFound`."""
    dataset = session.get(LocalDataset, dataset_id)
    if dataset is None:
        raise UploadNotFound(
            f"the upload {dataset_id!r} does not exist; GET /api/v1/local-datasets lists the uploads"
        )
    return dataset


def list_newest_uploads(session: Session, name: str) -> list[LocalDataset]:
    """The newest uploads of a dataset, of any agent."""
    statement = select(LocalDataset).where(LocalDataset.name == name)
    newest_first = statement.order_by(LocalDataset.created_at.desc())
    return list(session.scalars(newest_first.limit(MAX_RUN_NAMES_SHOWN)))


class UploadFilter(ListFilter):
    """Filter of uploads."""

    name: str | None = Field(default=None, description="Filter by name of the dataset.")
    agent_id: str | None = Field(
        default=None, validation_alias="agentId", description="Filter by agent of the upload."
    )


def list_local_datasets(
    session: Session, query: PageQuery, upload_filter: UploadFilter
) -> PageRows[LocalDataset]:
    """The uploads, newest first."""
    newest = [LocalDataset.created_at, LocalDataset.id]
    filters = [
        *filter_value(LocalDataset.name, upload_filter.name, newest),
        *filter_value(LocalDataset.agent_id, upload_filter.agent_id, newest),
    ]
    return select_page(session, select(LocalDataset), keys=newest, query=query, filters=filters)


def read_local_lines(session: Session, dataset_id: str, start: int, limit: int) -> list[str]:
    """Lines from position `start`: at most `limit` lines and `MAX_PAGE_BYTES`, but at least one.

    None of an upload that was deleted, while some of its lines still exist.
    """
    parameters = {
        "dataset_id": dataset_id,
        "first": start,
        "last": start + limit - 1,
        "max_bytes": MAX_PAGE_BYTES,
    }
    return [line for (line,) in fetch_tuples(session, LOCAL_LINES, parameters)]


def list_local_items(session: Session, dataset_id: str, query: PageQuery) -> PageRows[str]:
    """The lines of an upload in its order; a page of long lines is shorter than its limit.

    Raises: `NotFound`, `BadCursor`.
    """
    dataset = get_local_dataset(session, dataset_id)
    start = 0
    if query.cursor is not None:
        values = decode_cursor(query.cursor)
        if len(values) != 1 or not isinstance(values[0], int) or values[0] < 0:
            raise BadCursor("the cursor does not belong to this list; start again without a cursor")
        start = values[0]
    lines = read_local_lines(session, dataset_id, start, query.limit)
    end = start + len(lines)
    has_more = bool(lines) and end < dataset.trace_count
    return PageRows(lines, encode_cursor([end]) if has_more else None)


def lock_completed(
    session: Session, source: str, condition: ColumnElement[bool]
) -> Collection | None:
    """The oldest complete collection of a source that satisfies the condition.

    Locks: the row, so that the collection is not deleted before the transaction ends.
    """
    statement = (
        select(Collection)
        .where(Collection.source == source, Collection.completed_at.is_not(None), condition)
        .order_by(Collection.id)
        .limit(1)
    )
    return session.scalars(statement.with_for_update(read=True)).one_or_none()


def lock_for_deletion(session: Session, collection_id: int) -> Collection:
    """A collection to delete.

    Locks: the row, so that no run starts to use the collection before the transaction ends.
    """
    statement = select(Collection).where(Collection.id == collection_id)
    return session.scalars(statement.with_for_update(key_share=True)).one()


def count_items(session: Session, collection_id: int) -> int:
    """The number of different items of a collection."""
    items = select(CollectedTrace.item_id).where(CollectedTrace.collection_id == collection_id)
    return session.scalar(select(func.count()).select_from(items.distinct().subquery())) or 0


def count_trials(session: Session, collection_id: int) -> int:
    """Return how often each item of a collection was asked, on average; 0 if it is empty."""
    items = count_items(session, collection_id)
    return round(session.get_one(Collection, collection_id).trace_count / items) if items else 0


def find_stored_trace_ids(
    session: Session, collection_id: int, trace_ids: Sequence[str]
) -> set[str]:
    """The IDs among `trace_ids` that the collection already holds."""
    parameters = {"collection": collection_id, "trace_ids": list(trace_ids)}
    return set(session.scalars(STORED_TRACE_IDS, parameters))


def find_collected_trace(
    session: Session, collection_id: int, trace_id: str
) -> CollectedTrace | None:
    """A collected trace by the ID that its source gave it."""
    statement = select(CollectedTrace).where(
        CollectedTrace.collection_id == collection_id, CollectedTrace.trace_id == trace_id
    )
    return session.scalars(statement).one_or_none()


def find_transcript(session: Session, collection_id: int, position: int) -> Transcript | None:
    """The transcript of a collected trace; None when its source gave none."""
    stored = session.get(TraceTranscript, (collection_id, position))
    return None if stored is None else parse_transcript(stored.transcript)
