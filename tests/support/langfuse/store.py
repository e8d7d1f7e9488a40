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
class RunLink:
    """That a trace is the answer to an item of a dataset, in a run of the older kind."""

    id: str
    item_id: str
    trace_id: str
    observation_id: str | None
    at: datetime


@dataclass(slots=True, kw_only=True)
class LinkedRun:
    id: str
    name: str
    dataset_id: str
    dataset_name: str
    metadata: JSON
    description: str | None
    links: list[RunLink] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class WaitingScore:
    """A score that was taken and cannot be read yet."""

    score: Score
    looks: int


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

    def look(self, since: datetime) -> None:
        """Somebody asks for it; what lies wholly before that time is not seen."""
        if self.generated is not None and self.generated.ends > since:
            self.generated.look()

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
    linked_runs: dict[str, LinkedRun] = field(default_factory=dict)
    waiting_scores: list[WaitingScore] = field(default_factory=list)
    scores_wait_for_looks: int = 0
    pages_shorter_by: int = 0

    def page_size(self, limit: int) -> int:
        """How many rows a page really has: it may be fewer although more follow."""
        return max(limit - self.pages_shorter_by, min(limit, 1))

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

    def has_trace(self, trace_id: str) -> bool:
        known = trace_id in self.traces or any(
            experiment.number_of(trace_id) is not None for experiment in self.experiments
        )
        return known or any(span.trace_id == trace_id for span in self.spans.values())

    def trace_roots(self) -> Iterator[NewestFirst[Observation]]:
        for experiment in self.experiments:
            yield experiment.roots()
        yield NewestFirst.of(span for span in self.spans.values() if span.parent_id is None)

    def link_run(self, dataset: Dataset, name: str, link: RunLink, about: JSON) -> str:
        """Add a link to the run of that name, which is made when it is the first; its id."""
        run_id = f"run-{dataset.id}-{name}"
        run = self.linked_runs.setdefault(
            run_id,
            LinkedRun(
                id=run_id,
                name=name,
                dataset_id=dataset.id,
                dataset_name=dataset.name,
                metadata=about.get("metadata") or {},
                description=about.get("runDescription"),
            ),
        )
        run.links.append(link)
        return run_id

    def take_score(self, score: Score) -> None:
        """Keep a score now, or after as many looks as the stand-in was told."""
        if self.scores_wait_for_looks:
            waiting = WaitingScore(score=score, looks=self.scores_wait_for_looks)
            self.waiting_scores.append(waiting)
        else:
            self.keep_score(score)

    def look_at_scores(self) -> None:
        """Somebody reads scores: those that have waited long enough are there."""
        for waiting in self.waiting_scores:
            if waiting.looks == 0:
                self.keep_score(waiting.score)
            waiting.looks -= 1
        self.waiting_scores = [one for one in self.waiting_scores if one.looks >= 0]

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
