"""Writes of uploads."""

import re

from psycopg.errors import UniqueViolation
from sqlalchemy import delete, func, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.core.bulk_copy import copy_encoded_file
from mosaico.core.dependents import DEPENDENTS, DeletedResource, Dependent, DependentKind
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.ids import new_id
from mosaico.core.row_limits import lift_limit
from mosaico.jobs.declarations import DropTraces, RecordChange
from mosaico.jobs.queue import enqueue
from mosaico.traces.models import Collection, LocalDataset
from mosaico.traces.queries import lock_completed
from mosaico.traces.trace_rows import (
    TRACE_COLUMNS,
    TRANSCRIPT_COLUMNS,
)
from mosaico.traces.trial_numbers import number_stored_trials
from mosaico.traces.upload_errors import (
    DatasetExists,
    DuplicateTrace,
    UploadInFlight,
)
from mosaico.traces.uploads import queries
from mosaico.traces.uploads.encoding import EncodedTraces

# The trace source of uploads.
SOURCE = "local"


# The dataset of a benchmark, and the agent, that the caller sees.
VISIBLE_DATASET = """
    SELECT WHERE mosaico_sees_dataset(:name) AND (CAST(:agent_id AS text) IS NULL OR mosaico_sees_agent(:agent_id))
"""


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
             upload of the same run; `OutsideLimit`; `Invalid` for a repeated traceId or an unknown agent. After any
             error the previous upload is unchanged.
    """
    lift_limit(session, visible=VISIBLE_DATASET, name=name, agent_id=agent_id)
    # An advisory lock, because the row to lock may not exist yet. Without waiting: an upload takes
    # minutes.
    _lock_upload(session, name, run_name, agent_id)
    # Millions of rows: this may exceed the limit that protects requests.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    # In the transaction of the new upload: readers see the old one until it is complete, and keep
    # it if it fails.
    _delete_replaced(session, name, run_name, agent_id, replace=replace)
    summary = traces.summary
    same_traces = (Collection.digest == summary.digest) & Collection.source_run_id.is_(None)
    if traces.redaction is not None:
        # Equal traces may have been stored before the rules: only these count as redacted by them.
        same_traces &= Collection.redaction == traces.redaction
    collection = lock_completed(session, SOURCE, same_traces)
    is_stored = collection is not None
    if collection is None:
        collection = create_collection(session, traces)
    dataset = LocalDataset(
        id=new_id(),
        name=name,
        run_name=run_name,
        agent_id=agent_id,
        collection_id=collection.id,
        trace_count=summary.count,
        size_bytes=size_bytes,
        ignored_keys=list(summary.ignored_keys),
        columns=dict(summary.columns),
    )
    session.add(dataset)
    try:
        session.flush()
    except IntegrityError:
        raise Invalid(
            f"the agent {agent_id!r} does not exist; GET /api/v1/agents lists all agents",
            errors=[ErrorItem(pointer="agentId", detail="is not an agent; create the agent first")],
        ) from None
    if not is_stored:
        copy_traces(session, traces)
        # Where each trace is an item of its own, as in most uploads, there is no trial to number.
        if summary.has_items:
            number_stored_trials(session, collection.id, summary.count)
    session.refresh(dataset)
    change = RecordChange(
        event="dataset-updated", subject=name, run_name=run_name, agent_id=agent_id
    )
    enqueue(session, change)
    return dataset


def delete_local_dataset(session: Session, dataset_id: str) -> None:
    """Delete an upload; its traces remain as long as a run has them."""
    _delete_upload(session, queries.get_local_dataset(session, dataset_id))


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
    _delete_upload(session, previous)


def _delete_upload(session: Session, dataset: LocalDataset) -> None:
    # None when somebody else has deleted it meanwhile.
    statement = delete(LocalDataset).where(LocalDataset.id == dataset.id)
    collection_id = session.scalar(statement.returning(LocalDataset.collection_id))
    if collection_id is not None:
        enqueue(session, DropTraces(collection_id=collection_id))


def create_collection(session: Session, traces: EncodedTraces) -> Collection:
    """The collection of an upload; its rows follow in the same transaction."""
    collection = Collection(
        id=traces.collection_id,
        source=SOURCE,
        query={},
        digest=traces.summary.digest,
        trace_count=traces.summary.count,
        revision=revision_of(traces.collection_id),
        reader=traces.summary.reader,
        redaction=traces.redaction,
        redacted_texts=traces.summary.redacted_texts,
        completed_at=func.now(),
    )
    session.add(collection)
    session.flush()
    return collection


def revision_of(collection_id: int) -> str:
    """The name by which a run finds the collection of an upload."""
    return f"upload/{collection_id}"


def copy_traces(session: Session, traces: EncodedTraces) -> None:
    """Store the rows of an upload. Raises: `DuplicateTrace`."""
    try:
        copy_encoded_file(session, "collected_traces", TRACE_COLUMNS, traces.rows)
        copy_encoded_file(session, "trace_transcripts", TRANSCRIPT_COLUMNS, traces.transcripts)
    except UniqueViolation as error:
        raise DuplicateTrace(
            f"{_describe_duplicate(error)} occurs twice; give each trace a unique ID"
        ) from None


def _describe_duplicate(error: UniqueViolation) -> str:
    match = re.search(r"=\([0-9]+, (.*)\)", error.diag.message_detail or "", re.DOTALL)
    return f"the traceId {match[1]!r}" if match else "a traceId"


def _lock_upload(session: Session, name: str, run_name: str, agent_id: str | None) -> None:
    lock = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 1))")
    if not session.scalar(lock, {"name": f"{name}/{run_name}/{agent_id or ''}"}):
        raise UploadInFlight(
            f"another upload of {name!r}, run {run_name!r}, is in progress; try again after it"
        )


def _find_uploads_of(session: Session, owner: DeletedResource) -> list[Dependent]:
    """The newest uploads of an agent, which keep it: they are its answers."""
    uploads = queries.list_newest_of_agent(session, owner.id)
    return [Dependent("upload", row.id, f"{row.name}/{row.run_name}") for row in uploads]


DEPENDENTS.append(DependentKind({"agent"}, _find_uploads_of))
