"""The `local` trace source: traces that were uploaded to this service."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from app.core.resources import Resources
from app.traces.files.ndjson import parse_trace
from app.traces.models import LocalDataset
from app.traces.registry import (
    TRACE_SOURCES,
    AmbiguousUpload,
    CollectionFailed,
    RequestEstimate,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from app.traces.uploads import queries

# A page is a transaction of ten statements; MAX_PAGE_BYTES bounds the memory of long lines.
PAGE_SIZE = 2000

# Increase it when the parser reads the same line as a different trace: the revision of an upload
# includes it, so that collections of the older parser are not reused.
PARSER_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """Reads `local_traces`.

    The cursor names the upload and the next position in it, so that a replacement of the upload
    during a run is noticed.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        state = self._resume(cursor) if cursor is not None else self.start(query)
        with ThreadPoolExecutor(1, "parse lines") as parser:
            page: Future[TracePage] | None = None
            while state.position < state.total or page is None:
                lines = self._read_lines(state)
                state = state._replace(position=state.position + len(lines))
                # A page is parsed while the caller stores the one before.
                previous, page = page, parser.submit(_parse_page, lines, state)
                if previous is not None:
                    yield previous.result()
                    # The last page has been read before the one before was stored: without a further
                    # page nothing else would show that the upload was replaced meanwhile.
                    if state.cursor is None:
                        self._require_upload(state)
            yield page.result()

    def _read_lines(self, state: "_ReadState") -> list[str]:
        with self.resources.db.read_statement() as session:
            lines = queries.read_local_lines(session, state.dataset_id, state.position, PAGE_SIZE)
        if not lines and state.position < state.total:
            raise _upload_deleted()
        return lines

    def _require_upload(self, state: "_ReadState") -> None:
        with self.resources.db.read_statement() as session:
            if not queries.read_local_lines(session, state.dataset_id, state.total - 1, 1):
                raise _upload_deleted()

    def _resume(self, cursor: str) -> "_ReadState":
        # The run name comes last, because it can contain colons.
        position, total, dataset_id, run_name = cursor.split(":", 3)
        return _ReadState(dataset_id, int(position), int(total), run_name)

    def start(self, query: TraceQuery) -> "_ReadState":
        """The first position of the upload that a query selects. Raises: `CollectionFailed`."""
        if query.dataset_ref is None:
            raise CollectionFailed(
                "the benchmark has no dataset; set its datasetRef to the name of an upload",
                code="DATASET_NOT_FOUND",
            )
        with self.resources.db.read_statement() as session:
            uploads = queries.list_uploads_for_agent(
                session, query.dataset_ref, query.run_name, query.agent_id
            )
            if not uploads:
                raise _upload_not_found(
                    query, queries.list_newest_uploads(session, query.dataset_ref)
                )
        upload = uploads[0]
        # Whichever came last may be that of another agent, whose answers would be judged as its own.
        if upload.agent_id is None and len(uploads) > 1 and query.is_shared:
            raise _ambiguous_upload(query)
        return _ReadState(upload.id, 0, upload.trace_count, upload.run_name)


class _ReadState(NamedTuple):
    """The position of the next page; the cursor contains all fields."""

    dataset_id: str
    position: int
    total: int
    run_name: str

    @property
    def cursor(self) -> str | None:
        """None when all lines are read."""
        if self.position >= self.total:
            return None
        return f"{self.position}:{self.total}:{self.dataset_id}:{self.run_name}"


def _parse_page(lines: list[str], state: _ReadState) -> TracePage:
    """The page of some lines; `state` is that after them."""
    return TracePage(
        traces=tuple(parse_trace(json.loads(line)) for line in lines),
        cursor=state.cursor,
        total=state.total,
        run_name=state.run_name,
        revision=f"{state.dataset_id}/{PARSER_VERSION}",
    )


def _upload_deleted() -> CollectionFailed:
    return CollectionFailed(
        "the upload was deleted while the run was reading it; upload the traces again"
        " and retry the run",
        code="RUN_NOT_FOUND",
    )


def _ambiguous_upload(query: TraceQuery) -> CollectionFailed:
    return AmbiguousUpload(
        f"several uploads of the dataset {query.dataset_ref!r} name no agent, and the benchmark evaluates"
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


def _has_run(resources: Resources, query: TraceQuery) -> bool:
    """Return whether the named run was uploaded: an upload is there as a whole, or not at all."""
    with resources.db.read_statement() as session:
        uploads = queries.list_uploads_for_agent(
            session, query.dataset_ref or "", query.run_name, query.agent_id
        )
    return bool(uploads)


def _estimate(resources: Resources, query: TraceQuery) -> RequestEstimate:
    """An upload is read from the database of the service: without requests."""
    total = LocalSource(resources=resources).start(query).total
    return RequestEstimate(traces=total, selected=total, requests={}, at_most=False)


TRACE_SOURCES.register(
    "local",
    SourceSpec(
        open=lambda resources: LocalSource(resources=resources),
        has_run=_has_run,
        estimate=_estimate,
    ),
)
