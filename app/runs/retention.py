"""How long runs are kept: as long as their benchmark says."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, literal_column, select
from sqlalchemy.orm import Session

from app.benchmarks.models import Benchmark
from app.runs.models import BenchmarkRun
from app.runs.rules import FINAL
from app.runs.service import delete_run

BATCH = 20
A_DAY: ColumnElement[timedelta] = literal_column("INTERVAL '1 day'")


def purge_old_runs(session: Session, now: datetime) -> int:
    """Delete some of the runs that ended more than the `keepDays` of their benchmark ago; returns
    how many. Call again, in a new transaction, until it is 0.
    """
    too_old = BenchmarkRun.completed_at < now - Benchmark.keep_days * A_DAY
    statement = (
        select(BenchmarkRun.id)
        .join(Benchmark, Benchmark.id == BenchmarkRun.benchmark_id)
        .where(Benchmark.keep_days.is_not(None), BenchmarkRun.status.in_(FINAL), too_old)
        .order_by(BenchmarkRun.seq)
        .limit(BATCH)
    )
    run_ids = list(session.scalars(statement))
    for run_id in run_ids:
        delete_run(session, run_id)
    return len(run_ids)
