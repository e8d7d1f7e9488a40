"""The score endpoint of API v4, which rejects unknown parameters."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.support.langfuse.json_v4 import score_json
from tests.support.langfuse.pagination import NewestFirst, encode_cursor, newest_first, take_page
from tests.support.langfuse.parameters import Parameters, cursor_key
from tests.support.langfuse.records import JSON, Score
from tests.support.langfuse.store import Store

GROUPS: Final = ("details", "subject", "annotation")
DATA_TYPES: Final = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION")

_LISTS: Final[Mapping[str, Callable[[Score], Any]]] = {
    "id": lambda score: score.id,
    "name": lambda score: score.name,
    "source": lambda score: score.source,
    "dataType": lambda score: score.data_type,
    "environment": lambda score: score.environment,
    "configId": lambda score: score.config_id,
    "queueId": lambda score: score.queue_id,
    "authorUserId": lambda score: score.author_user_id,
    "traceId": lambda score: score.trace_id,
    "sessionId": lambda score: score.session_id,
    "observationId": lambda score: score.observation_id,
    "experimentId": lambda score: score.experiment_id,
}
_OTHERS: Final = (
    *("limit", "cursor", "fields", "value", "valueMin", "valueMax"),
    *("fromTimestamp", "toTimestamp"),
)


def list_scores(store: Store, parameters: Parameters) -> JSON:
    store.release_scores()
    parameters.allow_only([*_LISTS, *_OTHERS])
    limit = parameters.number("limit", default=50, least=1, most=100)
    groups = parameters.groups(GROUPS, [])
    lists = _lists(parameters)
    _check_subjects(parameters, lists)
    worth = _value_filter(parameters, lists.get("dataType"))
    since, until = parameters.moment("fromTimestamp"), parameters.moment("toTimestamp")
    after = cursor_key(parameters.cursor(), "lastTimestamp")
    parameters.check()
    sequences = _sequences(store, lists)
    records = newest_first(sequences, since=since, until=until, after=after)
    matching_scores = (score for score in records if _listed(score, lists) and worth(score))
    page = take_page(matching_scores, store.page_size(limit))
    meta: JSON = {"limit": limit}
    if page.has_more:
        meta["cursor"] = _cursor(page.rows[-1])
    return {"data": [score_json(score, groups) for score in page.rows], "meta": meta}


def _lists(parameters: Parameters) -> dict[str, frozenset[str]]:
    lists_given = {name: parameters.texts(name) for name in _LISTS}
    lists = {name: frozenset(values) for name, values in lists_given.items() if values is not None}
    for name, allowed in (("source", ("API", "ANNOTATION", "EVAL")), ("dataType", DATA_TYPES)):
        # These two are compared without regard to case, as the server does.
        lists |= {name: frozenset(value.upper() for value in lists[name])} if name in lists else {}
        if not lists.get(name, frozenset()) <= set(allowed):
            parameters.refuse(f"Invalid option: expected one of {allowed}", name)
    return lists


def _check_subjects(parameters: Parameters, lists: Mapping[str, frozenset[str]]) -> None:
    kinds = [name for name in ("traceId", "sessionId", "experimentId") if name in lists]
    if "observationId" in lists:
        if "traceId" not in lists:
            parameters.refuse("observationId requires traceId to be specified", "observationId")
        if "sessionId" in lists or "experimentId" in lists:
            parameters.refuse("observationId excludes sessionId and experimentId", "observationId")
    if len(kinds) > 1:
        parameters.refuse("At most one of traceId, sessionId, experimentId may be specified")


def _value_filter(
    parameters: Parameters, data_types: frozenset[str] | None
) -> Callable[[Score], bool]:
    """The filter on the value, which depends on the data type."""
    values = parameters.texts("value")
    least, most = parameters.decimal("valueMin"), parameters.decimal("valueMax")
    kind = next(iter(data_types)) if data_types and len(data_types) == 1 else None
    if values is not None and kind not in ("NUMERIC", "BOOLEAN", "CATEGORICAL"):
        parameters.refuse("value filter requires a single dataType", "value")
    if (least is not None or most is not None) and kind != "NUMERIC":
        parameters.refuse("valueMin and valueMax require dataType=NUMERIC as a single value")
    exact = None if values is None or kind is None else _values(parameters, kind, values)

    def holds(score: Score) -> bool:
        if exact is not None and score.value not in exact:
            return False
        return (least is None or float(score.value) >= least) and (
            most is None or float(score.value) <= most
        )

    return holds


def _values(parameters: Parameters, kind: str, texts: tuple[str, ...]) -> frozenset[float | str]:
    if kind == "CATEGORICAL":
        return frozenset(texts)
    if kind == "BOOLEAN":
        if not {*texts} <= {"true", "false"}:
            parameters.refuse(
                'value filter with dataType=BOOLEAN requires "true" or "false"', "value"
            )
        return frozenset(float(text == "true") for text in texts)
    try:
        numbers = frozenset(float(text) for text in texts)
    except ValueError:
        # Falls into the refusal below, with the infinite numbers.
        numbers = frozenset([math.nan])
    if not all(map(math.isfinite, numbers)):
        parameters.refuse("value filter with dataType=NUMERIC requires finite numbers", "value")
    return numbers


def _sequences(store: Store, lists: Mapping[str, frozenset[str]]) -> Iterator[NewestFirst[Score]]:
    if "traceId" in lists:
        yield NewestFirst.of(store.scores_of_traces(lists["traceId"]))
    elif "experimentId" in lists:
        yield NewestFirst.of(store.run_scores(lists["experimentId"]))
    else:
        yield from store.all_scores()


def _listed(score: Score, lists: Mapping[str, frozenset[str]]) -> bool:
    return all(_LISTS[name](score) in values for name, values in lists.items())


def _cursor(score: Score) -> str:
    return encode_cursor({"v": 1, "lastTimestamp": score.timestamp.isoformat(), "lastId": score.id})
