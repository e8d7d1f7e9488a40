"""The `local` trace source: traces that were uploaded to this service."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from mosaico.core.resources import Resources
from mosaico.traces.execution.items import item_of
from mosaico.traces.models import Collection, LocalDataset
from mosaico.traces.redaction import Redactor
from mosaico.traces.registry import (
    TRACE_SOURCES,
    AmbiguousUpload,
    CollectionFailed,
    RequestEstimate,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from mosaico.traces.types import DatasetItem, Trace
from mosaico.traces.uploads import queries
from mosaico.traces.uploads.service import SOURCE, revision_of

PAGE_SIZE = 2000
# With all texts and transcripts.
COPIED_TRACES = 200
# The cursor of the only page, which is not the last one: its collection is elsewhere.
TAKE_OVER = "take-over"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """The traces of an upload are a collection already, which the run takes over by its revision, unless it must redact
    them, or add to them what a version of the dataset says.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        upload = find_upload(self.resources, query)
        with self.resources.db.read_statement() as session:
            collection = session.get(Collection, upload.collection_id)
        if collection is None:
            raise _upload_deleted()
        if collection.texts_removed_at is not None:
            raise _texts_removed(upload, collection.texts_removed_at)
        is_redacted = query.redact is None or query.redact.is_covered_by(collection.redaction)
        if not is_redacted or query.dataset_version is not None:
            redactor = None if is_redacted or query.redact is None else Redactor(query.redact)
            yield from self._copied_pages(upload, redactor, int(cursor or 0))
            return
        yield TracePage(
            traces=(),
            cursor=TAKE_OVER,
            total=upload.trace_count,
            run_name=upload.run_name,
            revision=revision_of(upload.collection_id),
        )
        # Whoever takes the collection over asks for no other page.
        raise _upload_deleted()

    def _copied_pages(
        self, upload: LocalDataset, redactor: Redactor | None, first: int
    ) -> Iterator[TracePage]:
        """The traces of an upload in a collection of their own: from before the rules of the benchmark, or with items of a
        version of their dataset.
        """
        position = 0
        while position < upload.trace_count:
            with self.resources.db.read() as session:
                traces = queries.read_whole_traces(session, upload, position, COPIED_TRACES)
            if not traces:
                raise _upload_deleted()
            # Also those before the first: traces that become equal are numbered from the beginning.
            redacted = tuple(map(redactor.trace, traces) if redactor else traces)
            position += len(traces)
            if position > first:
                yield TracePage(
                    traces=redacted,
                    cursor=str(position) if position < upload.trace_count else None,
                    total=upload.trace_count,
                    run_name=upload.run_name,
                )


def find_upload(resources: Resources, query: TraceQuery) -> LocalDataset:
    """The upload that a query selects. Raises: `CollectionFailed`."""
    if query.dataset_ref is None:
        raise CollectionFailed(
            "the benchmark has no dataset; edit the benchmark and enter the name of an upload as its Dataset (datasetRef)",
            code="DATASET_NOT_FOUND",
        )
    with resources.db.read_statement() as session:
        uploads = queries.list_uploads_for_agent(
            session, query.dataset_ref, query.run_name, query.agent_id
        )
        if not uploads:
            raise _upload_not_found(query, queries.list_newest_uploads(session, query.dataset_ref))
    upload = uploads[0]
    # Whichever came last may be that of another listed agent, whose answers would be judged as its own. Without a list,
    # an upload that names no agent is one for every agent.
    if upload.agent_id is None and len(uploads) > 1 and query.is_shared:
        raise _ambiguous_upload(query)
    return upload


def iter_uploaded_traces(resources: Resources, upload: LocalDataset) -> Iterator[Trace]:
    """The traces of an upload, read page by page. Raises: `CollectionFailed` when it is deleted meanwhile."""
    position = 0
    while position < upload.trace_count:
        with resources.db.read_statement() as session:
            traces = queries.read_uploaded_traces(session, upload.id, position, PAGE_SIZE)
        if not traces:
            raise _upload_deleted()
        yield from traces
        position += len(traces)


def _texts_removed(upload: LocalDataset, removed_at: datetime) -> CollectionFailed:
    return CollectionFailed(
        f"the texts of the upload {upload.run_name!r} were removed on {removed_at:%Y-%m-%d}, when they became as old as"
        " keepTextDays of its benchmarks allows; upload the traces again",
        code="TEXTS_REMOVED",
    )


def _upload_deleted() -> CollectionFailed:
    return CollectionFailed(
        "the upload was deleted or replaced while it was read; retry the run, after another upload of the"
        " traces if there is none",
        code="RUN_NOT_FOUND",
    )


def _ambiguous_upload(query: TraceQuery) -> CollectionFailed:
    return AmbiguousUpload(
        f"several uploads of the dataset {query.dataset_ref!r} name no agent, and the benchmark lists"
        f" other agents too; upload the traces for the agent {query.agent_id!r} (`--agent`, `agentId`), start"
        " the run with the name of its upload (`--run-name`, `runName`), or set `evaluates` of the benchmark"
        " to this agent"
    )


def _upload_not_found(query: TraceQuery, newest: list[LocalDataset]) -> CollectionFailed:
    if not newest:
        return CollectionFailed(
            f"the dataset {query.dataset_ref!r} has no upload; upload its traces under this name"
            " (`mosaico datasets upload`), or set the benchmark's source to the source of its traces",
            code="DATASET_NOT_FOUND",
        )
    return CollectionFailed(
        f"the dataset {query.dataset_ref!r} has no {_wanted(query)}; its newest uploads are"
        f" {', '.join(map(_describe, newest))}",
        code="RUN_NOT_FOUND",
    )


def _wanted(query: TraceQuery) -> str:
    run = "upload" if query.run_name is None else f"run {query.run_name!r}"
    return f"{run} of the agent {query.agent_id!r}" if query.agent_id else run


def _describe(upload: LocalDataset) -> str:
    return f"{upload.run_name} (agent {upload.agent_id})" if upload.agent_id else upload.run_name


def _estimate(resources: Resources, query: TraceQuery) -> RequestEstimate:
    """An upload is read from the database of the service: without requests."""
    total = find_upload(resources, query).trace_count
    return RequestEstimate(traces=total, selected=total, requests={}, at_most=False)


def _list_items(resources: Resources, query: TraceQuery) -> Iterator[DatasetItem]:
    traces = iter_uploaded_traces(resources, find_upload(resources, query))
    return (item for trace in traces if (item := item_of(trace)) is not None)


TRACE_SOURCES.register(
    SOURCE,
    SourceSpec(
        title="uploads",
        open=lambda resources: LocalSource(resources=resources),
        estimate=_estimate,
        list_items=_list_items,
    ),
)
