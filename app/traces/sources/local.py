"""The `local` trace source: traces that were uploaded to this service."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from app.core.resources import Resources
from app.traces import queries
from app.traces.ndjson import parse_trace
from app.traces.registry import TRACE_SOURCES, CollectionFailed, SourceSpec, TracePage, TraceQuery

PAGE_SIZE = 500

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
        start = self._resume(query, cursor)
        dataset_id, position, total = start.dataset_id, start.position, start.total
        while True:
            with self.resources.db.read() as session:
                lines = queries.read_local_lines(session, dataset_id, position, PAGE_SIZE)
            position += len(lines)
            done = position >= total
            if not lines and not done:
                raise CollectionFailed(
                    "the upload was deleted while the run was reading it; upload the traces again"
                    " and retry the run",
                    code="RUN_NOT_FOUND",
                )
            yield TracePage(
                traces=tuple(parse_trace(json.loads(line)) for line in lines),
                cursor=None if done else f"{position}:{total}:{dataset_id}:{start.run_name}",
                total=total,
                run_name=start.run_name,
                revision=f"{dataset_id}/{PARSER_VERSION}",
            )
            if done:
                return

    def _resume(self, query: TraceQuery, cursor: str | None) -> "_ReadState":
        if cursor is not None:
            # The run name comes last, because it can contain colons.
            position, total, dataset_id, run_name = cursor.split(":", 3)
            return _ReadState(dataset_id, int(position), int(total), run_name)
        if query.dataset_ref is None:
            raise CollectionFailed(
                "the benchmark names no dataset; set its datasetRef to the name of an upload",
                code="DATASET_NOT_FOUND",
            )
        with self.resources.db.read() as session:
            dataset = queries.find_local_dataset(session, query.dataset_ref, query.run_name)
            run_names = queries.list_local_run_names(session, query.dataset_ref)
        if dataset is None:
            raise _upload_not_found(query, run_names)
        return _ReadState(dataset.id, 0, dataset.trace_count, dataset.run_name)


class _ReadState(NamedTuple):
    """The position of the next page; the cursor contains all fields."""

    dataset_id: str
    position: int
    total: int
    run_name: str


def _upload_not_found(query: TraceQuery, run_names: list[str]) -> CollectionFailed:
    if not run_names:
        return CollectionFailed(
            f"the dataset {query.dataset_ref!r} has no upload; upload its traces with"
            " POST /api/v1/local-datasets?name=…&runName=…, or set the benchmark's source to the"
            " source of its traces",
            code="DATASET_NOT_FOUND",
        )
    return CollectionFailed(
        f"the dataset {query.dataset_ref!r} has no run {query.run_name!r}; its newest runs are"
        f" {', '.join(run_names)}",
        code="RUN_NOT_FOUND",
    )


TRACE_SOURCES.register("local", SourceSpec(open=lambda resources: LocalSource(resources=resources)))
