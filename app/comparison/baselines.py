"""What a run is compared with: the run that somebody pinned, or valid ones before it."""

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

# A rescored run stands where the run stood whose traces it judges.
_ORIGIN = aliased(BenchmarkRun)
_POSITION = func.coalesce(_ORIGIN.seq, BenchmarkRun.seq)


class BaselineUnfit(Conflict):
    """The run cannot be a baseline; name a completed, valid run whose traces are still there."""

    code = "baseline-unfit"


class EarlierRun(NamedTuple):
    """A valid run that later ones may be compared with."""

    seq: int
    id: str
    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The runs that another is compared with, newest first, at least one; `mode` says why these."""

    mode: str
    runs: Sequence[EarlierRun]


def pin_baseline(
    session: Session, benchmark_id: str, run_id: str, now: datetime
) -> BenchmarkBaseline:
    """Compare the runs of an agent with this one of its runs from now on.

    Raises: `Invalid` for a run of another benchmark, `BaselineUnfit` for one that says nothing.
    """
    run = get_run(session, run_id, for_update=True)
    if run.benchmark_id != benchmark_id:
        raise Invalid(
            f"the run {run_id} is one of the benchmark {run.benchmark_id!r};"
            f" name a run of {benchmark_id!r}"
        )
    _require_fit(run)
    pinned = {"run_id": run_id, "pinned_at": now}
    statement = (
        insert(BenchmarkBaseline)
        .values(benchmark_id=benchmark_id, agent_id=run.agent_id, **pinned)
        .on_conflict_do_update(index_elements=["benchmark_id", "agent_id"], set_=pinned)
        .returning(BenchmarkBaseline)
    )
    return session.scalars(statement, execution_options={"populate_existing": True}).one()


def unpin_baseline(session: Session, benchmark_id: str, agent_id: str | None) -> None:
    """Forget what was pinned, of one agent or of all."""
    statement = delete(BenchmarkBaseline).where(BenchmarkBaseline.benchmark_id == benchmark_id)
    if agent_id is not None:
        statement = statement.where(BenchmarkBaseline.agent_id == agent_id)
    session.execute(statement)


def pinned_baselines(session: Session, benchmark_id: str) -> list[BenchmarkBaseline]:
    """The pinned runs of a benchmark, by agent."""
    statement = select(BenchmarkBaseline).where(BenchmarkBaseline.benchmark_id == benchmark_id)
    return list(session.scalars(statement.order_by(BenchmarkBaseline.agent_id)))


def find_baseline(session: Session, run_id: str, plan: RunPlan) -> Baseline | None:
    """What a run is compared with; None where there is no earlier valid run.

    A rescored run stands where the run stood whose traces it judges. Runs whose numbers mean the
    same go before those whose numbers do not.
    """
    run = get_run(session, run_id)
    pinned = session.get(BenchmarkBaseline, (run.benchmark_id, run.agent_id))
    if pinned is not None and pinned.run_id != run_id:
        return Baseline(mode=PINNED, runs=[_earlier(get_run(session, pinned.run_id))])
    mode = BaselineMode(plan.baseline.mode)
    wanted = plan.baseline.runs if mode is BaselineMode.MEAN_OF_LAST else 1
    runs = valid_runs_before(session, run, wanted)
    return Baseline(mode=mode, runs=runs) if runs else None


def valid_runs_before(session: Session, run: BenchmarkRun, most: int) -> list[EarlierRun]:
    """The last valid runs before one, newest first; all of the same fingerprint."""
    same = BenchmarkRun.fingerprint.is_not_distinct_from(run.fingerprint)
    statement = _valid_before(session, run)
    statement = statement.order_by(same.desc(), _POSITION.desc(), BenchmarkRun.seq.desc())
    return _one_each(session.execute(statement.limit(2 * most)).all(), most)


def last_valid_runs(session: Session, run: BenchmarkRun, most: int) -> list[BenchmarkRun]:
    """The last valid runs before one, newest first, whatever they mean."""
    statement = _valid_before(session, run).order_by(_POSITION.desc(), BenchmarkRun.seq.desc())
    return [found for found, _ in session.execute(statement.limit(most))]


def _valid_before(session: Session, run: BenchmarkRun) -> Select[BenchmarkRun, int]:
    return (
        select(BenchmarkRun, _POSITION)
        .outerjoin(_ORIGIN, _ORIGIN.id == BenchmarkRun.rescore_of)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
            _position(session, run) > _POSITION,
        )
    )


def _one_each(found: Sequence[Row[BenchmarkRun, int]], most: int) -> list[EarlierRun]:
    """The newest judgement of each run of the agent, as far as they mean the same as the first."""
    runs: dict[int, BenchmarkRun] = {}
    for run, position in found:
        if run.fingerprint == found[0][0].fingerprint:
            runs.setdefault(position, run)
    return [_earlier(run) for run in list(runs.values())[:most]]


def _position(session: Session, run: BenchmarkRun) -> int:
    return get_run(session, run.rescore_of).seq if run.rescore_of else run.seq


def _earlier(run: BenchmarkRun) -> EarlierRun:
    return EarlierRun(run.seq, run.id, RunPlan.model_validate(run.plan))


def _require_fit(run: BenchmarkRun) -> None:
    lacks = None
    if run.status != RunStatus.COMPLETED:
        lacks = f"is {run.status}"
    elif run.validity != Validity.VALID:
        lacks = "is not valid: " + "; ".join(run.validity_reasons or [])
    elif run.purged_at is not None:
        lacks = "was purged: its traces are gone"
    if lacks is not None:
        raise BaselineUnfit(
            f"the run {run.id} {lacks}; name a completed, valid run whose traces are still there"
        )
