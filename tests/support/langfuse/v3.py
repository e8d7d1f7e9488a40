"""The read endpoints of API v3: numbered pages, dataset runs, whole traces."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from tests.support.langfuse.errors import not_found
from tests.support.langfuse.filters import Condition, all_hold, wanted
from tests.support.langfuse.generated import Experiment
from tests.support.langfuse.json_v3 import (
    observation_json,
    run_json,
    score_json,
    trace_json,
    whole_trace_json,
)
from tests.support.langfuse.json_v4 import moment
from tests.support.langfuse.pagination import NewestFirst, newest_first, page_meta
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.records import JSON, Observation, Score
from tests.support.langfuse.store import RunLink, Store

TRACE_GROUPS: Final = ("core", "io", "scores", "observations", "metrics")


def _column(name: str) -> Callable[[JSON], Any]:
    return lambda trace: trace.get(name)


# Of a trace as the server returns it, with `scores_avg` and `score_categories` by name.
_TRACE_COLUMNS: Final[Mapping[str, Callable[[JSON], Any]]] = {
    name: _column(name)
    for name in (
        *("id", "name", "tags", "environment", "userId", "sessionId", "release", "version"),
        *("metadata", "scores_avg", "score_categories"),
    )
}
_OBSERVATION_COLUMNS: Final[Mapping[str, Callable[[Observation], Any]]] = {
    "id": lambda span: span.id,
    "traceId": lambda span: span.trace_id,
    "type": lambda span: span.type,
    "name": lambda span: span.name,
    "level": lambda span: span.level,
    "startTime": lambda span: span.start,
}
_SCORE_COLUMNS: Final[Mapping[str, Callable[[Score], Any]]] = {
    "id": lambda score: score.id,
    "traceId": lambda score: score.trace_id,
    "observationId": lambda score: score.observation_id,
    "name": lambda score: score.name,
    "timestamp": lambda score: score.timestamp,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A dataset run: the links from items to traces, newest first."""

    id: str
    name: str
    dataset_id: str
    dataset_name: str
    at: datetime
    links: Callable[[], Iterator[RunLink]]
    metadata: Mapping[str, Any]
    description: str | None

    def json(self) -> JSON:
        return run_json(
            run_id=self.id,
            name=self.name,
            dataset_id=self.dataset_id,
            dataset_name=self.dataset_name,
            at=self.at,
            metadata=dict(self.metadata),
            description=self.description,
        )

    def newest_links(self) -> Iterator[JSON]:
        """The newest link of each item; the API does not return the others."""
        seen_item_ids = set()
        for link in self.links():
            if link.item_id not in seen_item_ids:
                seen_item_ids.add(link.item_id)
                yield self._link_json(link)

    def _link_json(self, link: RunLink) -> JSON:
        return {
            "id": link.id,
            "datasetRunId": self.id,
            "datasetRunName": self.name,
            "datasetItemId": link.item_id,
            "traceId": link.trace_id,
            "observationId": link.observation_id,
            "createdAt": moment(link.at),
            "updatedAt": moment(link.at),
        }


def list_runs(store: Store, parameters: Parameters, dataset_name: str) -> JSON:
    page, limit = _page(parameters)
    parameters.check()
    if dataset_name not in store.datasets:
        raise not_found("Dataset not found")
    runs = [run.json() for run in _runs(store) if run.dataset_name == dataset_name]
    return _numbered(runs, page, limit)


def get_run(store: Store, parameters: Parameters, dataset_name: str, run_name: str) -> JSON:
    parameters.check()
    for run in _runs(store):
        if (run.dataset_name, run.name) == (dataset_name, run_name):
            return run.json() | {"datasetRunItems": list(_count_read(store, run).newest_links())}
    raise not_found("Dataset run not found")


def list_run_items(store: Store, parameters: Parameters) -> JSON:
    page, limit = _page(parameters)
    dataset_id, name = parameters.required("datasetId"), parameters.required("runName")
    parameters.check()
    for run in _runs(store):
        if (run.dataset_id, run.name) == (dataset_id, name):
            return _numbered(list(_count_read(store, run).newest_links()), page, limit)
    raise not_found("Dataset run not found for the given project and dataset id")


def _count_read(store: Store, run: Run) -> Run:
    for experiment in store.experiments:
        if experiment.id == run.id:
            experiment.look()
    return run


def _runs(store: Store) -> Iterator[Run]:
    for experiments in reversed(store.runs_by_id("run_items").values()):
        yield _generated_run(experiments)


def _generated_run(experiments: Sequence[Experiment]) -> Run:
    first = experiments[0]
    return Run(
        id=first.id,
        name=first.name,
        dataset_id=first.dataset_id,
        dataset_name=first.dataset_name,
        at=first.started,
        links=lambda: heapq.merge(
            *map(_generated_links, experiments), key=lambda link: link.at, reverse=True
        ),
        metadata=first.metadata,
        description=first.description,
    )


def _generated_links(experiment: Experiment) -> Iterator[RunLink]:
    for number in reversed(range(experiment.visible_count)):
        yield RunLink(
            id=f"run-item-{experiment.number}-{number}",
            item_id=experiment.item_id(number),
            trace_id=experiment.trace_id(number),
            observation_id=None,
            at=experiment.started + experiment.every * number,
        )


