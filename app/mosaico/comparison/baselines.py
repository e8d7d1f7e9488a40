"""Baselines of runs: the pinned run of an agent, or valid runs before the run."""

from datetime import datetime

from sqlalchemy import ColumnElement, Select, exists, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.orm import Session, aliased

from mosaico.benchmarks.config_types import BaselineMode
from mosaico.comparison.baseline_runs import Baseline, BaselineRun
from mosaico.core.batch_delete import delete_all
from mosaico.core.errors import Conflict, Invalid
from mosaico.kpis.verdict_types import BaselineSelection
from mosaico.run_store.models import POSITION, BenchmarkBaseline, BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.plan_differences import compare_plans
from mosaico.run_store.queries import get_run
from mosaico.run_store.rules import BaselineHold, RunStatus, Validity

# In place of a run ID, which the service makes: it is never this word.
LATEST = "latest"
# Of the list of a benchmark: each agent may have one.
MAX_PINNED = 1_000
# Built once: SQLAlchemy builds each column of an alias anew.
_OTHER_RUN = aliased(BenchmarkRun)


class UnsuitableBaseline(Conflict):
    """The run cannot be a baseline; name a completed, valid run whose traces still exist."""

    code = "baseline-unfit"


def pin_baseline(
    session: Session, benchmark_id: str, run_id: str, now: datetime
) -> BenchmarkBaseline:
    """Pins a run, or the newest suitable one, as the baseline of later runs of its agent.

    Raises: `Invalid` for a run of another benchmark, `UnsuitableBaseline` for a run that is not
    completed, not valid, purged, or regressed and not accepted, and for `latest` without any other.
    """
    if run_id == LATEST:
        run_id = _newest_suitable_run(session, benchmark_id)
    # The lock keeps the run from being purged or deleted before it is pinned.
    run = get_run(session, run_id, for_update=True)
    if run.benchmark_id != benchmark_id:
        raise Invalid(
            f"the run {run_id} belongs to the benchmark {run.benchmark_id!r};"
            f" name a run of {benchmark_id!r}"
        )
    _require_suitable(session, run)
    pinned = {"run_id": run_id, "pinned_at": now}
    statement = (
        insert(BenchmarkBaseline)
        .values(benchmark_id=benchmark_id, agent_id=run.agent_id, **pinned)
        .on_conflict_do_update(index_elements=["benchmark_id", "agent_id"], set_=pinned)
        .returning(BenchmarkBaseline)
    )
    return session.scalars(statement, execution_options={"populate_existing": True}).one()


def get_pin_of_run(session: Session, benchmark_id: str, run_id: str) -> BenchmarkBaseline | None:
    """The pin of a run; None if the run is not the baseline of its agent."""
    return session.scalar(
        select(BenchmarkBaseline).where(
            BenchmarkBaseline.benchmark_id == benchmark_id, BenchmarkBaseline.run_id == run_id
        )
    )


def unpin_baseline(session: Session, benchmark_id: str, agent_id: str | None) -> None:
    """Deletes the pinned baseline of an agent, or of all agents."""
    is_unpinned = BenchmarkBaseline.benchmark_id == benchmark_id
    if agent_id is not None:
        is_unpinned &= BenchmarkBaseline.agent_id == agent_id
    delete_all(session, BenchmarkBaseline, is_unpinned)


def list_pinned_baselines(session: Session, benchmark_id: str) -> list[BenchmarkBaseline]:
    """The pinned runs of a benchmark, by agent; those of its first `MAX_PINNED` agents."""
    key = tuple_(BenchmarkBaseline.benchmark_id, BenchmarkBaseline.agent_id)
    statement = (
        select(BenchmarkBaseline)
        # From a key on, in the order of the key: otherwise the planner may read the rows of other benchmarks.
        .where(key > tuple_(literal(benchmark_id), literal("")))
        .order_by(BenchmarkBaseline.benchmark_id, BenchmarkBaseline.agent_id)
        .limit(MAX_PINNED)
    )
    return [row for row in session.scalars(statement) if row.benchmark_id == benchmark_id]


def is_pinned(session: Session, run: BenchmarkRun) -> bool:
    """Return whether a run is the pinned baseline of its agent."""
    pinned = _find_pin(session, run)
    return pinned is not None and pinned.run_id == run.id


def _find_pin(session: Session, run: BenchmarkRun) -> BenchmarkBaseline | None:
    """The pinned baseline of the agent of a run."""
    return session.get(BenchmarkBaseline, (run.benchmark_id, run.agent_id))


def find_baseline(session: Session, run: BenchmarkRun, plan: RunPlan) -> Baseline | None:
    """The baseline of a run; None when no earlier valid run can be one.

    Runs with the fingerprint of the run take precedence over other valid runs.
    """
    pinned = _find_pin(session, run)
    if pinned is not None:
        pinned_run = get_run(session, pinned.run_id)
        # Another run over the pinned traces is compared like any other run, not with itself.
        if pinned_run.night != run.night:
            measured = _measured_alike(session, pinned_run, plan)
            return Baseline(mode=BaselineSelection.PINNED, runs=[_baseline_run(measured)])
    mode = plan.baseline.mode
    limit = plan.baseline.runs if mode is BaselineMode.MEAN_OF_LAST else 1
    runs = list_baseline_runs(session, run, limit)
    return Baseline(mode=BaselineSelection(mode), runs=runs) if runs else None


