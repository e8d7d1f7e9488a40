"""The annotated answers of a judge: what it and people say of the same answers. Needs no numpy."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, or_, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import list_judged_answers
from mosaico.annotations.queues import RatedMetric
from mosaico.annotations.schemas import AnswerJudgement
from mosaico.run_store.models import BenchmarkRun, RunMetricAggregate
from mosaico.run_store.plan import PlannedMetric
from mosaico.run_store.rules import RunStatus

# The newest annotated traces of a benchmark are those of so many collections.
MAX_RUNS: Final = 20
# What an annotation says as a share.
WORTH: Final = {AnswerJudgement.RIGHT: 1.0, AnswerJudgement.PARTLY: 0.5, AnswerJudgement.WRONG: 0.0}


class AnnotatedAnswer(NamedTuple):
    """An annotated answer: its run and item, the share of the judge, and the mean of what annotators say."""

    run_id: str
    item_id: str
    score: float
    annotation: float


def list_runs_of_judge(
    session: Session, run: BenchmarkRun, metric: PlannedMetric
) -> list[BenchmarkRun]:
    """The newest runs over annotated traces that the judge of a run scored, newest first: a judge of another version is
    another judge. Of several runs over the same traces the newest counts, and the run itself before it has ended, too.
    """
    is_scored = or_(
        BenchmarkRun.id == run.id,
        (BenchmarkRun.status == RunStatus.COMPLETED)
        & _measured(RunMetricAggregate.version == metric.full_version, metric),
    )
    newest = (
        _over_annotated_traces(run)
        .where(is_scored)
        .ext(distinct_on(BenchmarkRun.collection_id))
        .order_by(BenchmarkRun.collection_id, BenchmarkRun.created_at.desc(), BenchmarkRun.seq.desc())
    )  # fmt: skip
    runs = sorted(session.scalars(newest), key=lambda one: (one.created_at, one.seq), reverse=True)
    return runs[:MAX_RUNS]


def has_other_judge(session: Session, run: BenchmarkRun, metric: PlannedMetric) -> bool:
    """Return whether annotated answers of the benchmark were scored by another version of a judge."""
    is_other = _measured(RunMetricAggregate.version != metric.full_version, metric)
    return bool(session.scalar(select(_over_annotated_traces(run).where(is_other).exists())))


def _over_annotated_traces(run: BenchmarkRun) -> Select[BenchmarkRun]:
    annotated = (
        select(BenchmarkRun.collection_id)
        .join(Annotation, Annotation.run_id == BenchmarkRun.id)
        .where(Annotation.benchmark_id == run.benchmark_id)
    )
    return select(BenchmarkRun).where(
        BenchmarkRun.benchmark_id == run.benchmark_id,
        BenchmarkRun.purged_at.is_(None),
        BenchmarkRun.collection_id.in_(annotated),
    )


def _measured(condition: ColumnElement[bool], metric: PlannedMetric) -> ColumnElement[bool]:
    return exists().where(
        RunMetricAggregate.run_seq == BenchmarkRun.seq,
        RunMetricAggregate.metric == metric.column,
        condition,
    )


def read_answers(
    session: Session, runs: Iterable[BenchmarkRun], metric: RatedMetric
) -> list[AnnotatedAnswer]:
    """The annotated answers of some runs that the judge scored, one for all annotators of each."""
    return [answer for run in runs for answer in _answers_of_run(session, run, metric)]


def _answers_of_run(
    session: Session, run: BenchmarkRun, metric: RatedMetric
) -> Iterator[AnnotatedAnswer]:
    said = defaultdict[str, list[float]](list)
    scored: dict[str, tuple[str, float]] = {}
    for annotation, value in list_judged_answers(session, run, metric.column):
        if value is not None:
            said[annotation.trace_id].append(WORTH[AnswerJudgement(annotation.judgement)])
            scored[annotation.trace_id] = annotation.item_id, metric.share_of(value)
    for trace_id, worths in said.items():
        item_id, score = scored[trace_id]
        yield AnnotatedAnswer(run.id, item_id, score, mean_or_nan(worths))


def mean_or_nan(values: Sequence[float]) -> float:
    """The mean; NaN of no value."""
    return sum(values) / len(values) if values else float("nan")
