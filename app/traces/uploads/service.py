"""Writes of uploads."""

import re
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from psycopg.errors import UniqueViolation
from sqlalchemy import delete, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.core.bulk_copy import copy_encoded_file, encode_row
from app.core.errors import ErrorItem, Invalid
from app.core.ids import new_id
from app.jobs.declarations import DropUpload, RecordChange
from app.jobs.queue import enqueue
from app.traces.files.ndjson import BYTE_ORDER_MARK, IgnoredKeys, parse_trace_line
from app.traces.models import LocalDataset
from app.traces.upload_errors import DatasetExists, DuplicateTrace, UploadInFlight
from app.traces.uploads import queries

LOCAL_COLUMNS = ("dataset_id", "position", "trace_id", "line")
_POSITION = struct.Struct(">i")
MEMORY_BYTES = 1024**2


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
