"""The judges of a benchmark against people: agreement, bias, drift, and the mean of their scores, corrected by annotations."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import list_judged_answers
from mosaico.annotations.queues import share_metrics
from mosaico.annotations.schemas import (
    AnswerJudgement,
    CorrectedMeanView,
    JudgeDriftView,
    JudgeMeasure,
    JudgeView,
)
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison.baselines import list_last_valid_runs
from mosaico.comparison.child_process import query_in_child
from mosaico.comparison.deciders import judgement_of
from mosaico.core.db import Database
from mosaico.items.queries import read_items
from mosaico.run_store.deciding_metric import RIGHT_FROM, DecidingMetric
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus

if TYPE_CHECKING:
    from mosaico.items.matrix import ItemMatrix
    from mosaico.statistics.corrected_mean import CorrectedMean, JudgedItems
    from mosaico.statistics.intervals import Interval
    from mosaico.statistics.judge_agreement import AnnotatedAnswers, Measure

# The newest annotated runs of a benchmark; older ones may have had another judge.
MAX_RUNS: Final = 20
# What an annotation says as a share.
WORTH: Final = {AnswerJudgement.RIGHT: 1.0, AnswerJudgement.PARTLY: 0.5, AnswerJudgement.WRONG: 0.0}


class _Answer(NamedTuple):
    """An annotated answer: its run and item, the share of the judge, and the mean of what annotators say."""

    run_id: str
    item_id: str
    score: float
    annotation: float


def list_judges(
    db: Database, benchmark_id: str, min_agreement: float | None = None
) -> list[JudgeView]:
    """The judges of the newest completed run of a benchmark, in the order of its metrics; none without such a run.

    Raises: `BenchmarkNotFound`, and the errors of `query_in_child`.
    """
    with db.read() as session:
        get_benchmark(session, benchmark_id)
        run = newest_run(session, benchmark_id)
        if run is None or not any(judgement_of(column) for column in run.metric_keys or ()):
            return []
    return query_in_child(db, _measure_judges, benchmark_id, min_agreement)


def newest_run(session: Session, benchmark_id: str) -> BenchmarkRun | None:
    """The newest completed run of a benchmark that has its traces."""
    newest = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.purged_at.is_(None),
        )
        .order_by(BenchmarkRun.created_at.desc(), BenchmarkRun.id.desc())
    )
    return session.scalar(newest.limit(1))


def _measure_judges(
    db: Database, benchmark_id: str, min_agreement: float | None
) -> list[JudgeView]:
    with db.read() as session:
        run = newest_run(session, benchmark_id)
        if run is None:
            return []
        annotated = _annotated_runs(session, benchmark_id)
        shares = share_metrics(run)
        return [
            _measure_judge(session, run, annotated, shares[column], min_agreement)
            if column in shares
            else JudgeView(
                metric=column, reason="its scores are no shares between 0 and 1, which annotations are"
            )
            for column in run.metric_keys or ()
            if judgement_of(column)
        ]  # fmt: skip


def _annotated_runs(session: Session, benchmark_id: str) -> list[BenchmarkRun]:
    """The newest runs with annotations and their traces, newest first."""
    annotated = select(Annotation.run_id).where(Annotation.benchmark_id == benchmark_id)
    newest = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.id.in_(annotated),
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.purged_at.is_(None),
        )
        .order_by(BenchmarkRun.created_at.desc(), BenchmarkRun.id.desc())
    )
    return list(session.scalars(newest.limit(MAX_RUNS)))


def _measure_judge(
    session: Session,
    run: BenchmarkRun,
    annotated: Sequence[BenchmarkRun],
    metric: DecidingMetric,
    min_agreement: float | None,
) -> JudgeView:
    # scipy, only in a child process.
    from mosaico.statistics.judge_agreement import measure_agreement

    runs = [other for other in annotated if metric.column in (other.metric_keys or ())]
    answers = [answer for other in runs for answer in _read_answers(session, other, metric)]
    found = measure_agreement(_as_arrays(answers))
    share = found.share.value
    return JudgeView(
        metric=metric.column,
        runs=len({answer.run_id for answer in answers}),
        answers=found.answers,
        items=found.items,
        too_kind=found.too_kind,
        too_strict=found.too_strict,
        share=_view(found.share),
        kappa=_view(found.kappa),
        bias=_view(found.bias),
        correlation=_view(found.correlation),
        drift=_measure_drift(session, run, metric),
        corrected=_correct(session, runs[0], metric, answers) if runs else None,
        # What is not measured is not agreement.
        is_below=None if min_agreement is None else share is None or share < min_agreement,
    )


def _read_answers(session: Session, run: BenchmarkRun, metric: DecidingMetric) -> Iterator[_Answer]:
    """The annotated answers of a run that the judge scored, one for all annotators of each."""
    said = defaultdict[str, list[float]](list)
    scored: dict[str, tuple[str, float]] = {}
    for annotation, value in list_judged_answers(session, run, metric.column):
        if value is not None:
            said[annotation.trace_id].append(WORTH[AnswerJudgement(annotation.judgement)])
            scored[annotation.trace_id] = annotation.item_id, _share(value, metric)
    for trace_id, worths in said.items():
        item_id, score = scored[trace_id]
        yield _Answer(run.id, item_id, score, sum(worths) / len(worths))


def _share(value: float, metric: DecidingMetric) -> float:
    return 1.0 - value if metric.less_is_better else value


def _as_arrays(answers: Sequence[_Answer]) -> "AnnotatedAnswers":
    import numpy as np

    from mosaico.statistics.judge_agreement import AnnotatedAnswers

    numbers = {item: number for number, item in enumerate({row.item_id for row in answers})}
    return AnnotatedAnswers(
        scores=np.array([row.score for row in answers], dtype=np.float64),
        annotations=np.array([row.annotation for row in answers], dtype=np.float64),
        units=np.array([numbers[row.item_id] for row in answers], dtype=np.intp),
        limit=RIGHT_FROM,
    )


def _measure_drift(
    session: Session, run: BenchmarkRun, metric: DecidingMetric
) -> JudgeDriftView | None:
    """The drift since the last valid run before it; None without one, or without an equal answer."""
    import numpy as np

    from mosaico.statistics.judge_drift import JudgedAnswers, measure_drift

    before = next(iter(list_last_valid_runs(session, run, 1)), None)
    if before is None or metric.column not in (before.metric_keys or ()) or before.purged_at:
        return None
    numbers: dict[str, int] = {}
    judged = []
    for one in (before, run):
        columns = {one.seq: one.metric_keys or []}
        matrix = read_items(session, columns, [metric.column], has_answers=True)
        items = [numbers.setdefault(item, len(numbers)) for item in matrix.items]
        judged.append(
            JudgedAnswers(
                np.asarray(matrix.values[metric.column], dtype=np.float64),
                np.array([items[index] for index in matrix.item_index], dtype=np.intp),
                np.asarray(matrix.answers, dtype=np.intp),
            )
        )
    measured = measure_drift(judged[0], judged[1])
    if measured is None:
        return None
    return JudgeDriftView(
        before_run_id=before.id,
        run_id=run.id,
        answers=measured.drift.answers,
        changed=measured.drift.changed,
        shift=measured.drift.shift,
        low=measured.interval and measured.interval.low,
        high=measured.interval and measured.interval.high,
    )


def _correct(
    session: Session, run: BenchmarkRun, metric: DecidingMetric, answers: Sequence[_Answer]
) -> CorrectedMeanView:
    """The corrected mean of the scores of the newest annotated run."""
    from mosaico.statistics.corrected_mean import correct_mean

    matrix = read_items(
        session,
        {run.seq: run.metric_keys or []},
        [metric.column],
        cluster_field=run.plan.cluster_field if run.plan else None,
    )
    judged = _judged_items(matrix, metric, [row for row in answers if row.run_id == run.id])
    means = [score for score in judged.scores.tolist() if math.isfinite(score)]
    view = _corrected_view(run.id, correct_mean(judged), _mean(means) if means else None)
    if not matrix.left_out:
        return view
    reason = f"the run has {matrix.left_out:,} more items than are read"
    return CorrectedMeanView(
        run_id=run.id, annotated=view.annotated, items=view.items, reason=reason
    )


def _judged_items(
    matrix: "ItemMatrix", metric: DecidingMetric, answers: Sequence[_Answer]
) -> "JudgedItems":
    import numpy as np

    from mosaico.items.flipped import item_means
    from mosaico.statistics.corrected_mean import JudgedItems

    means = item_means(matrix, metric.column)
    scores, annotations = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in answers:
        scores[row.item_id].append(row.score)
        annotations[row.item_id].append(row.annotation)
    names = matrix.clusters or matrix.items
    return JudgedItems(
        scores=np.array(
            [_share(means[item], metric) if item in means else np.nan for item in matrix.items]
        ),
        annotations=np.array([_mean(annotations[item]) for item in matrix.items]),
        annotated_scores=np.array([_mean(scores[item]) for item in matrix.items]),
        units=np.unique(np.array(names, dtype=object), return_inverse=True)[1].astype(np.intp),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _corrected_view(
    run_id: str, corrected: "CorrectedMean", judge_mean: float | None
) -> CorrectedMeanView:
    low, high = _ends(corrected.interval)
    alone_low, alone_high = _ends(corrected.alone)
    return CorrectedMeanView(
        run_id=run_id,
        judge_mean=judge_mean,
        value=corrected.value,
        low=low,
        high=high,
        alone_low=alone_low,
        alone_high=alone_high,
        weight=corrected.weight,
        annotated=corrected.annotated,
        items=corrected.items,
        reason=corrected.reason,
    )


def _view(measure: "Measure") -> JudgeMeasure:
    low, high = _ends(measure.interval)
    return JudgeMeasure(value=measure.value, low=low, high=high, reason=measure.reason)


def _ends(interval: "Interval | None") -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)