def _measured_alike(session: Session, pinned: BenchmarkRun, plan: RunPlan) -> BenchmarkRun:
    """The pinned run, or the newest run over its traces if only that one has the ruler of a plan."""
    if not compare_plans([pinned.begun_plan], plan).ruler:
        return pinned
    statement = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.rescore_of == (pinned.rescore_of or pinned.id),
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(1)
    )
    again = session.scalars(statement).one_or_none()
    if again is None or compare_plans([again.begun_plan], plan).measurable_again:
        return pinned
    return again


def find_ruler_changes(
    session: Session, run: BenchmarkRun, baseline: Baseline | None, plan: RunPlan
) -> tuple[str, ...]:
    """How a run is measured differently from the last valid run before it; its baseline may have been
    measured again since.
    """
    if baseline is None:
        return ()
    before = _valid_runs_before(run).where(BenchmarkRun.rescore_of.is_(None))
    last = session.scalars(
        before.order_by(POSITION.desc(), BenchmarkRun.seq.desc()).limit(1)
    ).first()
    return () if last is None else compare_plans([last.begun_plan], plan).ruler


def list_baseline_runs(session: Session, run: BenchmarkRun, limit: int) -> list[BaselineRun]:
    """The last runs before a run that can be its baseline, newest first, all with the same
    fingerprint and with one level: none is older than the last accepted run.
    """
    earlier = _valid_runs_before(run).where(~_is_held())
    # Of several runs over one source run the newest counts.
    newest_first = earlier.order_by(POSITION.desc(), BenchmarkRun.seq.desc()).limit(1)
    # Not one statement that sorts by fingerprint first: it would read all earlier runs.
    newest = (
        session.scalars(newest_first.where(BenchmarkRun.fingerprint == run.fingerprint)).first()
        or session.scalars(newest_first).first()
    )
    if newest is None:
        return []
    # It is never older than the last accepted run, which is one of these runs.
    if limit == 1:
        return [_baseline_run(newest)]
    series = earlier.where(BenchmarkRun.fingerprint == newest.fingerprint)
    accepted = series.where(BenchmarkRun.accepted_at.is_not(None)).with_only_columns(
        func.max(POSITION)
    )
    level = series.where((session.scalar(accepted) or 0) <= POSITION)
    judged = level.ext(distinct_on(POSITION)).order_by(POSITION.desc(), BenchmarkRun.seq.desc())
    return [_baseline_run(earlier_run) for earlier_run in session.scalars(judged.limit(limit))]


def list_last_valid_runs(session: Session, run: BenchmarkRun, limit: int) -> list[BenchmarkRun]:
    """The last valid runs before a run, newest first, with any fingerprint and verdict."""
    statement = _valid_runs_before(run)
    statement = statement.order_by(POSITION.desc(), BenchmarkRun.seq.desc()).limit(limit)
    return list(session.scalars(statement))


def _valid_runs_before(run: BenchmarkRun) -> Select[BenchmarkRun]:
    return select(BenchmarkRun).where(
        BenchmarkRun.benchmark_id == run.benchmark_id,
        BenchmarkRun.agent_id == run.agent_id,
        BenchmarkRun.status == RunStatus.COMPLETED,
        BenchmarkRun.validity == Validity.VALID,
        BenchmarkRun.purged_at.is_(None),
        # By position: runs after the first one over these traces are not earlier runs.
        run.night > POSITION,
    )


def _is_held() -> ColumnElement[bool]:
    """Return whether a run, or another run over its source run, must not be a baseline."""
    return exists().where(
        _OTHER_RUN.source_seq == BenchmarkRun.source_seq, _OTHER_RUN.baseline_hold.is_not(None)
    )


def _baseline_run(run: BenchmarkRun) -> BaselineRun:
    return BaselineRun(run.seq, run.id, run.begun_plan)


def _newest_suitable_run(session: Session, benchmark_id: str) -> str:
    statement = (
        select(BenchmarkRun.id)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
            ~_is_held(),
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(1)
    )
    run_id = session.scalar(statement)
    if run_id is None:
        raise UnsuitableBaseline(
            f"the benchmark {benchmark_id!r} has no run that can be a baseline; complete a valid one first"
        )
    return run_id


def _require_suitable(session: Session, run: BenchmarkRun) -> None:
    if session.scalar(select(_is_held()).where(BenchmarkRun.seq == run.seq)):
        is_incomplete = run.baseline_hold == BaselineHold.INCOMPLETE
        cause = "lacks values of its metrics" if is_incomplete else "regressed"
        raise UnsuitableBaseline(
            f"the run {run.id} {cause}, and its level is not accepted; accept the level first "
            f"(`mosaico runs accept {run.id}`), or name another run"
        )
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
