"""Reads of collections and of collected traces."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import Session

from mosaico.core.row_counts import count_selected
from mosaico.harness.transcript import Transcript, parse_transcript
from mosaico.traces.models import (
    CollectedTrace,
    Collection,
    TraceTranscript,
)

# One lookup in the unique index for each ID. With IN, and without statistics of a collection that is just
# being filled, Postgres reads all of its traces for each page, so that their cost grows with the square.
STORED_TRACE_IDS = text(
    """
    SELECT id FROM unnest(CAST(:trace_ids AS text[])) AS id CROSS JOIN LATERAL (
        SELECT FROM collected_traces WHERE collection_id = :collection AND trace_id = id LIMIT 1
    ) AS stored
    """
)


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


def lock_completed(
    session: Session, source: str, condition: ColumnElement[bool]
) -> Collection | None:
    """The oldest complete collection of a source that satisfies the condition.

    Locks: the row, so that the collection is not deleted before the transaction ends.
    """
    statement = (
        select(Collection)
        .where(
            Collection.source == source,
            Collection.completed_at.is_not(None),
            Collection.texts_removed_at.is_(None),
            condition,
        )
        .order_by(Collection.id)
        .limit(1)
    )
    return session.scalars(statement.with_for_update(read=True)).one_or_none()


def lock_for_deletion(session: Session, collection_id: int) -> Collection | None:
    """A collection to delete; None when it is deleted already.

    Locks: the row, so that nobody starts to use the collection before the transaction ends.
    """
    statement = select(Collection).where(Collection.id == collection_id)
    return session.scalars(statement.with_for_update(key_share=True)).one_or_none()


def count_items(session: Session, collection_id: int) -> int:
    """The number of different items of a collection."""
    items = select(CollectedTrace.item_id).where(CollectedTrace.collection_id == collection_id)
    return count_selected(session, items.distinct())


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
