"""Production traces of API v3: numbered pages of traces, then their observations and scores.

Dataset runs read whole traces by the same requests.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from mosaico.core.ids import is_path_segment
from mosaico.core.strict_json import text_of_json
from mosaico.traces.production import ProductionTraces, ScoreFilter, TraceFilters, item_id_of
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    NumberedPage,
    Parameters,
    fetch_page,
    fetch_page_in_parts,
    get_meta,
    iter_pages,
    quote_segment,
)
from mosaico.traces.sources.langfuse.failures import NotFoundError, PageTooLarge
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_text,
    get_time_ms,
    has_metadata,
    parse_number,
    text_options,
    trace_conditions,
)
from mosaico.traces.sources.langfuse.mapping import (
    RunItem,
    TraceBundle,
    map_malformed_row,
    map_trace,
    select_texts,
)
from mosaico.traces.sources.langfuse.reader import TraceLink, WindowCount, count_part_requests
from mosaico.traces.sources.langfuse.scores import group_by_trace
from mosaico.traces.sources.langfuse.usage import TASK_SPAN_NAME
from mosaico.traces.types import Trace

ROWS_PER_PAGE: Final = 100
MIN_SPLIT_IDS: Final = 1
LONG_FIELDS: Final = ("input", "output", "metadata")
TRACE_FIELDS: Final = "core,io,scores,observations,metrics"
# The environment that SDKs give to runs of experiments.
EXPERIMENT_ENVIRONMENT: Final = "sdk-experiment"
LIST_FIELDS: Final = "core,io,metrics"


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
    """Return whether the writer recorded neither an input nor an output of a trace."""
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
    parameters: Parameters = {
        "filter": json.dumps([text_options(column, "any of", values)]),
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
    if is_root or row.get("name") == TASK_SPAN_NAME or get_text(row, "id") in linked_spans:
        return row
    return {name: value for name, value in row.items() if name not in LONG_FIELDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class V3Window:
    """Reads the traces that pass the filters; runs of experiments are left out by their environment."""

    client: LangfuseClient
    link: TraceLink
    production: ProductionTraces
    reads_scores: bool

    @property
    def lists_ids(self) -> bool:
        return self.production.sample_size is not None

    def iter_batches(
        self, position: JSON | None
    ) -> Iterator[tuple[tuple[Trace, ...], JSON | None]]:
        page_count = int((position or {}).get("pages", 0))
        pages = self._iter_pages(LIST_FIELDS, page_count)
        # A page is handed over when it is known whether another one follows.
        page: list[JSON] | None = next(pages)
        while page is not None:
            following = next(pages, None) or None
            page_count += 1
            traces = {str(row["id"]): row for row in page if self._is_selected(row)}
            bundle = self._fetch_bundle(list(traces), traces)
            malformed = (map_malformed_row(row) for row in page if get_text(row, "id") is None)
            next_position = {"pages": page_count} if following else None
            yield (*self._map(list(traces), bundle), *malformed), next_position
            page = following

    def iter_ids(self) -> Iterator[str]:
        fields = "core,io" if self.production.filters.metadata else "core"
        return (
            str(row["id"])
            for page in self._iter_pages(fields)
            for row in page
            if self._is_selected(row)
        )

    def read_traces(self, trace_ids: Sequence[str]) -> tuple[Trace, ...]:
        return self._map(trace_ids, self._fetch_bundle(trace_ids))

    def count(self) -> WindowCount:
        traces = self._count("/traces", self._parameters("core"))
        exact_window = self.production.exact_window
        since, until = to_parameter(exact_window.from_), to_parameter(exact_window.to)
        spans = self._count("/observations", {"fromStartTime": since, "toStartTime": until})
        window: Parameters = {"fromTimestamp": since, "toTimestamp": until}
        scores = self._count("/v2/scores", window) if self.reads_scores else 0
        # Of all traces of the window: spans and scores have no filter on the fields of a trace.
        every = max(self._count("/traces", window), 1)
        return WindowCount(
            traces=traces, spans=spans * traces // every, scores=scores * traces // every
        )

    def estimate(self, count: WindowCount, selected: int) -> dict[str, int]:
        listed = count_pages(count.traces)
        return {
            "list": listed if self.lists_ids else 0,
            "traces": math.ceil(selected / ROWS_PER_PAGE) if self.lists_ids else listed,
            "spans": count_part_requests(selected, count.spans_per_trace, count_pages),
            "scores": (
                count_part_requests(selected, count.scores_per_trace, count_pages)
                if self.reads_scores
                else 0
            ),
        }

    def _fetch_bundle(
        self, trace_ids: Sequence[str], traces: Mapping[str, JSON] | None = None
    ) -> TraceBundle:
        return fetch_bundle(self.client, trace_ids, traces=traces, reads_scores=self.reads_scores)

    def _count(self, path: str, parameters: Parameters) -> int:
        document = self.client.get(path, {**parameters, "page": 1, "limit": 1})
        return int(parse_number(get_meta(document).get("totalItems")) or 0)

    def _parameters(self, fields: str) -> Parameters:
        window = self.production.exact_window
        return {
            "fromTimestamp": to_parameter(window.from_),
            "toTimestamp": to_parameter(window.to),
            # Oldest first: a late trace moves the others to later pages, where they come again.
            "orderBy": "timestamp.asc",
            "fields": fields,
            "filter": json.dumps([*v3_conditions(self.production.filters)]),
            "limit": ROWS_PER_PAGE,
        }

    def _iter_pages(self, fields: str, skipped: int = 0) -> Iterator[list[JSON]]:
        """The pages of the list after the `skipped` first ones; the last one can be empty."""
        parameters = self._parameters(fields)

        def fetch(number: int) -> NumberedPage:
            page = fetch_page_in_parts(self.client, "/traces", parameters, number + skipped)
            return NumberedPage(page.rows, page.total_pages - skipped)

        for page in iter_pages(fetch, limit=ROWS_PER_PAGE, rows_name="traces"):
            yield page.rows

    def _is_selected(self, row: JSON) -> bool:
        return get_text(row, "id") is not None and has_metadata(
            row, self.production.filters.metadata
        )

    def _map(self, trace_ids: Sequence[str], bundle: TraceBundle) -> tuple[Trace, ...]:
        return tuple(
            self._map_one(trace_id, bundle) for trace_id in trace_ids if trace_id in bundle.traces
        )

    def _map_one(self, trace_id: str, bundle: TraceBundle) -> Trace:
        item = RunItem(item_id=trace_id, trace_id=trace_id, span_id=None)
        trace = map_trace(item, bundle, {}, self.link)
        if has_no_texts(bundle.traces[trace_id]) and trace.input is None and not trace.output:
            input_text, output = select_texts(
                _texts_of_calls(bundle.observations.get(trace_id, ()))
            )
            failed = trace.error is not None
            # Without any text the writer records none, which is not an empty answer.
            trace = replace(trace, input=input_text, output=None if failed else output)
        name = get_text(bundle.traces[trace_id], "name")
        trace = replace(trace, attributes={**trace.attributes, **({"name": name} if name else {})})
        return replace(trace, item_id=item_id_of(self.production.item_key, trace))


def _texts_of_calls(rows: Sequence[JSON]) -> Iterator[tuple[str | None, str | None]]:
    calls = [row for row in rows if row.get("type") == "GENERATION"]
    for call in sorted(calls, key=lambda row: get_time_ms(row, "startTime") or 0):
        yield text_of_json(call.get("input")), text_of_json(call.get("output"))


def to_parameter(time: datetime) -> str:
    return format_time(int(time.timestamp() * 1000))


def v3_conditions(filters: TraceFilters) -> Iterator[JSON]:
    """The conditions on traces; that on metadata lets similar values pass."""
    yield from trace_conditions(
        filters,
        name_column="name",
        match_any=lambda column, values: text_options(column, "any of", values),
    )
    if not filters.environment:
        yield text_options("environment", "none of", [EXPERIMENT_ENVIRONMENT])
    if filters.score is not None:
        yield from _score_conditions(filters.score)


def _score_conditions(score: ScoreFilter) -> Iterator[dict[str, Any]]:
    if score.label is not None:
        yield {
            **text_options("score_categories", "any of", [score.label]),
            "type": "categoryOptions",
            "key": score.name,
        }
    for operator, bound in ((">=", score.min), ("<=", score.max)):
        if bound is not None:
            yield {
                "type": "numberObject",
                "column": "scores_avg",
                "key": score.name,
                "operator": operator,
                "value": bound,
            }
