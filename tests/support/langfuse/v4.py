"""The read endpoints of API v4."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from tests.support.langfuse.errors import not_found
from tests.support.langfuse.filters import Condition, all_hold, wanted
from tests.support.langfuse.json_v4 import (
    dataset_json,
    item_json,
    moment,
    observation_json,
    row_json,
    score_json,
)
from tests.support.langfuse.pagination import encode_cursor, newest_first, page_meta, take_page
from tests.support.langfuse.parameters import Parameters, cursor_key
from tests.support.langfuse.records import JSON, Key, Observation, Score
from tests.support.langfuse.store import ExperimentSummary, ExperimentWindow, Store

SCORES_LIE_WITHIN: Final = timedelta(days=1)
EXPERIMENT_GROUPS: Final = ("core", "metadata", "scores")
ROW_GROUPS: Final = (
    *("core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores"),
)
OBSERVATION_GROUPS: Final = (
    *("core", "basic", "time", "io", "metadata", "model", "usage", "prompt", "metrics"),
    "trace_context",
)

_EXPERIMENT_COLUMNS: Final[Mapping[str, Callable[[ExperimentSummary], Any]]] = {
    "id": lambda summary: summary.id,
    "name": lambda summary: summary.name,
    "datasetId": lambda summary: summary.dataset_id,
}


def _member(name: str) -> Callable[[Observation], Any]:
    return lambda span: None if span.experiment is None else getattr(span.experiment, name)


_ROW_COLUMNS: Final[Mapping[str, Callable[[Observation], Any]]] = {
    "experimentId": _member("experiment_id"),
    "experimentName": _member("experiment_name"),
    "experimentItemId": _member("item_id"),
    "datasetId": _member("dataset_id"),
}

OBSERVATION_COLUMNS: Final[Mapping[str, Callable[[Observation], Any]]] = {
    "id": lambda span: span.id,
    "type": lambda span: span.type,
    "name": lambda span: span.name,
    "traceId": lambda span: span.trace_id,
    "parentObservationId": lambda span: span.parent_id,
    "startTime": lambda span: span.start,
    "endTime": lambda span: span.end,
    "environment": lambda span: span.environment,
    "level": lambda span: span.level,
    "statusMessage": lambda span: span.status_message,
    "version": lambda span: span.version,
    "release": lambda span: span.release,
    "userId": lambda span: span.user_id,
    "sessionId": lambda span: span.session_id,
    "isRootObservation": lambda span: span.is_root,
    "traceName": lambda span: span.trace_name,
    "tags": lambda span: span.tags,
    "model": lambda span: span.model,
    "latency": lambda span: span.latency_s,
    "totalCost": lambda span: span.total_cost,
    "metadata": lambda span: span.metadata,
    "experimentId": _member("experiment_id"),
    "experimentName": _member("experiment_name"),
    "experimentDatasetId": _member("dataset_id"),
}


def list_datasets(store: Store, parameters: Parameters) -> JSON:
    page = parameters.number("page", default=1, least=1)
    limit = parameters.number("limit", default=50, least=1, most=100)
    parameters.check()
    page_rows = list(store.datasets.values())[(page - 1) * limit : page * limit]
    return {
        "data": [dataset_json(dataset) for dataset in page_rows],
        "meta": page_meta(page, limit, len(store.datasets)),
    }


def get_dataset(store: Store, parameters: Parameters, name: str) -> JSON:
    parameters.check()
    if name not in store.datasets:
        raise not_found("Dataset not found")
    return dataset_json(store.datasets[name])


def list_items(store: Store, parameters: Parameters) -> JSON:
    page = parameters.number("page", default=1, least=1)
    limit = parameters.number("limit", default=50, least=1, most=100)
    name, version = parameters.text("datasetName"), parameters.moment("version")
    parameters.check()
    if name is None or name not in store.datasets:
        raise not_found("Dataset not found")
    dataset = store.datasets[name]
    item_page = dataset.active_page(version, page, limit)
    return {
        "data": [item_json(dataset, item) for item in item_page.items],
        "meta": page_meta(page, limit, item_page.total),
    }


def get_item(store: Store, parameters: Parameters, item_id: str) -> JSON:
    parameters.check()
    for dataset in store.datasets.values():
        item = dataset.find(item_id)
        if item is not None and item.deleted_at is None:
            return item_json(dataset, item)
    raise not_found("Dataset item not found")


def list_experiments(store: Store, parameters: Parameters) -> JSON:
    groups = parameters.groups(EXPERIMENT_GROUPS, ["core"])
    limit = parameters.number("limit", default=50, least=1, most=100)
    score_limit = parameters.number("scoreLimit", default=50, least=1, most=50)
    since = parameters.moment("fromStartTime", required=True)
    until = parameters.moment("toStartTime")
    conditions = parameters.conditions(_EXPERIMENT_COLUMNS) + _list_conditions(
        parameters, _EXPERIMENT_COLUMNS
    )
    after = cursor_key(parameters.cursor(), "lastTime")
    parameters.check()
    assert since is not None
    for summary in store.summaries():
        if all_hold(conditions, _EXPERIMENT_COLUMNS, summary):
            # Every read of a matching run makes the next share of its
            # items visible, as ingestion goes on.
            summary.count_read(since)
    summaries = [
        summary
        for summary in store.summaries()
        if all_hold(conditions, _EXPERIMENT_COLUMNS, summary)
        and _newest(summary, since, until) is not None
    ]
    summaries.sort(key=lambda summary: _order(summary, since, until), reverse=True)
    later_summaries = (
        summary for summary in summaries if after is None or _order(summary, since, until) < after
    )
    page = take_page(later_summaries, store.page_size(limit))
    data = [
        _summary_json(store, summary, groups, since, until, score_limit) for summary in page.rows
    ]
    meta = {"cursor": _summary_cursor(page.rows[-1], since, until)} if page.has_more else {}
    return {"data": data, "meta": meta}


def _newest(
    summary: ExperimentSummary, since: datetime, until: datetime | None
) -> Observation | None:
    return next(summary.spans.within(since, summary.spans.bound(until)), None)


def _order(
    summary: ExperimentSummary, since: datetime, until: datetime | None
) -> tuple[datetime, str]:
    newest = _newest(summary, since, until)
    assert newest is not None
    return newest.start, summary.id


def _summary_cursor(summary: ExperimentSummary, since: datetime, until: datetime | None) -> str:
    at, experiment_id = _order(summary, since, until)
    return encode_cursor(
        {
            "v": 1,
            "lastTime": at.isoformat(),
            "lastTraceId": "",
            "lastId": experiment_id,
            "lastExperimentId": experiment_id,
        }
    )


def _summary_json(
    store: Store,
    summary: ExperimentSummary,
    groups: frozenset[str],
    since: datetime,
    until: datetime | None,
    score_limit: int,
) -> JSON:
    window = summary.window(since, until)
    assert isinstance(window, ExperimentWindow)
    answer: JSON = {
        "id": summary.id,
        "name": summary.name,
        "description": summary.description,
        "startTime": moment(window.start),
        "endTime": moment(window.end),
        "itemCount": window.items,
        "datasetId": summary.dataset_id,
    }
    if "metadata" in groups:
        answer["metadata"] = dict(summary.metadata)
    if "scores" in groups:
        near = _scores_near(store.run_scores([summary.id]), window.end, window.end)
        answer["scores"] = [score_json(score, _SUBJECT) for score in near][:score_limit]
    return answer


_SUBJECT: Final = frozenset({"subject"})


def list_rows(store: Store, parameters: Parameters) -> JSON:
    store.release_scores()
    groups = parameters.groups(ROW_GROUPS, ["core", "dataset"])
    limit = parameters.number("limit", default=50, least=1, most=100)
    score_limit = parameters.number("scoreLimit", default=50, least=1, most=50)
    since = parameters.moment("fromStartTime", required=True)
    until = parameters.moment("toStartTime")
    conditions = parameters.conditions(_ROW_COLUMNS) + _list_conditions(parameters, _ROW_COLUMNS)
    after = cursor_key(parameters.cursor(), "lastTime")
    parameters.check()
    ids = wanted(conditions, "experimentId")
    sequences = [summary.rows for summary in store.summaries() if ids is None or summary.id in ids]
    rows = newest_first(sequences, since=since, until=until, after=after)
    matching_rows = (row for row in rows if all_hold(conditions, _ROW_COLUMNS, row))
    page = take_page(matching_rows, store.page_size(limit))
    data = [row_json(row, groups) for row in page.rows]
    if "scores" in groups and page.rows:
        for row, answer in zip(page.rows, data, strict=True):
            # The window is that of the page, not of the row: a late score
            # appears on one page and not on another.
            near = _scores_of_row(store, row, page.rows[-1].start, page.rows[0].start)
            answer["scores"] = [score_json(score, _SUBJECT) for score in near][:score_limit]
    meta = {"cursor": _row_cursor(page.rows[-1])} if page.has_more else {}
    return {"data": data, "meta": meta}


def _scores_of_row(
    store: Store, row: Observation, oldest: datetime, newest: datetime
) -> Iterator[Score]:
    """Scores of the trace and of the row, without corrections, near the page in time."""
    for score in _scores_near(store.scores_of_traces([row.trace_id]), oldest, newest):
        if score.observation_id in (None, row.id) and score.data_type != "CORRECTION":
            yield score


def _scores_near(scores: Iterable[Score], oldest: datetime, newest: datetime) -> Iterator[Score]:
    first, last = oldest - SCORES_LIE_WITHIN, newest + SCORES_LIE_WITHIN
    return (score for score in scores if first <= score.timestamp <= last)


def _row_cursor(row: Observation) -> str:
    assert row.experiment is not None
    return encode_cursor(
        {
            "v": 1,
            "lastTime": row.start.isoformat(),
            "lastTraceId": row.trace_id,
            "lastId": row.id,
            "lastExperimentId": row.experiment.experiment_id,
        }
    )


def list_observations(store: Store, parameters: Parameters) -> JSON:
    # The only v4 list that ignores an unknown group; the others refuse it.
    groups = parameters.groups(OBSERVATION_GROUPS, ["core", "basic"], strict=False)
    # The only list that accepts a limit of 0: Langfuse answers it with an empty page.
    limit = parameters.number("limit", default=50, least=0, most=1000)
    if parameters.truth("parseIoAsJson"):
        parameters.refuse("parseIoAsJson=true is no longer supported", "parseIoAsJson")
    since, until = parameters.moment("fromStartTime"), parameters.moment("toStartTime")
    conditions = _observation_conditions(parameters)
    after = cursor_key(parameters.cursor(), "lastStartTimeTo")
    expanded = parameters.texts("expandMetadata") or ()
    parameters.check()
    spans = _find_observations(store, conditions, since, until, after)
    page = take_page(spans, store.page_size(limit))
    data = [observation_json(span, groups, expanded) for span in page.rows]
    more = page.has_more and bool(page.rows)
    return {"data": data, "meta": {"cursor": _span_cursor(page.rows[-1])} if more else {}}


def _find_observations(
    store: Store,
    conditions: tuple[Condition, ...],
    since: datetime | None,
    until: datetime | None,
    after: Key | None,
) -> Iterator[Observation]:
    traces = wanted(conditions, "traceId")
    if traces is None:
        sequences = list(
            store.observations(wanted(conditions, "type"), wanted(conditions, "experimentId"))
        )
    else:
        sequences = [store.sorted_observations(traces)]
    records = newest_first(sequences, since=since, until=until, after=after)
    return (span for span in records if all_hold(conditions, OBSERVATION_COLUMNS, span))


def _observation_conditions(parameters: Parameters) -> tuple[Condition, ...]:
    """The filter conditions, and plain parameters on columns outside the filter."""
    listed = parameters.conditions(OBSERVATION_COLUMNS)
    named = {condition.column for condition in listed}
    simple = [
        Condition(type="string", column=column, operator="=", value=value)
        for column in ("name", "type", "userId", "sessionId", "traceId", "level", "version")
        if (value := parameters.text(column)) is not None
    ]
    parent, root = parameters.text("parentObservationId"), parameters.truth("isRootObservation")
    if parent is not None:
        kind = {"type": "string", "operator": "=", "value": parent}
        kind = kind if parent else {"type": "null", "operator": "is null"}
        simple.append(Condition(column="parentObservationId", **kind))
    if root is not None:
        simple.append(
            Condition(type="boolean", column="isRootObservation", operator="=", value=root)
        )
    environments = parameters.repeated("environment")
    if environments is not None:
        simple.append(_any_of("environment", environments))
    # A column of `filter` wins over the plain parameter of the same name, which is then ignored.
    return listed + tuple(condition for condition in simple if condition.column not in named)


def _span_cursor(span: Observation) -> str:
    return encode_cursor(
        {
            "lastStartTimeTo": span.start.isoformat(),
            "lastTraceId": span.trace_id,
            "lastId": span.id,
        }
    )


def _list_conditions(parameters: Parameters, columns: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Conditions of the comma-separated parameters, which are named after columns."""
    lists_given = ((column, parameters.texts(column)) for column in columns)
    return tuple(_any_of(column, values) for column, values in lists_given if values is not None)


def _any_of(column: str, values: tuple[str, ...]) -> Condition:
    return Condition(type="stringOptions", column=column, operator="any of", value=list(values))
