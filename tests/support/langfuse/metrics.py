"""The metrics endpoint: aggregates of the filtered observations in one row, and counts of scores."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tests.support.langfuse.errors import invalid_request
from tests.support.langfuse.filters import all_hold, read_conditions, wanted
from tests.support.langfuse.pagination import newest_first
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.records import JSON, Observation
from tests.support.langfuse.store import Store
from tests.support.langfuse.v4 import OBSERVATION_COLUMNS

# The limit of the real endpoint; without `row_limit` it returns 100 rows.
ROWS_UP_TO: Final = 1000
SCORE_TYPES: Final = {
    "scores-numeric": ("NUMERIC", "BOOLEAN"),
    "scores-categorical": ("CATEGORICAL",),
}

_MEASURES: Final[Mapping[str, Callable[[Observation], float | None]]] = {
    "count": lambda _: 1,
    "latency": lambda span: None if span.latency_s is None else span.latency_s * 1000,
    "inputTokens": lambda span: span.usage.get("input", 0),
    "outputTokens": lambda span: span.usage.get("output", 0),
    "totalTokens": lambda span: span.usage.get("total", sum(span.usage.values())),
    "totalCost": lambda span: span.total_cost,
}


def query_metrics(store: Store, parameters: Parameters) -> JSON:
    """Aggregate the view `observations`, or count scores; dimensions are not supported."""
    text = parameters.required("query")
    parameters.check()
    try:
        query: JSON = json.loads(text)
        since = datetime.fromisoformat(query["fromTimestamp"])
        until = datetime.fromisoformat(query["toTimestamp"])
        metrics = [(metric["measure"], metric["aggregation"]) for metric in query["metrics"]]
    except (KeyError, TypeError, ValueError):
        raise invalid_request(
            "Invalid query: it needs metrics, fromTimestamp and toTimestamp"
        ) from None
    if query.get("dimensions"):
        raise invalid_request("The stand-in aggregates whole views only")
    if query.get("view") in SCORE_TYPES:
        return {"data": [{"count_count": _count_scores(store, query, since, until)}]}
    if query.get("view") != "observations":
        raise invalid_request("Invalid view")
    if (query.get("config") or {}).get("row_limit", 100) > ROWS_UP_TO:
        raise invalid_request("row_limit must be at most 1000")
    spans = _kept(store, query.get("filters") or [], since, until)
    return {"data": [{f"{how}_{what}": _aggregate(spans, what, how) for what, how in metrics}]}


def _count_scores(store: Store, query: JSON, since: datetime, until: datetime) -> str:
    # As a text: the server returns counts in both forms.
    if query.get("filters") or query["metrics"] != [{"measure": "count", "aggregation": "count"}]:
        raise invalid_request("The stand-in counts all scores of a view only")
    scores = newest_first(list(store.all_scores()), since=since, until=until)
    return str(sum(score.data_type in SCORE_TYPES[query["view"]] for score in scores))


def _kept(store: Store, filters: Any, since: datetime, until: datetime) -> list[Observation]:
    parsed_filter = read_conditions(filters, OBSERVATION_COLUMNS)
    if parsed_filter.issues:
        raise invalid_request("; ".join(parsed_filter.issues))
    conditions = parsed_filter.conditions
    sequences = store.observations(wanted(conditions, "type"), wanted(conditions, "experimentId"))
    spans = newest_first(sequences, since=since, until=until)
    # The aggregates see each span once, however often it was ingested.
    unique_spans = {
        (span.trace_id, span.id): span
        for span in spans
        if all_hold(conditions, OBSERVATION_COLUMNS, span)
    }
    return list(unique_spans.values())


def _aggregate(spans: Sequence[Observation], measure: str, how: str) -> float | None:
    if measure not in _MEASURES:
        raise invalid_request(f"Invalid measure: {measure}")
    values = [value for span in spans if (value := _MEASURES[measure](span)) is not None]
    if how in {"count", "sum"}:
        return sum(values)
    if not values:
        return None
    if how.startswith("p") and how[1:].isdecimal():
        # Nearest rank: a value that occurs, so that tests can compare it exactly.
        return sorted(values)[max(math.ceil(int(how[1:]) / 100 * len(values)) - 1, 0)]
    simple = {"avg": sum(values) / len(values), "max": max(values), "min": min(values)}
    if how not in simple:
        raise invalid_request(f"Invalid aggregation: {how}")
    return simple[how]
