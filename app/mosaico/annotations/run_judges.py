"""The judges of a run that ends: how far they agree with people, and the means of their scores that annotations correct.

The annotated answers are those that the same version of the judge scored, of this run and of earlier ones, up to the
moment at which the run ends. People annotate later, so that these annotations count from the next run on; a run over the
same traces (`mosaico runs rescore`) reads them, too. Needs no numpy.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from mosaico.annotations.judge_answers import (
    has_other_judge,
    list_runs_of_judge,
    read_answers,
)
from mosaico.annotations.judges import UNRATED
from mosaico.annotations.measured_judge import CorrectedShare, JudgeScores, MeasuredJudge
from mosaico.annotations.queues import RatedMetric, list_rated_metrics
from mosaico.formula import read_reference
from mosaico.items.flipped import item_means
from mosaico.items.queries import read_items
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.lost_calls import CallLost
from mosaico.kpis.evaluate import KpiValue, PlannedKpi
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.metrics.judgements import judgement_of
from mosaico.metrics.registry import column_of
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.queries import get_run

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 120.0
OTHER_JUDGE: Final = "the annotated answers have scores of another version of this judge only"
RESCORE: Final = "rescore a run with annotated answers, or annotate new ones"


@dataclass(frozen=True, slots=True)
class RunJudges:
    """The judges of a run against people, by the column of their metric; none where the benchmark asks for nothing."""

    by_column: Mapping[str, MeasuredJudge]

    @property
    def agreements(self) -> dict[str, PeopleAgreement]:
        return {column: judge.agreement for column, judge in self.by_column.items()}

    def of_kpi(self, kpi: PlannedKpi) -> MeasuredJudge | None:
        """The judge whose mean score a corrected KPI is; None for any other KPI."""
        return self.by_column.get(_column_of(kpi)) if kpi.corrected else None


def measure_judges_of_run(
    job: JobContext, run_id: str, plan: RunPlan, kpis: Sequence[KpiValue]
) -> RunJudges:
    """The judges of a run whose traces are all measured. Reads, and computes in a child process."""
    corrected = {_column_of(value.kpi) for value in kpis if value.kpi.corrected}
    metrics = [
        metric
        for metric in plan.metrics
        if judgement_of(metric.column)
        and (plan.min_agreement is not None or metric.column in corrected)
    ]
    if not metrics:
        return RunJudges({})
    with job.resources.db.read() as session:
        run = get_run(session, run_id)
        scales = list_rated_metrics(run)
        rated = [metric for metric in metrics if metric.column in scales]
        judges = [
            _read_scores(session, run, metric, scales, has_kpi=metric.column in corrected)
            for metric in rated
        ]
        others = {metric.column for metric in rated if has_other_judge(session, run, metric)}
    measured = _measure(job, run_id, plan, judges)
    by_column = {metric.column: _unmeasured(plan, metric.column, UNRATED) for metric in metrics}
    for column, judge in measured.items():
        is_other = judge.agreement.answers == 0 and column in others
        known = _unmeasured(plan, column, OTHER_JUDGE, RESCORE) if is_other else judge
        by_column[column] = known._replace(scale=scales[column])
    return RunJudges(by_column)


def _column_of(kpi: PlannedKpi) -> str:
    """The metric of a corrected KPI, whose formula is nothing else."""
    reference = read_reference(kpi.formula)
    return column_of(reference.key) if reference else ""


def _read_scores(
    session: Session,
    run: BenchmarkRun,
    metric: PlannedMetric,
    scales: Mapping[str, RatedMetric],
    *,
    has_kpi: bool,
) -> JudgeScores:
    column, scale = metric.column, scales[metric.column]
    answers = read_answers(session, list_runs_of_judge(session, run, metric), scale)
    # Without annotations there is nothing to correct by.
    if not has_kpi or not answers:
        return JudgeScores(column, answers, {}, {})
    plan = run.begun_plan
    matrix = read_items(
        session,
        {run.seq: plan.columns},
        [column],
        cluster_field=plan.cluster_field,
        is_sample=plan.is_sample,
    )
    scores = {item: scale.share_of(mean) for item, mean in item_means(matrix, column).items()}
    clusters = dict(zip(matrix.items, matrix.clusters, strict=True)) if matrix.clusters else {}
    return JudgeScores(column, answers, scores, clusters, matrix.left_out)


def _measure(
    job: JobContext, run_id: str, plan: RunPlan, judges: Sequence[JudgeScores]
) -> dict[str, MeasuredJudge]:
    job.checkpoint()
    try:
        measured = job.pool.run(_measure_in_child, judges, plan.min_agreement, timeout_s=TIMEOUT_S)
    except CallLost as error:
        job.checkpoint()
        log.warning("the judges of run %s could not be compared with people", run_id, exc_info=True)
        reason = f"it could not be computed: {error}"
        return {judge.column: _unmeasured(plan, judge.column, reason) for judge in judges}
    return {judge.agreement.metric: judge for judge in measured}


def _measure_in_child(
    judges: Sequence[JudgeScores], min_agreement: float | None
) -> list[MeasuredJudge]:
    # numpy, only in a child process.
    from mosaico.annotations.run_judge_measures import measure_run_judge

    return [measure_run_judge(judge, min_agreement) for judge in judges]


def _unmeasured(
    plan: RunPlan, column: str, reason: str, remedy: str | None = None
) -> MeasuredJudge:
    agreement = PeopleAgreement(
        metric=column,
        answers=0,
        items=0,
        reason=": ".join(filter(None, (reason, remedy))),
        min_agreement=plan.min_agreement,
    )
    return MeasuredJudge(agreement, CorrectedShare(reason=reason, remedy=remedy))