def list_traces(store: Store, parameters: Parameters) -> JSON:
    page, limit = _page(parameters)
    groups = parameters.groups(TRACE_GROUPS, TRACE_GROUPS, strict=False)
    conditions = parameters.conditions(_TRACE_COLUMNS)
    since, until = parameters.moment("fromTimestamp"), parameters.moment("toTimestamp")
    is_ascending = parameters.text("orderBy") == "timestamp.asc"
    parameters.check()
    ids = wanted(conditions, "id")
    if conditions and ids is None:
        traces = _filtered_traces(store, conditions, groups, since, until)
        return _numbered(traces[::-1] if is_ascending else traces, page, limit)
    if ids is None:
        return _all_traces(store, page, limit, groups, since, until)
    existing_ids = [trace_id for trace_id in sorted(ids) if store.has_trace(trace_id)]
    page_ids = existing_ids[(page - 1) * limit : page * limit]
    data = [_trace(store, trace_id, groups) for trace_id in page_ids]
    # Unknown IDs are left out silently, as in Langfuse: a client has to notice what is missing.
    return {"data": data, "meta": page_meta(page, limit, len(existing_ids))}


def _filtered_traces(
    store: Store,
    conditions: Sequence[Condition],
    groups: frozenset[str],
    since: datetime | None,
    until: datetime | None,
) -> list[JSON]:
    """The traces that pass all conditions, newest first."""
    roots = list(newest_first(store.trace_roots(), since=since, until=until))
    return [
        _trace(store, root.trace_id, groups)
        for root in roots
        if all_hold(conditions, _TRACE_COLUMNS, _described_trace(store, root.trace_id))
    ]


def _described_trace(store: Store, trace_id: str) -> JSON:
    scores = list(store.scores_of_traces([trace_id]))
    return _trace(store, trace_id, frozenset({"core", "io"})) | {
        "scores_avg": {score.name: score.value for score in scores if _is_number(score)},
        "score_categories": {score.name: score.value for score in scores if not _is_number(score)},
    }


def _is_number(score: Score) -> bool:
    return not isinstance(score.value, str)


def _all_traces(
    store: Store,
    page: int,
    limit: int,
    groups: frozenset[str],
    since: datetime | None,
    until: datetime | None,
) -> JSON:
    sequences = list(store.trace_roots())
    total = sum(sequence.count(since, until) for sequence in sequences)
    roots = newest_first(sequences, since=since, until=until)
    visible_slice = islice(roots, (page - 1) * limit, page * limit)
    data = [_trace(store, root.trace_id, groups) for root in visible_slice]
    return {"data": data, "meta": page_meta(page, limit, total)}


def _trace(store: Store, trace_id: str, groups: frozenset[str]) -> JSON:
    spans = list(store.observations_of_traces([trace_id]))
    scores = list(store.scores_of_traces([trace_id]))
    return trace_json(trace_id, spans, scores, groups)


def get_trace(store: Store, parameters: Parameters, trace_id: str) -> JSON:
    parameters.check()
    if not store.has_trace(trace_id):
        raise not_found(f"Trace {trace_id} not found within authorized project")
    spans = list(store.observations_of_traces([trace_id]))
    scores = list(store.scores_of_traces([trace_id]))
    return whole_trace_json(trace_id, spans, scores)


def list_observations(store: Store, parameters: Parameters) -> JSON:
    page, limit = _page(parameters)
    names = ("traceId", "type", "name", "level")
    conditions = parameters.conditions(_OBSERVATION_COLUMNS) + _parameter_conditions(
        parameters, names
    )
    since, until = parameters.moment("fromStartTime"), parameters.moment("toStartTime")
    parameters.check()
    traces = wanted(conditions, "traceId")
    if traces is None:
        sequences = list(store.observations(wanted(conditions, "type"), None))
    else:
        sequences = [store.sorted_observations(traces)]
    spans = newest_first(sequences, since=since, until=until)
    matching_spans = [span for span in spans if all_hold(conditions, _OBSERVATION_COLUMNS, span)]
    return _numbered_json(matching_spans, page, limit, observation_json)


def list_scores(store: Store, parameters: Parameters) -> JSON:
    store.release_scores()
    page, limit = _page(parameters)
    conditions = parameters.conditions(_SCORE_COLUMNS) + _parameter_conditions(
        parameters, ("traceId", "name")
    )
    run_id = parameters.text("datasetRunId")
    since, until = parameters.moment("fromTimestamp"), parameters.moment("toTimestamp")
    parameters.check()
    traces = wanted(conditions, "traceId")
    if run_id is not None:
        sequences = [NewestFirst.of(store.run_scores([run_id]))]
    elif traces is not None:
        sequences = [NewestFirst.of(store.scores_of_traces(traces))]
    else:
        sequences = list(store.all_scores())
    scores = newest_first(sequences, since=since, until=until)
    matching_scores = [score for score in scores if all_hold(conditions, _SCORE_COLUMNS, score)]
    return _numbered_json(matching_scores, page, limit, score_json)


def _page(parameters: Parameters) -> tuple[int, int]:
    page = parameters.number("page", default=1, least=1)
    return page, parameters.number("limit", default=50, least=1, most=100)


def _parameter_conditions(parameters: Parameters, names: Sequence[str]) -> tuple[Condition, ...]:
    return tuple(
        Condition(type="string", column=name, operator="=", value=value)
        for name in names
        if (value := parameters.text(name)) is not None
    )


def _numbered(rows: Sequence[JSON], page: int, limit: int) -> JSON:
    return _numbered_json(rows, page, limit, lambda row: row)


def _numbered_json(rows: Sequence[Any], page: int, limit: int, to_json: Any) -> JSON:
    page_rows = rows[(page - 1) * limit : page * limit]
    return {"data": [to_json(row) for row in page_rows], "meta": page_meta(page, limit, len(rows))}
