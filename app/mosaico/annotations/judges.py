"""The judges of a benchmark against people."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queues import list_rated_metrics
from mosaico.annotations.schemas import JudgeView
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison.child_process import query_in_child
from mosaico.comparison.deciders import judgement_of
from mosaico.core.db import Database
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus

# The newest annotated runs of a benchmark; older ones may have had another judge.
MAX_RUNS: Final = 20


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
    # numpy and scipy, only in a child process.
    from mosaico.annotations.judge_measures import measure_judge

    with db.read() as session:
        run = newest_run(session, benchmark_id)
        if run is None:
            return []
        annotated = _annotated_runs(session, benchmark_id)
        rated = list_rated_metrics(run)
        return [
            measure_judge(session, run, annotated, rated[column], min_agreement)
            if column in rated
            else JudgeView(
                metric=column,
                reason='nothing says between which values its scores lie, and which way is better: give the metric the options "range" and "better"',
                is_below=None if min_agreement is None else True,
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
