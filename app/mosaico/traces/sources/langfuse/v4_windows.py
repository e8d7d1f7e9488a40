"""Production traces of API v4: root observations with their texts, then all spans by trace."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mosaico.core.http.threads import run_in_order
from mosaico.traces.production import METADATA_PREFIX, ProductionTraces, ScoreFilter, TraceFilters
from mosaico.traces.sources.langfuse.client import LangfuseClient, Parameters, get_rows
from mosaico.traces.sources.langfuse.failures import BadResponse
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    equals,
    format_time,
    get_text,
    get_time_ms,
    has_metadata,
    normalize_raw_text,
    parse_embedded_json,
    parse_number,
    trace_conditions,
)
from mosaico.traces.sources.langfuse.mapping import (
    is_task_row,
    map_malformed_row,
    map_root,
    select_texts,
)
from mosaico.traces.sources.langfuse.reader import (
    IDS_PER_REQUEST,
    TraceLink,
    WindowCount,
    count_part_requests,
    count_requests,
    split_ids,
)
from mosaico.traces.sources.langfuse.scores import group_by_trace
from mosaico.traces.sources.langfuse.usage import (
    CALL_TYPES,
    ORDER_SLACK_MS,
    group_spans,
    select_agent_spans,
    sum_usage,
)
from mosaico.traces.sources.langfuse.v4_paging import (
    RowPage,
    TimeWindow,
    WindowRows,
    WindowSizer,
    fetch_with_splitting,
    iter_newest_first,
    to_window_rows,
)
from mosaico.traces.sources.langfuse.v4_requests import (
    SCORES_PER_PAGE,
    SPANS_PER_PAGE,
    filter_parameter,
    iter_all,
    iter_scores,
    iter_spans,
)
from mosaico.traces.types import Trace

CONCURRENCY: Final = 4
SCORE_VIEWS: Final = ("scores-numeric", "scores-categorical")
IS_ROOT: Final[JSON] = {
    "type": "boolean",
    # A root has no parent in its trace; the server computes this column.
    "column": "isRootObservation",
    "operator": "=",
    "value": True,
}
# Groups of fields. Texts are by far the largest part of a response, so the list of IDs omits them.
ID_FIELDS: Final = "core"
ROOT_FIELDS: Final = "core,basic,time,io,metadata,trace_context"


@dataclass(frozen=True, slots=True, kw_only=True)
class V4Window:
    """Reads the traces whose root passes the filters; runs of experiments are left out.

    `reads_scores` costs one request for each hundred traces.
    """

    client: LangfuseClient
    link: TraceLink
    production: ProductionTraces
    reads_scores: bool

    @property
    def lists_ids(self) -> bool:
        # The list of observations has no filter on scores.
        return self.production.sample_size is not None or self.production.filters.score is not None

    def iter_batches(
        self, position: JSON | None
    ) -> Iterator[tuple[tuple[Trace, ...], JSON | None]]:
        # A split window leaves several unread parts, which the position stores; without them the
        # whole window is unread.
        windows = [TimeWindow.from_json(window) for window in (position or {}).get("windows", ())]
        for page in self._iter_pages(windows or [self._whole_window], ROOT_FIELDS):
            unread = {"windows": [window.to_json() for window in page.remaining]}
            yield self._map_traces(page.rows), unread if page.remaining else None

    def iter_ids(self) -> Iterator[str]:
        fields = f"{ID_FIELDS},metadata" if self.production.filters.metadata else ID_FIELDS
        if self.production.filters.score is None:
            rows: Iterable[Mapping[str, Any]] = (
                row for page in self._iter_pages([self._whole_window], fields) for row in page.rows
            )
        else:
            scored_ids = sorted({*self._iter_scored_ids(self.production.filters.score)})
            rows = (
                row for chunk in split_ids(scored_ids) for row in self._fetch_roots(chunk, fields)
            )
        return (str(row["traceId"]) for row in rows if is_task_row(row) and self._passes(row))

    def read_traces(self, trace_ids: Sequence[str]) -> tuple[Trace, ...]:
        traces = self._map_traces(list(self._fetch_roots(trace_ids, ROOT_FIELDS)))
        # The server returns the roots by time; a selection is stored in the order of the ranks.
        order = {trace_id: index for index, trace_id in enumerate(trace_ids)}
        return tuple(sorted(traces, key=lambda trace: order.get(trace.trace_id, len(order))))

    def count(self) -> WindowCount:
        conditions = list(filter_conditions(self.production.filters))
        spans = self._count("observations", *conditions)
        roots = self._count("observations", *conditions, IS_ROOT)
        scores = self._count_scores(roots) if self.reads_scores else 0
        # Both counts are taken one after the other, and new spans may arrive in between.
        return WindowCount(traces=roots, spans=max(spans, roots), scores=scores)

    def estimate(self, count: WindowCount, selected: int) -> dict[str, int]:
        has_score_filter = self.production.filters.score is not None
        listed = count_requests(
            count.traces, IDS_PER_REQUEST if has_score_filter else SPANS_PER_PAGE
        )
        # A score is listed, and then read again by its ID.
        scored = 2 * count_requests(count.traces, IDS_PER_REQUEST) if has_score_filter else 0
        return {
            "list": listed + scored if self.lists_ids else 0,
            "traces": math.ceil(selected / IDS_PER_REQUEST) if self.lists_ids else listed,
            "spans": count_part_requests(
                selected,
                count.spans_per_trace,
                partial(count_requests, rows_per_request=SPANS_PER_PAGE),
            ),
            "scores": (
                count_part_requests(
                    selected,
                    count.scores_per_trace,
                    partial(count_requests, rows_per_request=SCORES_PER_PAGE),
                )
                if self.reads_scores
                else 0
            ),
        }

    def _count_scores(self, traces: int) -> int:
        """The scores of so many traces: their share of all traces of the window."""
        # The views of scores have no filter on the fields of a trace.
        scores = sum(self._count(view) for view in SCORE_VIEWS)
        return scores * traces // max(self._count("observations", IS_ROOT), 1)

    def _count(self, view: str, *conditions: JSON) -> int:
        window = self._whole_window
        query = {
            "view": view,
            "metrics": [{"measure": "count", "aggregation": "count"}],
            "filters": conditions,
            "fromTimestamp": format_time(window.start),
            "toTimestamp": format_time(window.end),
        }
        document = self.client.get("/v2/metrics", {"query": json.dumps(query)})
        rows = get_rows(document, "GET /v2/metrics")
        # The server returns counts as numbers or as texts.
        count = parse_embedded_json(rows[0].get("count_count")) if rows else 0
        return int(parse_number(count) or 0)

    @property
    def _whole_window(self) -> TimeWindow:
        window = self.production.exact_window
        return TimeWindow(
            start=int(window.from_.timestamp() * 1000),
            end=int(window.to.timestamp() * 1000),
            limit=SPANS_PER_PAGE,
        )

    def _iter_pages(self, windows: Sequence[TimeWindow], fields: str) -> Iterator[RowPage]:
        pages = iter_newest_first(
            windows,
            lambda window: fetch_with_splitting(window, partial(self._fetch_page, fields=fields)),
            # Not cut into smaller windows: each of them could cost a request that the estimate does
            # not contain.
            sizer=WindowSizer(width_ms=None),
            concurrency=1,
        )
        for page in pages:
            if page.loop_detected:
                raise BadResponse(
                    "Langfuse returned the same page of traces twice; report it to the operator of"
                    " the server, then retry"
                )
            yield page

    def _fetch_page(self, window: TimeWindow, *, fields: str) -> WindowRows:
        parameters = {
            **self._root_parameters(fields),
            **window.parameters(),
        }
        document = self.client.get("/v2/observations", parameters)
        return to_window_rows(document, window, "GET /v2/observations")

    def _fetch_roots(self, trace_ids: Sequence[str], fields: str) -> Iterator[JSON]:
        window = self._whole_window
        parameters = {
            **self._root_parameters(fields, equals("traceId", *trace_ids)),
            **window.parameters(),
        }
        return iter_all(self.client, "/v2/observations", parameters)

    def _root_parameters(self, fields: str, *more: JSON) -> Parameters:
        conditions = filter_conditions(self.production.filters)
        return {
            "isRootObservation": "true",
            "fields": fields,
            # Otherwise long values are cut, and would neither pass a filter nor name an item.
            "expandMetadata": ",".join(_read_metadata(self.production)) or None,
            "filter": filter_parameter(*conditions, *more),
        }

    def _passes(self, row: Mapping[str, Any]) -> bool:
        return has_metadata(row, self.production.filters.metadata)

    def _iter_scored_ids(self, score: ScoreFilter) -> Iterator[str]:
        """The IDs of the traces with such a score now.

        The filter by value also finds earlier values of a changed score, so they are read again.
        """
        window = self.production.exact_window
        parameters: Parameters = {
            "name": score.name,
            **_score_values(score),
            "fields": "subject",
            "fromTimestamp": format_time(int(window.from_.timestamp() * 1000)),
            "limit": 100,
        }
        listed_scores = iter_all(self.client, "/v3/scores", parameters)
        score_ids = sorted({score_id for row in listed_scores if (score_id := get_text(row, "id"))})
        for chunk in split_ids(score_ids):
            current: Parameters = {"id": ",".join(chunk), "fields": "subject", "limit": 100}
            rows = iter_all(self.client, "/v3/scores", current)
            yield from group_by_trace(row for row in rows if _has_value(row, score))

    def _map_traces(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Trace, ...]:
        roots = select_roots(row for row in rows if is_task_row(row) and self._passes(row))
        tasks = (
            partial(self._map_chunk, [roots[trace_id] for trace_id in chunk])
            for chunk in split_ids(list(roots))
        )
        chunks = run_in_order(tasks, concurrency=CONCURRENCY)
        malformed = (map_malformed_row(row) for row in rows if not is_task_row(row))
        return *(trace for traces in chunks for trace in traces), *malformed

    def _map_chunk(self, roots: Sequence[Mapping[str, Any]]) -> list[Trace]:
        trace_ids = [str(root["traceId"]) for root in roots]
        # The clocks of two services differ: a span may start before its root.
        since = min(get_time_ms(root, "startTime") or 0 for root in roots) - ORDER_SLACK_MS
        spans = group_spans(iter_spans(self.client, trace_ids, since))
        scores = group_by_trace(iter_scores(self.client, trace_ids) if self.reads_scores else ())
        texts = {str(root["traceId"]): _texts(root) for root in roots}
        # Only traces without any text need the texts of their calls, which cost one more request.
        silent_ids = [trace_id for trace_id, pair in texts.items() if pair == (None, None)]
        if silent_ids:
            texts |= self._fetch_texts_of_calls(silent_ids, since)
        return [
            map_root(
                root,
                texts[trace_id],
                sum_usage(
                    [
                        span
                        for span in select_agent_spans(spans.get(trace_id, ()))
                        if span.type in CALL_TYPES
                    ]
                ),
                scores.get(trace_id, ()),
                self.link,
                self.production.item_key,
            )
            for trace_id, root in zip(trace_ids, roots, strict=True)
        ]

    def _fetch_texts_of_calls(
        self, trace_ids: Sequence[str], since: int
    ) -> dict[str, tuple[str | None, str | None]]:
        """The first input and the last output of the models of each trace.

        Some writers put the texts of a trace on attributes that API v4 does not keep.
        """
        parameters: Parameters = {
            "filter": filter_parameter(equals("traceId", *trace_ids), equals("type", "GENERATION")),
            "fields": "core,io",
            "fromStartTime": format_time(since),
            "limit": SPANS_PER_PAGE,
        }
        calls: dict[str, list[tuple[str | None, str | None]]] = {name: [] for name in trace_ids}
        rows = iter_all(self.client, "/v2/observations", parameters)
        for row in sorted(rows, key=lambda row: get_time_ms(row, "startTime") or 0):
            # By start time: the first input and the last output are selected.
            calls.setdefault(str(row.get("traceId")), []).append(_texts(row))
        return {trace_id: select_texts(texts) for trace_id, texts in calls.items()}


def filter_conditions(filters: TraceFilters) -> Iterator[JSON]:
    """The conditions on root observations; that on metadata lets similar values pass."""
    # Items of experiments are measured as runs of a dataset, and are not production traces.
    yield {"type": "null", "column": "experimentId", "operator": "is null", "value": ""}
    yield from trace_conditions(
        filters,
        name_column="traceName",
        match_any=lambda column, values: equals(column, *values),
    )


def select_roots(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """One root by trace ID: the newest version of the first span, without a parent if there is one."""
    roots: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        trace_id = str(row["traceId"])
        if trace_id not in roots or _root_order(row) < _root_order(roots[trace_id]):
            roots[trace_id] = row
    return roots


def _root_order(row: Mapping[str, Any]) -> tuple[bool, int, int]:
    # A span that was exported twice is there twice until the server has merged it.
    return (
        get_text(row, "parentObservationId") is not None,
        get_time_ms(row, "startTime") or 0,
        -(get_time_ms(row, "updatedAt") or 0),
    )


def _texts(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    return normalize_raw_text(row.get("input")), normalize_raw_text(row.get("output"))


def _read_metadata(production: ProductionTraces) -> list[str]:
    """The metadata keys whose values count."""
    keys = {*production.filters.metadata}
    if (item_key := production.item_key) and item_key.startswith(METADATA_PREFIX):
        keys.add(item_key.removeprefix(METADATA_PREFIX))
    # The parameter is a list separated by commas, so a key with a comma cannot be named in it.
    return sorted(key for key in keys if "," not in key)


def _score_values(score: ScoreFilter) -> dict[str, str | int | None]:
    if score.label is not None:
        return {"dataType": "CATEGORICAL", "value": score.label}
    bounds = {"valueMin": score.min, "valueMax": score.max}
    limits = {name: repr(bound) for name, bound in bounds.items() if bound is not None}
    return {"dataType": "NUMERIC", **limits}


def _has_value(row: Mapping[str, Any], score: ScoreFilter) -> bool:
    value = row.get("value")
    if score.label is not None:
        return value == score.label
    return isinstance(value, int | float) and (
        (score.min is None or value >= score.min) and (score.max is None or value <= score.max)
    )
