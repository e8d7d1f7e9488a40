"""Requests of API v4 that experiments and production traces share: filters, lists, scores and spans."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from app.traces.sources.langfuse.client import LangfuseClient, Parameters, get_meta, get_rows
from app.traces.sources.langfuse.errors import BadResponse, PageTooLarge
from app.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_text,
    get_time_ms,
    parse_number,
    require_text,
)
from app.traces.sources.langfuse.reader import ExperimentRun, LangfuseDataset
from app.traces.sources.langfuse.usage import ObservedSpan, parse_span

SCORES_PER_PAGE: Final = 100
SPANS_PER_PAGE: Final = 1000
SPAN_FIELDS: Final = "core,basic,usage,trace_context"


def equals(column: str, *values: str) -> JSON:
    """A filter on a text column: equal to the value, or to one of several values."""
    # Only the filter with `=` accepts every character: plain parameters are split at commas.
    if len(values) == 1:
        return {"type": "string", "column": column, "operator": "=", "value": values[0]}
    return {
        "type": "stringOptions",
        "column": column,
        "operator": "any of",
        "value": list(values),
    }


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
