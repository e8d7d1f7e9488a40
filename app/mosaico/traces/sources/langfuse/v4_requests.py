"""Requests of API v4 that experiments and production traces share: filters, lists, scores and spans."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from mosaico.traces.sources.langfuse.client import LangfuseClient, Parameters, get_meta, get_rows
from mosaico.traces.sources.langfuse.failures import BadResponse, PageTooLarge
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    equals,
    format_time,
    get_text,
    get_time_ms,
    parse_number,
    require_text,
)
from mosaico.traces.sources.langfuse.reader import ExperimentRun, LangfuseDataset
from mosaico.traces.sources.langfuse.usage import ORDER_SLACK_MS, ObservedSpan, parse_span
from mosaico.traces.sources.langfuse.v4_paging import RowPage

SCORES_PER_PAGE: Final = 100
SPANS_PER_PAGE: Final = 1000
SPAN_FIELDS: Final = "core,basic,usage,model,prompt,trace_context"


def filter_parameter(*conditions: JSON) -> str:
    """The value of the parameter `filter`: rows that pass all conditions."""
    return json.dumps(conditions, separators=(",", ":"))


def iter_all(
    client: LangfuseClient, path: str, parameters: Parameters, *, ends_at_loop: bool = False
) -> Iterator[JSON]:
    """All rows of a list by cursor, with half the page size while pages are too large.

    Raises: `BadResponse` when the server repeats a page, unless the rows may end there.
    """
    cursor, limit, seen_cursors = None, int(parameters["limit"] or 1), set[str]()
    while True:
        try:
            document = client.get(path, {**parameters, "cursor": cursor, "limit": limit})
        except PageTooLarge as error:
            if limit == 1:
                raise error.final_error from None
            limit //= 2
            continue
        yield from get_rows(document, f"GET {path}")
        # Only a missing cursor is the end: pages shorter than the limit occur before it.
        cursor = get_text(get_meta(document), "cursor")
        if cursor is None:
            return
        if cursor in seen_cursors and ends_at_loop:
            return
        if cursor in seen_cursors:
            raise BadResponse(f"GET {path} (API v4) returned the same page twice")
        seen_cursors.add(cursor)


def iter_scores(client: LangfuseClient, trace_ids: Sequence[str]) -> Iterator[JSON]:
    """All scores of some traces, on every span and of any time."""
    parameters: Parameters = {
        "traceId": ",".join(trace_ids),
        "fields": "details,subject",
        "limit": SCORES_PER_PAGE,
    }
    return iter_all(client, "/v3/scores", parameters)


def iter_spans(
    client: LangfuseClient, trace_ids: Sequence[str], since_ms: int
) -> Iterator[ObservedSpan]:
    """All spans of some traces that started at `since_ms` or later, without their texts."""
    parameters: Parameters = {
        "filter": filter_parameter(equals("traceId", *trace_ids)),
        "fields": SPAN_FIELDS,
        "fromStartTime": format_time(since_ms),
        "limit": SPANS_PER_PAGE,
    }
    rows = iter_all(client, "/v2/observations", parameters)
    return (span for row in rows if (span := parse_span(row)) is not None)


def parse_experiment(row: JSON, dataset: LangfuseDataset | None) -> ExperimentRun:
    """The run that a row of `/experiments` describes. Raises: `BadResponse`."""
    start, end = get_time_ms(row, "startTime"), get_time_ms(row, "endTime")
    item_count = parse_number(row.get("itemCount"))
    if start is None or item_count is None:
        raise BadResponse(
            "Langfuse returned an experiment without startTime or itemCount; check that langfuseUrl"
            " is the address of a Langfuse server of version 4"
        )
    return ExperimentRun(
        id=require_text(row, "id", "an experiment"),
        name=get_text(row, "name") or "",
        dataset_name=None if dataset is None else dataset.name,
        start=start,
        end=start if end is None else max(end, start),
        item_count=int(item_count),
        dataset_id=get_text(row, "datasetId"),
    )


class CallStream:
    """The model and tool calls of an experiment, read in step with its rows.

    Rows and calls both come newest first, and a call starts after its task. So when all calls since
    the start of a row are read, the calls of that row are complete. Calls of traces whose rows have
    not come yet are kept until then. `start` and `end` limit the start times of the calls, in
    milliseconds since 1970.
    """

    def __init__(self, pages: Iterator[RowPage], *, start: int, end: int) -> None:
        self._pages = pages
        self._start = start
        self._oldest_read = end
        self._unclaimed = defaultdict[str, list[ObservedSpan]](list)

    def read_since(self, start_ms: int) -> None:
        """Read on until every call that started at `start_ms` or later is read.

        Raises: `BadResponse` when the server repeats a page: no count reveals what is missing.
        """
        while self._oldest_read > start_ms - ORDER_SLACK_MS:
            page = next(self._pages, None)
            if page is None:
                self._mark_complete()
                return
            self._store(page)

    def take(self, trace_id: str) -> list[ObservedSpan]:
        """Remove and return the calls of a trace."""
        return self._unclaimed.pop(trace_id, [])

    @property
    def resume_before_ms(self) -> int:
        """Every call that later rows need started before this time.

        A collection that resumes reads the calls again from here, unclaimed ones included.
        """
        # A dictionary keeps the order of insertion, so the first unclaimed call is the newest.
        newest = next((spans[0].start for spans in self._unclaimed.values()), self._oldest_read)
        return max(newest, self._oldest_read) + ORDER_SLACK_MS

    def _store(self, page: RowPage) -> None:
        if page.loop_detected:
            raise BadResponse(
                "Langfuse returned the same page of calls twice, so tokens and costs cannot be"
                " summed; report it to the operator of the server, then retry"
            )
        spans = [span for span in map(parse_span, page.rows) if span is not None]
        for span in spans:
            self._unclaimed[span.trace_id].append(span)
        if not page.remaining:
            self._mark_complete()
        elif page.remaining[0].cursor is None:
            # The next window is untouched, so everything after its end is read.
            self._oldest_read = page.remaining[0].end
        elif spans:
            self._oldest_read = min(span.start for span in spans)

    def _mark_complete(self) -> None:
        self._oldest_read = self._start - ORDER_SLACK_MS
