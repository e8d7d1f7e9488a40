"""The judges of a benchmark against people."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.annotations.judge_answers import list_runs_of_judge
from mosaico.annotations.queues import list_rated_metrics
from mosaico.annotations.schemas import JudgeView
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison.child_process import query_in_child
from mosaico.core.db import Database
from mosaico.metrics.judgements import judgement_of
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus

UNRATED: Final = (
    "nothing says between which values its scores lie, and which way is better: give the metric the options"
    ' "range" and "better"'
)


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
    return next(iter(list_newest_runs(session, benchmark_id, 1)), None)


def list_newest_runs(session: Session, benchmark_id: str, limit: int) -> list[BenchmarkRun]:
    """The newest completed runs of a benchmark that have their traces, newest first."""
    newest = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.purged_at.is_(None),
        )
        .order_by(BenchmarkRun.created_at.desc(), BenchmarkRun.id.desc())
    )
    return list(session.scalars(newest.limit(limit)))


def _measure_judges(
    db: Database, benchmark_id: str, min_agreement: float | None
) -> list[JudgeView]:
    # numpy, only in a child process.
    from mosaico.annotations.judge_measures import measure_judge

    with db.read() as session:
        run = newest_run(session, benchmark_id)
        if run is None:
            return []
        rated = list_rated_metrics(run)
        return [
            measure_judge(
                session, run, list_runs_of_judge(session, run, metric), rated[metric.column], min_agreement
            )
            if metric.column in rated
            else JudgeView(
                metric=metric.column,
                reason=UNRATED,
                is_below=None if min_agreement is None else True,
            )
            for metric in run.begun_plan.metrics
            if judgement_of(metric.column)
        ]  # fmt: skip
