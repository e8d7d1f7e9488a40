"""Queues of answers to judge. The same filter selects the same answers in the same order for everybody, so that a queue
is an address and nothing is stored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import read_own_judgements
from mosaico.annotations.schemas import (
    AnnotationQueueView,
    QueuedAnswer,
    QueueFilter,
    QueueKind,
)
from mosaico.comparison.comparison_rules import spec_of
from mosaico.comparison.flipped_answers import list_flipped_answers
from mosaico.comparison.run_answers import find_baseline_run
from mosaico.core.errors import AppError, Invalid
from mosaico.metrics.judgements import judgement_of
from mosaico.metrics.types import Direction
from mosaico.run_store.deciding_metric import RIGHT_FROM
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.rules import RunStatus
from mosaico.traces.models import CollectedTrace

NO_BASELINE: Final = "the run was not compared with a baseline that still has its traces"
NOTHING_FLIPPED: Final = "no item of the run fell or rose by half or more"
NO_TRACES: Final = "the run has no traces"
ALL_ANNOTATED: Final = "you have annotated every answer of the run"
_OF_NIGHTS: Final = (QueueKind.SAMPLE, QueueKind.NEW)
ONE_JUDGE: Final = "the run has no judge beside another metric with a worst and a best value: name two such metrics"


class _QueuedAnswer(NamedTuple):
    """An answer of a queue by its run, its trace and its item."""

    run_id: str
    trace_id: str
    item_id: str


class RatedMetric(NamedTuple):
    """A metric with its worst and its best value; an answer is right in the better half."""

    column: str
    worst: float
    best: float

    def share_of(self, value: float) -> float:
        """A value as a share: 0 for the worst, 1 for the best one."""
        return (value - self.worst) / (self.best - self.worst)

    def value_of(self, share: float) -> float:
        """The value of a share."""
        return self.worst + share * (self.best - self.worst)


class _Answers(NamedTuple):
    """The answers of a queue, or why it has none; `metrics` are those that are compared."""

    answers: list[_QueuedAnswer]
    reason: str
    metrics: tuple[str | None, str | None] = (None, None)


def load_queue(
    session: Session, run: BenchmarkRun, queue_filter: QueueFilter, annotator: str
) -> AnnotationQueueView:
    """The answers of a queue, and what the annotator says of them.

    Raises: `Invalid` for a metric that the run does not have, and for several nights of a queue of one.
    """
    if queue_filter.nights > 1 and queue_filter.queue not in _OF_NIGHTS:
        raise Invalid(
            f"the queue {queue_filter.queue.value!r} is of one run; leave `nights` away, or choose 'sample' or 'new'"
        )
    queued = _QUEUES[queue_filter.queue](_QueueReader(session, run, queue_filter, annotator))
    own = read_own_judgements(session, [answer[:2] for answer in queued.answers], annotator)
    first, second = queued.metrics
    return AnnotationQueueView(
        items=[
            QueuedAnswer(**answer._asdict(), judgement=own.get(answer[:2]))
            for answer in queued.answers
        ],
        annotated=len(own),
        first=first,
        second=second,
        reason=None if queued.answers else queued.reason,
    )


class _QueueReader(NamedTuple):
    """Reads the answers of a queue of a run for an annotator."""

    session: Session
    run: BenchmarkRun
    queue_filter: QueueFilter
    annotator: str

    def list_flipped(self) -> _Answers:
        """The items that fell or rose since the baseline, each by its worst trial now."""
        baseline = find_baseline_run(self.session, self.run)
        if baseline is None:
            return _Answers([], NO_BASELINE)
        flipped = list_flipped_answers(self.session, self.run, baseline, self.queue_filter.size)
        return _Answers(
            [_QueuedAnswer(self.run.id, *answer) for answer in flipped], NOTHING_FLIPPED
        )

    def draw_sample(self) -> _Answers:
        """A random sample; its name is the seed."""
        return _Answers(self._draw(), NO_TRACES)

    def list_new(self) -> _Answers:
        """A random sample of what the annotator had not judged before a time."""
        own = exists().where(
            Annotation.run_id == BenchmarkRun.id,
            Annotation.trace_id == CollectedTrace.trace_id,
            Annotation.annotator == self.annotator,
        )
        if self.queue_filter.since is not None:
            own = own.where(Annotation.created_at < self.queue_filter.since)
        return _Answers(self._draw(~own), ALL_ANNOTATED)

    def _draw(self, *conditions: ColumnElement[bool]) -> list[_QueuedAnswer]:
        # A digest of name and trace is the same on every day and in every version of Postgres. The traces of another
        # night may have the same IDs.
        seed = [self.queue_filter.name, "\n", CollectedTrace.trace_id]
        seed += ["\n", BenchmarkRun.id] if self.queue_filter.nights > 1 else []
        statement = (
            select(BenchmarkRun.id, CollectedTrace.trace_id, CollectedTrace.item_id)
            .join(CollectedTrace, CollectedTrace.collection_id == BenchmarkRun.collection_id)
            .where(BenchmarkRun.seq.in_(self._list_nights()), *conditions)
            .order_by(func.md5(func.concat(*seed)), BenchmarkRun.seq, CollectedTrace.position)
            .limit(self.queue_filter.size)
        )
        return [_QueuedAnswer(*row) for row in self.session.execute(statement)]

    def _list_nights(self) -> list[int]:
        """The run, and the runs of its agent before it that have their traces and new ones."""
        run, more = self.run, self.queue_filter.nights - 1
        earlier = (
            select(BenchmarkRun.seq)
            .where(
                BenchmarkRun.benchmark_id == run.benchmark_id,
                BenchmarkRun.agent_id == run.agent_id,
                BenchmarkRun.seq < run.seq,
                BenchmarkRun.status == RunStatus.COMPLETED,
                BenchmarkRun.purged_at.is_(None),
                BenchmarkRun.rescore_of.is_(None),
                BenchmarkRun.same_data_as.is_(None),
            )
            .order_by(BenchmarkRun.seq.desc())
            .limit(more)
        )
        return [run.seq, *(self.session.scalars(earlier) if more else ())]

    def list_disagreements(self) -> _Answers:
        """Answers that are right by one metric and wrong by another one."""
        metrics = list_rated_metrics(self.run)
        chosen = _choose_metrics(metrics, self.queue_filter)
        if chosen is None:
            return _Answers([], ONE_JUDGE)
        columns = list(self.run.metric_keys or [])
        first, second = (_goodness(columns, metrics[name]) for name in chosen)
        differ = or_(
            and_(first >= RIGHT_FROM, second < RIGHT_FROM),
            and_(first < RIGHT_FROM, second >= RIGHT_FROM),
        )
        statement = (
            select(CollectedTrace.trace_id, CollectedTrace.item_id)
            .join(
                TraceResult,
                (TraceResult.run_seq == self.run.seq)
                & (TraceResult.position == CollectedTrace.position),
            )
            .where(CollectedTrace.collection_id == self.run.collection_id, differ)
            .order_by(func.abs(first - second).desc(), CollectedTrace.position)
            .limit(self.queue_filter.size)
        )
        answers = [_QueuedAnswer(self.run.id, *row) for row in self.session.execute(statement)]
        return _Answers(answers, f"{chosen[0]} and {chosen[1]} call the same answers right", chosen)


def list_rated_metrics(run: BenchmarkRun) -> dict[str, RatedMetric]:
    """The metrics of a run with a worst and a best value, by column: they say right or wrong."""
    metrics = {}
    for metric in run.plan.metrics if run.plan else ():
        try:
            spec = spec_of(metric)
        except AppError:
            # Its plugin is gone.
            continue
        worst, best = spec.minimum, spec.maximum
        if spec.direction is Direction.LOWER_IS_BETTER:
            worst, best = best, worst
        if worst is None or best is None or worst == best or spec.direction is Direction.NEITHER:
            continue
        if metric.column in (run.metric_keys or ()):
            metrics[metric.column] = RatedMetric(metric.column, worst, best)
    return metrics


def _choose_metrics(
    metrics: Mapping[str, RatedMetric], queue_filter: QueueFilter
) -> tuple[str, str] | None:
    """The named metrics; in place of a name the first judge, without another one the first other metric. Raises: `Invalid`."""
    names = (queue_filter.first, queue_filter.second)
    for name in filter(None, names):
        if name not in metrics:
            raise Invalid(
                f"{name!r} is no metric of the run that says right or wrong; those are"
                f" {', '.join(metrics) or 'none'}"
            )
    if names[0] is not None and names[0] == names[1]:
        raise Invalid(f"{names[0]!r} is named twice; name two metrics")
    judges = [column for column in metrics if judgement_of(column)]
    ordered = [*judges, *(column for column in metrics if column not in judges)]
    if len(ordered) <= 1 or (not judges and not all(names)):
        return None
    first = names[0] or next(column for column in ordered if column != names[1])
    return first, names[1] or next(column for column in ordered if column != first)


def _goodness(columns: list[str], metric: RatedMetric) -> ColumnElement[float]:
    # Arrays of Postgres count from 1.
    value: Any = TraceResult.values[columns.index(metric.column) + 1]
    goodness: ColumnElement[float] = (value - metric.worst) / (metric.best - metric.worst)
    return goodness


_QUEUES: Final[Mapping[QueueKind, Callable[[_QueueReader], _Answers]]] = {
    QueueKind.FLIPPED: _QueueReader.list_flipped,
    QueueKind.SAMPLE: _QueueReader.draw_sample,
    QueueKind.JUDGES: _QueueReader.list_disagreements,
    QueueKind.NEW: _QueueReader.list_new,
}
