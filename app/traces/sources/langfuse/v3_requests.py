"""Requests of API v3 that dataset runs and production traces share: traces with all they contain."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from app.traces.sources.langfuse.client import (
    LangfuseClient,
    Parameters,
    is_path_segment,
    quote_segment,
)
from app.traces.sources.langfuse.errors import NotFoundError, PageTooLarge
from app.traces.sources.langfuse.json_fields import JSON
from app.traces.sources.langfuse.mapping import TraceBundle
from app.traces.sources.langfuse.pagination import fetch_page, fetch_page_in_parts, iter_pages
from app.traces.sources.langfuse.scores import group_by_trace
from app.traces.sources.langfuse.usage import TASK_SPAN_NAME

ROWS_PER_PAGE: Final = 100
MIN_SPLIT_IDS: Final = 1
LONG_FIELDS: Final = ("input", "output", "metadata")
TRACE_FIELDS: Final = "core,io,scores,observations,metrics"


def count_pages(rows: float) -> int:
    """The number of requests for a list of so many rows: it ends with a page that is not full."""
    return int(rows // ROWS_PER_PAGE) + 1


def fetch_bundle(
    client: LangfuseClient,
    trace_ids: Sequence[str],
    linked_spans: frozenset[str | None] = frozenset(),
    traces: Mapping[str, JSON] | None = None,
    *,
    reads_scores: bool = True,
) -> TraceBundle:
    """Traces with observations and scores; in halves while the response is too large.

    `traces` are the traces by ID if they are known already.
    """
    try:
        return _fetch_bundle_at_once(
            client, trace_ids, linked_spans, traces, reads_scores=reads_scores
        )
    except PageTooLarge as error:
        if len(trace_ids) <= MIN_SPLIT_IDS:
            raise error.final_error from None
        middle = len(trace_ids) // 2
        first, second = (
            fetch_bundle(client, half, linked_spans, traces, reads_scores=reads_scores)
            for half in (trace_ids[:middle], trace_ids[middle:])
        )
        return first.merge(second)


def _fetch_bundle_at_once(
    client: LangfuseClient,
    trace_ids: Sequence[str],
    linked_spans: frozenset[str | None],
    known_traces: Mapping[str, JSON] | None,
    *,
    reads_scores: bool,
) -> TraceBundle:
    if known_traces is None:
        traces = _fetch_traces(client, trace_ids)
    else:
        traces = {trace_id: known_traces[trace_id] for trace_id in trace_ids}
    if not traces:
        return TraceBundle({}, {}, {})
    observations: dict[str, list[JSON]] = {}
    for row in _iter_filtered(client, "/observations", "traceId", list(traces)):
        trace_id = str(row.get("traceId"))
        # The texts of its calls take the place of those that a trace lacks.
        is_needed = row.get("type") == "GENERATION" and has_no_texts(traces.get(trace_id, {}))
        slim_row = row if is_needed else _drop_long_fields(row, linked_spans)
        observations.setdefault(trace_id, []).append(slim_row)
    if not reads_scores:
        return TraceBundle(traces, observations, {})
    scores = group_by_trace(_iter_filtered(client, "/v2/scores", "traceId", list(traces)))
    return TraceBundle(traces, observations, dict(scores))


def has_no_texts(trace: JSON) -> bool:
    """Whether the writer recorded neither an input nor an output of a trace."""
    return trace.get("input") is None and trace.get("output") is None


def _fetch_traces(client: LangfuseClient, trace_ids: Sequence[str]) -> dict[str, JSON]:
    traces: dict[str, JSON] = {}
    for row in _iter_filtered(client, "/traces", "id", trace_ids, fields=TRACE_FIELDS):
        # Servers before 3.116 ignore `filter` and return other traces too.
        if row.get("id") in trace_ids:
            traces[str(row["id"])] = row
        if len(traces) == len(trace_ids):
            break  # complete: saves the request for the next page
    for trace_id in trace_ids:
        if trace_id not in traces and (trace := _fetch_trace(client, trace_id)) is not None:
            traces[trace_id] = trace
    return traces


def _fetch_trace(client: LangfuseClient, trace_id: str) -> JSON | None:
    """One trace, for servers without `filter` or with a list that lags behind; None if absent."""
    if not is_path_segment(trace_id):
        return None
    try:
        return client.get(f"/traces/{quote_segment(trace_id)}")
    except NotFoundError:
        return None


def _iter_filtered(
    client: LangfuseClient, path: str, column: str, values: Sequence[str], **more: str
) -> Iterator[JSON]:
    """All rows with one of the values in a column."""
    conditions = [
        {"type": "stringOptions", "column": column, "operator": "any of", "value": list(values)}
    ]
    parameters: Parameters = {
        "filter": json.dumps(conditions),
        "limit": ROWS_PER_PAGE,
        **more,
    }
    # With several IDs a too large page is answered by fewer IDs; with one ID by fewer rows.
    fetch = fetch_page if len(values) > MIN_SPLIT_IDS else fetch_page_in_parts
    pages = iter_pages(
        partial(fetch, client, path, parameters),
        limit=ROWS_PER_PAGE,
        rows_name=path.removeprefix("/"),
    )
    for page in pages:
        yield from page.rows


def _drop_long_fields(row: JSON, linked_spans: frozenset[str | None]) -> JSON:
    """An observation without its texts, unless it can be the task; saves most of the memory."""
    is_root = row.get("parentObservationId") is None
    if is_root or row.get("name") == TASK_SPAN_NAME or row.get("id") in linked_spans:
        return row
    return {name: value for name, value in row.items() if name not in LONG_FIELDS}
