"""Reads of uploads and their traces."""

from dataclasses import replace

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.core.db import fetch_tuples
from mosaico.core.keyset import (
    BadCursor,
    PageQuery,
    PageRows,
    decode_cursor,
    encode_cursor,
    select_page,
)
from mosaico.core.list_filters import one_value
from mosaico.core.schemas import ListFilter
from mosaico.harness.transcript import parse_transcript
from mosaico.traces.models import LocalDataset, TraceTranscript
from mosaico.traces.stored_traces import COLUMNS, StoredTraces
from mosaico.traces.types import Trace
from mosaico.traces.upload_errors import UploadNotFound

MAX_RUN_NAMES_SHOWN = 10
MAX_OF_AGENT = 3
MAX_PAGE_BYTES = 8 * 1024 * 1024
# What an item and its page do not show, and has no limit that is small.
NOT_READ = frozenset({"error", "url", "tool_calls", "scores"})

_SHOWN_COLUMNS = ", ".join("NULL" if name in NOT_READ else name for name in COLUMNS)
_SIZED_TRACES = """
    SELECT {columns} FROM (
        SELECT *, sum(bytes) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before
        FROM (
            SELECT *, coalesce(octet_length(input), 0) + coalesce(octet_length(expected_output), 0)
                      + coalesce(octet_length(output), 0) + octet_length(tags::text)
                      + coalesce(octet_length(attributes::text), 0) AS bytes
            FROM collected_traces
            WHERE collection_id = (SELECT collection_id FROM local_datasets WHERE id = %(dataset_id)s)
              AND position BETWEEN %(first)s AND %(last)s
        ) AS sized
    ) AS traces
    WHERE bytes_before < %(max_bytes)s
    ORDER BY position
"""
UPLOADED_TRACES = _SIZED_TRACES.format(columns=_SHOWN_COLUMNS)
WHOLE_TRACES = _SIZED_TRACES.format(columns=", ".join(COLUMNS))


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


def list_uploads_for_agent(
    session: Session, name: str, run_name: str | None, agent_id: str | None
) -> list[LocalDataset]:
    """At most two uploads that a run of an agent may read: those of the agent before those that name
    no agent, then newest first.
    """
    statement = select(LocalDataset).where(
        LocalDataset.name == name,
        LocalDataset.agent_id.is_(None) | (LocalDataset.agent_id == agent_id),
    )
    if run_name is not None:
        statement = statement.where(LocalDataset.run_name == run_name)
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


def list_newest_of_agent(session: Session, agent_id: str) -> list[LocalDataset]:
    """The newest uploads of an agent."""
    statement = select(LocalDataset).where(LocalDataset.agent_id == agent_id)
    newest_first = statement.order_by(LocalDataset.created_at.desc(), LocalDataset.id.desc())
    return list(session.scalars(newest_first.limit(MAX_OF_AGENT)))


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
    return select_page(
        session,
        select(LocalDataset),
        keys=[LocalDataset.created_at, LocalDataset.id],
        query=query,
        filters=[
            (LocalDataset.name, one_value(upload_filter.name)),
            (LocalDataset.agent_id, one_value(upload_filter.agent_id)),
        ],
    )


def read_uploaded_traces(session: Session, dataset_id: str, start: int, limit: int) -> StoredTraces:
    """Traces from position `start`, without the columns `NOT_READ`: at most `limit` traces and
    `MAX_PAGE_BYTES`, but at least one.

    None of an upload that was deleted, while some of its traces still exist.
    """
    parameters = {
        "dataset_id": dataset_id,
        "first": start,
        "last": start + limit - 1,
        "max_bytes": MAX_PAGE_BYTES,
    }
    return StoredTraces(fetch_tuples(session, UPLOADED_TRACES, parameters))


def read_whole_traces(
    session: Session, upload: LocalDataset, start: int, limit: int
) -> list[Trace]:
    """As `read_uploaded_traces`, with all that is stored of each trace, and its transcript."""
    parameters = {
        "dataset_id": upload.id,
        "first": start,
        "last": start + limit - 1,
        "max_bytes": MAX_PAGE_BYTES,
    }
    traces = StoredTraces(fetch_tuples(session, WHOLE_TRACES, parameters))
    rows = session.scalars(
        select(TraceTranscript).where(
            TraceTranscript.collection_id == upload.collection_id,
            TraceTranscript.position.between(start, start + len(traces) - 1),
        )
    )
    transcripts = {row.position: parse_transcript(row.transcript) for row in rows}
    return [
        replace(trace, transcript=transcripts.get(position))
        for position, trace in enumerate(traces, start)
    ]


def list_uploaded_traces(session: Session, dataset_id: str, query: PageQuery) -> PageRows[Trace]:
    """The traces of an upload in its order; a page of long texts is shorter than its limit.

    Raises: `NotFound`, `BadCursor`.
    """
    dataset = get_local_dataset(session, dataset_id)
    start = 0
    if query.cursor is not None:
        values = decode_cursor(query.cursor)
        if len(values) != 1 or not isinstance(values[0], int) or values[0] < 0:
            raise BadCursor("the cursor does not belong to this list; start again without a cursor")
        start = values[0]
    traces = list(read_uploaded_traces(session, dataset_id, start, query.limit))
    end = start + len(traces)
    has_more = bool(traces) and end < dataset.trace_count
    return PageRows(traces, encode_cursor([end]) if has_more else None)
