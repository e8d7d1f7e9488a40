"""The read endpoints of the fourth generation."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from tests.support.langfuse.filters import Condition, all_hold, wanted
from tests.support.langfuse.paging import encode_cursor, newest_first, page_meta, take_page
from tests.support.langfuse.parameters import Parameters, cursor_key
from tests.support.langfuse.records import JSON, Key, Observation, Score
from tests.support.langfuse.refusals import missing
from tests.support.langfuse.store import Store, Summary, Window
from tests.support.langfuse.wire import (
    dataset_json,
    item_json,
    moment,
    observation_json,
    row_json,
    score_json,
)

SCORES_LIE_WITHIN: Final = timedelta(days=1)
EXPERIMENT_GROUPS: Final = ("core", "metadata", "scores")
ROW_GROUPS: Final = (
    *("core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores"),
)
OBSERVATION_GROUPS: Final = (
    *("core", "basic", "time", "io", "metadata", "model", "usage", "prompt", "metrics"),
    "trace_context",
)

_EXPERIMENT_COLUMNS: Final[Mapping[str, Callable[[Summary], Any]]] = {
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


def list_datasets(store: Store, asked: Parameters) -> JSON:
    page = asked.number("page", default=1, least=1)
    limit = asked.number("limit", default=50, least=1, most=100)
    asked.check()
    shown = list(store.datasets.values())[(page - 1) * limit : page * limit]
    return {
        "data": [dataset_json(dataset) for dataset in shown],
        "meta": page_meta(page, limit, len(store.datasets)),
    }


def get_dataset(store: Store, asked: Parameters, name: str) -> JSON:
    asked.check()
    if name not in store.datasets:
        raise missing("Dataset not found")
    return dataset_json(store.datasets[name])


def list_items(store: Store, asked: Parameters) -> JSON:
    page = asked.number("page", default=1, least=1)
    limit = asked.number("limit", default=50, least=1, most=100)
    name, version = asked.text("datasetName"), asked.moment("version")
    asked.check()
    if name is None or name not in store.datasets:
        raise missing("Dataset not found")
    dataset = store.datasets[name]
    found = dataset.active_page(version, page, limit)
    return {
        "data": [item_json(dataset, item) for item in found.items],
        "meta": page_meta(page, limit, found.total),
    }


def get_item(store: Store, asked: Parameters, item_id: str) -> JSON:
    asked.check()
    for dataset in store.datasets.values():
        item = dataset.find(item_id)
        if item is not None and item.deleted_at is None:
            return item_json(dataset, item)
    raise missing("Dataset item not found")


def list_experiments(store: Store, asked: Parameters) -> JSON:
    groups = asked.groups(EXPERIMENT_GROUPS, ["core"])
    limit = asked.number("limit", default=50, least=1, most=100)
    score_limit = asked.number("scoreLimit", default=50, least=1, most=50)
    since = asked.moment("fromStartTime", required=True)
    until = asked.moment("toStartTime")
    conditions = asked.conditions(_EXPERIMENT_COLUMNS) + _listed(asked, _EXPERIMENT_COLUMNS)
    after = cursor_key(asked.cursor(), "lastTime")
    asked.check()
    assert since is not None
    for summary in store.summaries():
        if all_hold(conditions, _EXPERIMENT_COLUMNS, summary):
            summary.look(since)
    found = [
        summary
        for summary in store.summaries()
        if all_hold(conditions, _EXPERIMENT_COLUMNS, summary)
        and _newest(summary, since, until) is not None
    ]
    found.sort(key=lambda summary: _order(summary, since, until), reverse=True)
    rest = (one for one in found if after is None or _order(one, since, until) < after)
    page = take_page(rest, store.page_size(limit))
    data = [_summary_json(store, one, groups, since, until, score_limit) for one in page.rows]
    meta = {"cursor": _summary_cursor(page.rows[-1], since, until)} if page.has_more else {}
    return {"data": data, "meta": meta}


def _newest(summary: Summary, since: datetime, until: datetime | None) -> Observation | None:
    return next(summary.spans.within(since, summary.spans.bound(until)), None)


def _order(summary: Summary, since: datetime, until: datetime | None) -> tuple[datetime, str]:
    newest = _newest(summary, since, until)
    assert newest is not None
    return newest.start, summary.id


def _summary_cursor(summary: Summary, since: datetime, until: datetime | None) -> str:
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
    summary: Summary,
    groups: frozenset[str],
    since: datetime,
    until: datetime | None,
    score_limit: int,
) -> JSON:
    window = summary.window(since, until)
    assert isinstance(window, Window)
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
        near = _near(store.run_scores([summary.id]), window.end, window.end)
        answer["scores"] = [score_json(one, _SUBJECT) for one in near][:score_limit]
    return answer


_SUBJECT: Final = frozenset({"subject"})


def list_rows(store: Store, asked: Parameters) -> JSON:
    store.look_at_scores()
    groups = asked.groups(ROW_GROUPS, ["core", "dataset"])
    limit = asked.number("limit", default=50, least=1, most=100)
    score_limit = asked.number("scoreLimit", default=50, least=1, most=50)
    since = asked.moment("fromStartTime", required=True)
    until = asked.moment("toStartTime")
    conditions = asked.conditions(_ROW_COLUMNS) + _listed(asked, _ROW_COLUMNS)
    after = cursor_key(asked.cursor(), "lastTime")
    asked.check()
    ids = wanted(conditions, "experimentId")
    sequences = [one.rows for one in store.summaries() if ids is None or one.id in ids]
    rows = newest_first(sequences, since=since, until=until, after=after)
    kept = (row for row in rows if all_hold(conditions, _ROW_COLUMNS, row))
    page = take_page(kept, store.page_size(limit))
    data = [row_json(row, groups) for row in page.rows]
    if "scores" in groups and page.rows:
        for row, answer in zip(page.rows, data, strict=True):
            near = _scores_of_row(store, row, page.rows[-1].start, page.rows[0].start)
            answer["scores"] = [score_json(one, _SUBJECT) for one in near][:score_limit]
    meta = {"cursor": _row_cursor(page.rows[-1])} if page.has_more else {}
    return {"data": data, "meta": meta}


def _scores_of_row(
    store: Store, row: Observation, oldest: datetime, newest: datetime
) -> Iterator[Score]:
    """Scores of the trace and of the row itself, no corrections, near the page in time."""
    for score in _near(store.scores_of_traces([row.trace_id]), oldest, newest):
        if score.observation_id in (None, row.id) and score.data_type != "CORRECTION":
            yield score


def _near(scores: Iterable[Score], oldest: datetime, newest: datetime) -> Iterator[Score]:
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


def list_observations(store: Store, asked: Parameters) -> JSON:
    groups = asked.groups(OBSERVATION_GROUPS, ["core", "basic"], strict=False)
    limit = asked.number("limit", default=50, least=0, most=1000)
    if asked.truth("parseIoAsJson"):
        asked.refuse("parseIoAsJson=true is no longer supported", "parseIoAsJson")
    since, until = asked.moment("fromStartTime"), asked.moment("toStartTime")
    conditions = _observation_conditions(asked)
    after = cursor_key(asked.cursor(), "lastStartTimeTo")
    whole = asked.texts("expandMetadata") or ()
    asked.check()
    spans = _find_observations(store, conditions, since, until, after)
    page = take_page(spans, store.page_size(limit))
    data = [observation_json(span, groups, whole) for span in page.rows]
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
        sequences = [store.observations_in_order(traces)]
    found = newest_first(sequences, since=since, until=until, after=after)
    return (span for span in found if all_hold(conditions, OBSERVATION_COLUMNS, span))


def _observation_conditions(asked: Parameters) -> tuple[Condition, ...]:
    """The filter, and the simple parameters on columns that the filter does not name."""
    listed = asked.conditions(OBSERVATION_COLUMNS)
    named = {condition.column for condition in listed}
    simple = [
        Condition(type="string", column=column, operator="=", value=value)
        for column in ("name", "type", "userId", "sessionId", "traceId", "level", "version")
        if (value := asked.text(column)) is not None
    ]
    parent, root = asked.text("parentObservationId"), asked.truth("isRootObservation")
    if parent is not None:
        kind = {"type": "string", "operator": "=", "value": parent}
        kind = kind if parent else {"type": "null", "operator": "is null"}
        simple.append(Condition(column="parentObservationId", **kind))
    if root is not None:
        simple.append(
            Condition(type="boolean", column="isRootObservation", operator="=", value=root)
        )
    environments = asked.repeated("environment")
    if environments is not None:
        simple.append(_any_of("environment", environments))
    return listed + tuple(one for one in simple if one.column not in named)


def _span_cursor(span: Observation) -> str:
    return encode_cursor(
        {
            "lastStartTimeTo": span.start.isoformat(),
            "lastTraceId": span.trace_id,
            "lastId": span.id,
        }
    )


def _listed(asked: Parameters, columns: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The comma-separated parameters, which have the names of the columns."""
    found = ((column, asked.texts(column)) for column in columns)
    return tuple(_any_of(column, values) for column, values in found if values is not None)


def _any_of(column: str, values: tuple[str, ...]) -> Condition:
    return Condition(type="stringOptions", column=column, operator="any of", value=list(values))
