"""A judge against people: agreement, bias, drift, and the mean of its scores, corrected by annotations. Imports numpy."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from sqlalchemy.orm import Session

from mosaico.annotations.judge_answers import AnnotatedAnswer, mean_or_nan, read_answers
from mosaico.annotations.queues import RatedMetric
from mosaico.annotations.schemas import (
    CorrectedMeanView,
    JudgeDriftView,
    JudgeMeasure,
    JudgeView,
)
from mosaico.comparison.baselines import list_last_valid_runs
from mosaico.items.flipped import item_means
from mosaico.items.matrix import ItemMatrix
from mosaico.items.queries import read_items
from mosaico.run_store.deciding_metric import RIGHT_FROM
from mosaico.run_store.models import BenchmarkRun
from mosaico.statistics.corrected_mean import CorrectedMean, JudgedItems, correct_mean
from mosaico.statistics.intervals import Interval
from mosaico.statistics.judge_agreement import (
    AnnotatedAnswers,
    MeasuredAgreement,
    measure_agreement,
)
from mosaico.statistics.judge_drift import AnswerScores, measure_drift


def measure_judge(
    session: Session,
    run: BenchmarkRun,
    runs: Sequence[BenchmarkRun],
    metric: RatedMetric,
    min_agreement: float | None,
) -> JudgeView:
    """A judge of a run against the annotations of some runs that it scored, newest first."""
    answers = read_answers(session, runs, metric)
    agreement = measure_agreement(as_arrays(answers))
    share = agreement.share.value
    return JudgeView(
        metric=metric.column,
        runs=len({answer.run_id for answer in answers}),
        answers=agreement.answers,
        items=agreement.items,
        too_kind=agreement.too_kind,
        too_strict=agreement.too_strict,
        share=_view(agreement.share),
        kappa=_view(agreement.kappa),
        bias=_view(agreement.bias),
        correlation=_view(agreement.correlation),
        drift=_measure_drift(session, run, metric),
        corrected=_correct(session, runs[0], metric, answers) if runs else None,
        # What is not measured is not agreement.
        is_below=None if min_agreement is None else share is None or share < min_agreement,
    )


def as_arrays(answers: Sequence[AnnotatedAnswer]) -> AnnotatedAnswers:
    """What a judge and people say of the same answers, by item."""
    numbers = {item: number for number, item in enumerate({row.item_id for row in answers})}
    return AnnotatedAnswers(
        scores=np.array([row.score for row in answers], dtype=np.float64),
        annotations=np.array([row.annotation for row in answers], dtype=np.float64),
        units=np.array([numbers[row.item_id] for row in answers], dtype=np.intp),
        limit=RIGHT_FROM,
    )


def _measure_drift(
    session: Session, run: BenchmarkRun, metric: RatedMetric
) -> JudgeDriftView | None:
    """The drift since the last valid run before it; None without one, or without an equal answer."""
    before = next(iter(list_last_valid_runs(session, run, 1)), None)
    if before is None or metric.column not in (before.metric_keys or ()) or before.purged_at:
        return None
    # An item with another task is another item.
    numbers: dict[tuple[str, str], int] = {}
    judged = []
    for one in (before, run):
        columns = {one.seq: one.metric_keys or []}
        matrix = read_items(session, columns, [metric.column], has_answers=True)
        tasks = zip(matrix.items, matrix.revisions, strict=True)
        items = [numbers.setdefault(task, len(numbers)) for task in tasks]
        judged.append(
            AnswerScores(
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
    session: Session, run: BenchmarkRun, metric: RatedMetric, answers: Sequence[AnnotatedAnswer]
) -> CorrectedMeanView:
    """The corrected mean of the scores of the newest annotated run."""
    matrix = read_items(
        session,
        {run.seq: run.metric_keys or []},
        [metric.column],
        cluster_field=run.plan.cluster_field if run.plan else None,
    )
    judged = _judged_items(matrix, metric, [row for row in answers if row.run_id == run.id])
    means = [score for score in judged.scores.tolist() if math.isfinite(score)]
    view = _corrected_view(run.id, correct_mean(judged), mean_or_nan(means) if means else None)
    if not matrix.left_out:
        return view
    reason = f"the run has {matrix.left_out:,} more items than are read"
    return CorrectedMeanView(
        run_id=run.id, annotated=view.annotated, items=view.items, reason=reason
    )


def _judged_items(
    matrix: ItemMatrix, metric: RatedMetric, answers: Sequence[AnnotatedAnswer]
) -> JudgedItems:
    means = item_means(matrix, metric.column)
    scores, annotations = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in answers:
        scores[row.item_id].append(row.score)
        annotations[row.item_id].append(row.annotation)
    names = matrix.clusters or matrix.items
    return JudgedItems(
        scores=np.array(
            [metric.share_of(means[item]) if item in means else np.nan for item in matrix.items]
        ),
        annotations=np.array([mean_or_nan(annotations[item]) for item in matrix.items]),
        annotated_scores=np.array([mean_or_nan(scores[item]) for item in matrix.items]),
        units=np.unique(np.array(names, dtype=object), return_inverse=True)[1].astype(np.intp),
    )


def _corrected_view(
    run_id: str, corrected: CorrectedMean, judge_mean: float | None
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


def _view(measure: MeasuredAgreement) -> JudgeMeasure:
    low, high = _ends(measure.interval)
    return JudgeMeasure(value=measure.value, low=low, high=high, reason=measure.reason)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)
