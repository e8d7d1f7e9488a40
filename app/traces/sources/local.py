"""Traces that somebody uploaded to this service."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from app.core.resources import Resources
from app.traces import queries
from app.traces.ndjson import parse_trace
from app.traces.registry import TRACE_SOURCES, CollectionFailed, SourceSpec, TracePage, TraceQuery

PAGE_SIZE = 500

# Raised when the same line is read as another trace than before.
PARSER_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """Reads `local_traces`; the cursor names the upload and the next position in it, so that an
    upload that is replaced in the middle of a run is noticed.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        start = self._resume(query, cursor)
        dataset_id, position, total = start.dataset_id, start.position, start.total
        while True:
            with self.resources.db.read() as session:
                page = queries.read_local_lines(session, dataset_id, position, PAGE_SIZE)
            position += len(page)
            done = position >= total
            if not page and not done:
                raise CollectionFailed(
                    "the uploaded traces were deleted while the run was reading them;"
                    " upload them again and retry the run",
                    code="RUN_NOT_FOUND",
                )
            yield TracePage(
                traces=tuple(parse_trace(json.loads(line)) for line in page),
                cursor=None if done else f"{position}:{total}:{dataset_id}:{start.run_name}",
                total=total,
                run_name=start.run_name,
                revision=f"{dataset_id}/{PARSER_VERSION}",
            )
            if done:
                return

    def _resume(self, query: TraceQuery, cursor: str | None) -> "_ReadState":
        if cursor is not None:
            position, total, dataset_id, run_name = cursor.split(":", 3)
            return _ReadState(dataset_id, int(position), int(total), run_name)
        if query.dataset_ref is None:
            raise CollectionFailed(
                "the benchmark names no dataset; set its datasetRef to the name of an upload",
                code="DATASET_NOT_FOUND",
            )
        with self.resources.db.read() as session:
            dataset = queries.find_local_dataset(session, query.dataset_ref, query.run_name)
            known = queries.list_local_run_names(session, query.dataset_ref)
        if dataset is None:
            raise _upload_not_found(query, known)
        return _ReadState(dataset.id, 0, dataset.trace_count, dataset.run_name)


class _ReadState(NamedTuple):
    """Where reading begins; all of it stands in the cursor."""

    dataset_id: str
    position: int
    total: int
    run_name: str


def _upload_not_found(query: TraceQuery, known: list[str]) -> CollectionFailed:
    if not known:
        return CollectionFailed(
            f"nothing was uploaded for the dataset {query.dataset_ref!r};"
            " upload its traces with POST /api/v1/local-datasets?name=…&runName=…, or set the"
            " benchmark's source to where they are",
            code="DATASET_NOT_FOUND",
        )
    return CollectionFailed(
        f"the dataset {query.dataset_ref!r} has no run {query.run_name!r};"
        f" it has {', '.join(known)}",
        code="RUN_NOT_FOUND",
    )


TRACE_SOURCES.register("local", SourceSpec(open=lambda resources: LocalSource(resources=resources)))
