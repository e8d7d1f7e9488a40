"""A trace source that gives out an upload page by page, as the sources do that send requests."""

from collections.abc import Iterator
from dataclasses import dataclass

from mosaico.core.resources import Resources
from mosaico.traces.registry import CollectionFailed, TracePage, TraceQuery
from mosaico.traces.sources.local import find_upload
from mosaico.traces.uploads.queries import read_uploaded_traces


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedSource:
    """The cursor is the position of the next page."""

    resources: Resources
    page_size: int

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        upload = find_upload(self.resources, query)
        position = int(cursor or 0)
        while position < upload.trace_count:
            with self.resources.db.read_statement() as session:
                traces = read_uploaded_traces(session, upload.id, position, self.page_size)
            if not traces:
                raise CollectionFailed("the upload was deleted", code="RUN_NOT_FOUND")
            position += len(traces)
            yield TracePage(
                traces=tuple(traces),
                cursor=str(position) if position < upload.trace_count else None,
                total=upload.trace_count,
                run_name=upload.run_name,
            )
