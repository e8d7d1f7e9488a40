"""All that the project holds, generated or written, and how to find it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.generated import Experiment
from tests.support.langfuse.paging import NewestFirst
from tests.support.langfuse.records import JSON, Membership, Observation, Score


class SpanId(NamedTuple):
    trace_id: str
    id: str


class ScoreId(NamedTuple):
    """What makes a score the same one: its id and the day of its timestamp."""

    id: str
    day: str


class Window(NamedTuple):
    """What the summary of an experiment says of the time that was asked for."""

    start: datetime
    end: datetime
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """An experiment as it is listed."""

    id: str
    name: str
    description: str | None
    dataset_id: str | None
    metadata: dict[str, str]
    rows: NewestFirst[Observation]
    spans: NewestFirst[Observation]
    generated: Experiment | None = None

    def window(self, since: datetime, until: datetime | None) -> Window | None:
        """None when nothing of the experiment lies in that time."""
        newest = next(iter(_between(self.spans, since, until)), None)
        if newest is None:
            return None
        if self.generated is not None:
            return self._generated_window(self.generated, since, until, newest)
        spans = list(_between(self.spans, since, until))
        rows = {row.id for row in _between(self.rows, since, until)}
        start = min(span.start for span in spans)
        end = max(max(span.start, span.end or span.start) for span in spans)
        return Window(start, end, len(rows))

    def _generated_window(
        self, generated: Experiment, since: datetime, until: datetime | None, newest: Observation
    ) -> Window:
        """The same by arithmetic: the experiment may have a million items."""
        first = max(since, generated.started)
        end = newest.end or newest.start
        counted = self.rows.count(since, until)
        return Window(first, end, min(counted, generated.shown))


def _between(
    records: NewestFirst[Observation], since: datetime, until: datetime | None
) -> Iterator[Observation]:
    return records.within(since, records.bound(until))


@dataclass(slots=True, kw_only=True)
class Store:
    datasets: dict[str, Dataset] = field(default_factory=dict)
    experiments: list[Experiment] = field(default_factory=list)
    spans: dict[SpanId, Observation] = field(default_factory=dict)
    scores: dict[ScoreId, Score] = field(default_factory=dict)
    traces: dict[str, JSON] = field(default_factory=dict)
    run_items: list[JSON] = field(default_factory=list)

    def dataset_with_id(self, dataset_id: str) -> Dataset | None:
        found = (dataset for dataset in self.datasets.values() if dataset.id == dataset_id)
        return next(found, None)

    def summaries(self) -> Iterator[Summary]:
        """The experiments that OTel spans made; runs linked by run items are not among them."""
        for experiment in self.experiments:
            if experiment.linked_by == "otel":
                yield Summary(
                    id=experiment.id,
                    name=experiment.name,
                    description=experiment.description,
                    dataset_id=experiment.dataset_id,
                    metadata=experiment.raw_metadata,
                    rows=experiment.rows(),
                    spans=experiment.observations(),
                    generated=experiment,
                )
        members: dict[str, list[Observation]] = {}
        for span in self.spans.values():
            if span.experiment is not None:
                members.setdefault(span.experiment.experiment_id, []).append(span)
        for spans in members.values():
            yield _written_summary(spans)

    def observations(
        self, types: frozenset[str] | None, experiments: frozenset[str] | None
    ) -> Iterator[NewestFirst[Observation]]:
        for experiment in self.experiments:
            if experiments is None or experiment.id in experiments:
                yield experiment.observations(types)
        yield NewestFirst.of(self.spans.values())

    def observations_of_traces(self, trace_ids: Iterable[str]) -> Iterator[Observation]:
        wanted = frozenset(trace_ids)
        for trace_id in wanted:
            for experiment in self.experiments:
                number = experiment.number_of(trace_id)
                if number is not None:
                    yield from experiment.trace(number)
        yield from (span for span in self.spans.values() if span.trace_id in wanted)

    def observations_in_order(self, trace_ids: Iterable[str]) -> NewestFirst[Observation]:
        return NewestFirst.of(self.observations_of_traces(trace_ids))

    def scores_of_traces(self, trace_ids: Iterable[str]) -> Iterator[Score]:
        wanted = frozenset(trace_ids)
        for trace_id in wanted:
            for experiment in self.experiments:
                number = experiment.number_of(trace_id)
                if number is not None:
                    yield from experiment.scores_of(number)
        yield from (score for score in self.scores.values() if score.trace_id in wanted)

    def run_scores(self, experiment_ids: Iterable[str]) -> Iterator[Score]:
        wanted = frozenset(experiment_ids)
        for experiment in self.experiments:
            if experiment.id in wanted:
                yield from experiment.run_scores()
        yield from (score for score in self.scores.values() if score.experiment_id in wanted)

    def all_scores(self) -> Iterator[NewestFirst[Score]]:
        for experiment in self.experiments:
            yield from experiment.score_sequences()
        yield NewestFirst.of(self.scores.values())

    def keep_span(self, span: Observation) -> None:
        self.spans[SpanId(span.trace_id, span.id)] = span

    def keep_score(self, score: Score) -> None:
        self.scores[ScoreId(score.id, score.timestamp.date().isoformat())] = score


def _written_summary(spans: list[Observation]) -> Summary:
    described = [span.experiment for span in spans if span.experiment is not None]
    first: Membership = described[0]
    return Summary(
        id=first.experiment_id,
        name=first.experiment_name,
        description=next((one.description for one in described if one.description), None),
        dataset_id=first.dataset_id,
        metadata=dict(next((one.metadata for one in described if one.metadata), {})),
        rows=NewestFirst.of(span for span in spans if span.is_item_root),
        spans=NewestFirst.of(spans),
    )
