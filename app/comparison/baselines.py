"""Baselines of runs: the pinned run of an agent, or valid runs before the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased

from app.benchmarks.schemas import BaselineMode
from app.core.errors import Conflict, Invalid
from app.results.models import BenchmarkBaseline, BenchmarkRun
from app.results.plan import RunPlan
from app.results.queries import get_run
from app.results.rules import RunStatus, Validity

PINNED = "PINNED"

# A rescored run takes the position of the run whose traces it judges again: it is no newer result
# of the agent.
_ORIGIN = aliased(BenchmarkRun)
_POSITION = func.coalesce(_ORIGIN.seq, BenchmarkRun.seq)


class UnsuitableBaseline(Conflict):
    """The run cannot be a baseline; name a completed, valid run whose traces still exist."""

    code = "baseline-unfit"


class BaselineRun(NamedTuple):
    """A run of a baseline."""

    seq: int
    id: str
    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The runs that another run is compared with, newest first, at least one.

    `mode` says why these were selected.
    """

    mode: str
    runs: Sequence[BaselineRun]


def pin_baseline(
    session: Session, benchmark_id: str, run_id: str, now: datetime
) -> BenchmarkBaseline:
    """Pins a run as the baseline of later runs of its agent.

    Raises: `Invalid` for a run of another benchmark, `UnsuitableBaseline` for a run that is not
    completed, not valid or purged.
    """
    # The lock keeps the run from being purged or deleted before it is pinned.
    run = get_run(session, run_id, for_update=True)
    if run.benchmark_id != benchmark_id:
        raise Invalid(
            f"the run {run_id} belongs to the benchmark {run.benchmark_id!r};"
            f" name a run of {benchmark_id!r}"
        )
    _require_suitable(run)
    pinned = {"run_id": run_id, "pinned_at": now}
    statement = (
        insert(BenchmarkBaseline)
        .values(benchmark_id=benchmark_id, agent_id=run.agent_id, **pinned)
        .on_conflict_do_update(index_elements=["benchmark_id", "agent_id"], set_=pinned)
        .returning(BenchmarkBaseline)
    )
    return session.scalars(statement, execution_options={"populate_existing": True}).one()


def unpin_baseline(session: Session, benchmark_id: str, agent_id: str | None) -> None:
    """Deletes the pinned baseline of an agent, or of all agents."""
    statement = delete(BenchmarkBaseline).where(BenchmarkBaseline.benchmark_id == benchmark_id)
    if agent_id is not None:
        statement = statement.where(BenchmarkBaseline.agent_id == agent_id)
    session.execute(statement)


def list_pinned_baselines(session: Session, benchmark_id: str) -> list[BenchmarkBaseline]:
    """The pinned runs of a benchmark, by agent."""
    statement = select(BenchmarkBaseline).where(BenchmarkBaseline.benchmark_id == benchmark_id)
    return list(session.scalars(statement.order_by(BenchmarkBaseline.agent_id)))


def find_baseline(session: Session, run_id: str, plan: RunPlan) -> Baseline | None:
    """The baseline of a run; None when there is no earlier valid run.

    Runs with the fingerprint of the run take precedence over other valid runs.
    """
    run = get_run(session, run_id)
    pinned = session.get(BenchmarkBaseline, (run.benchmark_id, run.agent_id))
    # The pinned run itself, when it is rescored or judged again, is compared like any other.
    if pinned is not None and pinned.run_id != run_id:
        return Baseline(mode=PINNED, runs=[_baseline_run(get_run(session, pinned.run_id))])
    mode = BaselineMode(plan.baseline.mode)
    limit = plan.baseline.runs if mode is BaselineMode.MEAN_OF_LAST else 1
    runs = list_valid_runs_before(session, run, limit)
    return Baseline(mode=mode, runs=runs) if runs else None


def list_valid_runs_before(session: Session, run: BenchmarkRun, limit: int) -> list[BaselineRun]:
    """The last valid runs before a run, newest first, all with the same fingerprint."""
    has_same_fingerprint = BenchmarkRun.fingerprint.is_not_distinct_from(run.fingerprint)
    statement = _valid_runs_before(session, run).order_by(
        has_same_fingerprint.desc(), _POSITION.desc(), BenchmarkRun.seq.desc()
    )
    # Twice as many, because rescored runs share a position and only one of each is kept.
    return _newest_per_position(session.execute(statement.limit(2 * limit)).all(), limit)


def list_last_valid_runs(session: Session, run: BenchmarkRun, limit: int) -> list[BenchmarkRun]:
    """The last valid runs before a run, newest first, with any fingerprint."""
    statement = _valid_runs_before(session, run)
    statement = statement.order_by(_POSITION.desc(), BenchmarkRun.seq.desc()).limit(limit)
    return [earlier for earlier, _ in session.execute(statement)]


def _valid_runs_before(session: Session, run: BenchmarkRun) -> Select[BenchmarkRun, int]:
    position = get_run(session, run.rescore_of).seq if run.rescore_of else run.seq
    return (
        select(BenchmarkRun, _POSITION)
        .outerjoin(_ORIGIN, _ORIGIN.id == BenchmarkRun.rescore_of)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
            # By position: a rescored run must not be compared with runs that came after its origin.
            position > _POSITION,
        )
    )


def _newest_per_position(rows: Sequence[Row[BenchmarkRun, int]], limit: int) -> list[BaselineRun]:
    """The newest run of each position that has the fingerprint of the first row."""
    runs: dict[int, BenchmarkRun] = {}
    for run, position in rows:
        if run.fingerprint == rows[0][0].fingerprint:
            runs.setdefault(position, run)
    return [_baseline_run(run) for run in list(runs.values())[:limit]]


def _baseline_run(run: BenchmarkRun) -> BaselineRun:
    return BaselineRun(run.seq, run.id, RunPlan.model_validate(run.plan))


def _require_suitable(run: BenchmarkRun) -> None:
    flaw = None
    if run.status != RunStatus.COMPLETED:
        flaw = f"is {run.status}"
    elif run.validity != Validity.VALID:
        flaw = "is not valid: " + "; ".join(run.validity_reasons or [])
    elif run.purged_at is not None:
        flaw = "was purged and has no traces"
    if flaw is not None:
        raise UnsuitableBaseline(
            f"the run {run.id} {flaw}; name a completed, valid run whose traces still exist"
        )
