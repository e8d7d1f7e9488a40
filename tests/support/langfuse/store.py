"""The data of the project, generated or written, and its lookups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.generated import Experiment
from tests.support.langfuse.pagination import NewestFirst
from tests.support.langfuse.records import Membership, Observation, Score


class SpanId(NamedTuple):
    trace_id: str
    id: str


class ScoreId(NamedTuple):
    """The identity of a score: its ID and the day of its timestamp."""

    id: str
    day: str


class ExperimentWindow(NamedTuple):
    """Start, end and item count of an experiment within the requested time."""

    start: datetime
    end: datetime
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLink:
    """The link from a dataset item to a trace, in a dataset run."""

    id: str
    item_id: str
    trace_id: str
    observation_id: str | None
    at: datetime


@dataclass(slots=True, kw_only=True)
class DelayedScore:
    """An accepted score that is not visible yet."""

    score: Score
    reads_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSummary:
    """A listed experiment."""

    id: str
    name: str
    description: str | None
    dataset_id: str | None
    metadata: dict[str, str]
    rows: NewestFirst[Observation]
    spans: NewestFirst[Observation]
    generated: Sequence[Experiment] = ()

    def count_read(self, since: datetime) -> None:
        """Count a read, unless the experiment ends before that time."""
        for experiment in self.generated:
            if experiment.ends > since:
                experiment.look()

    def window(self, since: datetime, until: datetime | None) -> ExperimentWindow | None:
        """The part of the experiment within that time; None when it is empty."""
        newest = next(iter(_between(self.spans, since, until)), None)
        if newest is None:
            return None
        if len(self.generated) == 1:
            return self._generated_window(self.generated[0], since, until, newest)
        spans = list(_between(self.spans, since, until))
        rows = {row.id for row in _between(self.rows, since, until)}
        start = min(span.start for span in spans)
        end = max(max(span.start, span.end or span.start) for span in spans)
        return ExperimentWindow(start, end, len(rows))

    def _generated_window(
        self, generated: Experiment, since: datetime, until: datetime | None, newest: Observation
    ) -> ExperimentWindow:
        """The same by arithmetic, because the experiment can have a million items."""
        first = max(since, generated.started)
        end = newest.end or newest.start
        counted = self.rows.count(since, until)
        return ExperimentWindow(first, end, min(counted, generated.visible_count))


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
    delayed_scores: list[DelayedScore] = field(default_factory=list)
    score_delay_reads: int = 0
    # The IDs of the queued objects by queue.
    annotation_queues: dict[str, list[str]] = field(default_factory=dict)
    rows_missing_per_page: int = 0

    def page_size(self, limit: int) -> int:
        """The real number of rows of a page, which can be smaller than the limit."""
        return max(limit - self.rows_missing_per_page, min(limit, 1))

    def summaries(self) -> Iterator[ExperimentSummary]:
        """The experiments of OTel spans, without runs that are linked by run items."""
        for runs in self.runs_by_id("otel").values():
            yield _generated_summary(runs)
        members: dict[str, list[Observation]] = {}
        for span in self.spans.values():
            if span.experiment is not None:
                members.setdefault(span.experiment.experiment_id, []).append(span)
        for spans in members.values():
            yield _written_summary(spans)

    def runs_by_id(self, linked_by: str) -> dict[str, list[Experiment]]:
        """The generated runs by experiment: runs with one name are one experiment."""
        runs: dict[str, list[Experiment]] = {}
        for experiment in self.experiments:
            if experiment.linked_by == linked_by:
                runs.setdefault(experiment.id, []).append(experiment)
        return runs

    def observations(
        self, types: frozenset[str] | None, experiments: frozenset[str] | None
    ) -> Iterator[NewestFirst[Observation]]:
        for experiment in self.experiments:
            if experiments is None or experiment.id in experiments:
                yield experiment.observations(types)
        yield NewestFirst.of(self.spans.values())

    def observations_of_traces(self, trace_ids: Iterable[str]) -> Iterator[Observation]:
        id_set = frozenset(trace_ids)
        for trace_id in id_set:
            for experiment in self.experiments:
                number = experiment.number_of(trace_id)
                if number is not None:
                    yield from experiment.trace(number)
        yield from (span for span in self.spans.values() if span.trace_id in id_set)

    def sorted_observations(self, trace_ids: Iterable[str]) -> NewestFirst[Observation]:
        return NewestFirst.of(self.observations_of_traces(trace_ids))

    def scores_of_traces(self, trace_ids: Iterable[str]) -> Iterator[Score]:
        id_set = frozenset(trace_ids)
        for trace_id in id_set:
            for experiment in self.experiments:
                number = experiment.number_of(trace_id)
                if number is not None:
                    yield from experiment.scores_of(number)
        yield from (score for score in self.scores.values() if score.trace_id in id_set)

    def run_scores(self, experiment_ids: Iterable[str]) -> Iterator[Score]:
        id_set = frozenset(experiment_ids)
        for experiment in self.experiments:
            if experiment.id in id_set:
                yield from experiment.run_scores()
        yield from (score for score in self.scores.values() if score.experiment_id in id_set)

    def all_scores(self) -> Iterator[NewestFirst[Score]]:
        for experiment in self.experiments:
            yield from experiment.score_sequences()
        yield NewestFirst.of(self.scores.values())

    def store_span(self, span: Observation) -> None:
        self.spans[SpanId(span.trace_id, span.id)] = span

    def has_trace(self, trace_id: str) -> bool:
        is_generated = any(
            experiment.number_of(trace_id) is not None for experiment in self.experiments
        )
        return is_generated or any(span.trace_id == trace_id for span in self.spans.values())

    def trace_roots(self) -> Iterator[NewestFirst[Observation]]:
        for experiment in self.experiments:
            yield experiment.roots()
        yield NewestFirst.of(span for span in self.spans.values() if span.parent_id is None)

    def accept_score(self, score: Score) -> None:
        """Store a score now, or after the configured number of reads."""
        if self.score_delay_reads:
            waiting = DelayedScore(score=score, reads_left=self.score_delay_reads)
            self.delayed_scores.append(waiting)
        else:
            self.store_score(score)

    def release_scores(self) -> None:
        """Count a read of scores, and store the delayed scores that are due."""
        for waiting in self.delayed_scores:
            if waiting.reads_left == 0:
                self.store_score(waiting.score)
            waiting.reads_left -= 1
        self.delayed_scores = [
            waiting for waiting in self.delayed_scores if waiting.reads_left >= 0
        ]

    def store_score(self, score: Score) -> None:
        # The day is part of the sort key in the store of Langfuse:
        # one ID on two days gives two scores.
        key = ScoreId(score.id, score.timestamp.date().isoformat())
        stored = self.scores.get(key)
        # An older event changes nothing.
        if stored is None or stored.timestamp <= score.timestamp:
            self.scores[key] = score


def _generated_summary(runs: Sequence[Experiment]) -> ExperimentSummary:
    first = runs[0]
    is_one = len(runs) == 1
    return ExperimentSummary(
        id=first.id,
        name=first.name,
        description=first.description,
        dataset_id=first.dataset_id,
        metadata=first.raw_metadata,
        rows=first.rows() if is_one else _merged(run.rows() for run in runs),
        spans=first.observations() if is_one else _merged(run.observations() for run in runs),
        generated=runs,
    )


def _merged(sequences: Iterable[NewestFirst[Observation]]) -> NewestFirst[Observation]:
    return NewestFirst.of(span for spans in sequences for span in spans.within(None, None))


def _written_summary(spans: list[Observation]) -> ExperimentSummary:
    described = [span.experiment for span in spans if span.experiment is not None]
    first: Membership = described[0]
    return ExperimentSummary(
        id=first.experiment_id,
        name=first.experiment_name,
        description=next(
            (membership.description for membership in described if membership.description), None
        ),
        dataset_id=first.dataset_id,
        metadata=dict(
            next((membership.metadata for membership in described if membership.metadata), {})
        ),
        rows=NewestFirst.of(span for span in spans if span.is_item_root),
        spans=NewestFirst.of(spans),
    )
