from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.errors import NotFound
from app.core.pagination import PageQuery, PageRows, paged
from app.runs.models import BenchmarkRun, RunMetric, RunShard, TraceResult
from app.runs.rules import RunStatus
from app.traces.models import CollectedTrace
from app.traces.types import Outcome


class RunNotFound(NotFound):
    """There is no run with this id; GET /api/v1/benchmark-runs lists those there are."""

    code = "run-not-found"


class ScoredTrace(NamedTuple):
    """One row of a run as the aggregates need it."""

    outcome: Outcome
    values: list[float | None]
    notes: dict[str, dict[str, str]] | None


class TraceRow(NamedTuple):
    """A measured trace with its texts."""

    result: TraceResult
    trace: CollectedTrace


def get_run(session: Session, run_id: str, *, for_update: bool = False) -> BenchmarkRun:
    statement = select(BenchmarkRun).where(BenchmarkRun.id == run_id)
    run = session.scalars(statement.with_for_update() if for_update else statement).one_or_none()
    if run is None:
        raise RunNotFound(
            f"there is no run {run_id!r}; GET /api/v1/benchmark-runs lists those there are"
        )
    return run


def list_runs(
    session: Session,
    query: PageQuery,
    *,
    benchmark_id: str | None = None,
    agent_id: str | None = None,
    status: RunStatus | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> PageRows[BenchmarkRun]:
    """Runs, newest first; `since` and `until` bound their creation."""
    statement = select(BenchmarkRun)
    if benchmark_id is not None:
        statement = statement.where(BenchmarkRun.benchmark_id == benchmark_id)
    if agent_id is not None:
        statement = statement.where(BenchmarkRun.agent_id == agent_id)
    if status is not None:
        statement = statement.where(BenchmarkRun.status == status)
    if since is not None:
        statement = statement.where(BenchmarkRun.created_at >= since)
    if until is not None:
        statement = statement.where(BenchmarkRun.created_at < until)
    return paged(session, statement, keys=[BenchmarkRun.seq], query=query)


def get_shard(session: Session, run_seq: int, shard: int) -> RunShard:
    """The shard, locked until the transaction ends."""
    statement = select(RunShard).where(RunShard.run_seq == run_seq, RunShard.shard == shard)
    return session.scalars(statement.with_for_update()).one()


def shard_count(session: Session, run_seq: int) -> int:
    statement = select(func.count()).where(RunShard.run_seq == run_seq)
    return session.scalar(statement) or 0


def metrics_of_run(session: Session, run_seq: int) -> list[RunMetric]:
    statement = select(RunMetric).where(RunMetric.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunMetric.ordinal)))


def results_of_run(session: Session, run: BenchmarkRun, query: PageQuery) -> PageRows[TraceRow]:
    """The measured traces of a run, in the order of their source."""
    statement = select(TraceResult).where(TraceResult.run_seq == run.seq)
    page = paged(session, statement, keys=[TraceResult.position], query=query, descending=False)
    traces = select(CollectedTrace).where(
        CollectedTrace.collection_id == run.collection_id,
        CollectedTrace.position.in_([result.position for result in page.rows]),
    )
    by_position = {trace.position: trace for trace in session.scalars(traces)}
    rows = [TraceRow(result, by_position[result.position]) for result in page.rows]
    return PageRows(rows, page.next_cursor)


def stream_scored(session: Session, run: BenchmarkRun) -> Iterator[ScoredTrace]:
    """Every measured trace of a run, a few thousand in memory at a time."""
    statement = (
        select(CollectedTrace.outcome, TraceResult.values, TraceResult.notes)
        .join(
            CollectedTrace,
            (CollectedTrace.collection_id == run.collection_id)
            & (CollectedTrace.position == TraceResult.position),
        )
        .where(TraceResult.run_seq == run.seq)
        .execution_options(yield_per=2000)
    )
    for outcome, values, notes in session.execute(statement):
        yield ScoredTrace(Outcome(outcome), values, notes)
