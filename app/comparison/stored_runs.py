"""Two stored runs held against each other: read in transactions, computed outside of them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.comparison.baselines import EarlierRun, valid_runs_before
from app.comparison.flipped_items import PeerMeans, item_means
from app.comparison.item_counts import with_counts
from app.comparison.item_queries import Link, items_of_runs, links_of_items, traits_of_runs
from app.comparison.run_pair import (
    MAX_FLIPS,
    ComparisonSide,
    RunPair,
    compare,
    flips_of,
    select_flip_metric,
)
from app.comparison.run_verdicts import Case
from app.comparison.schemas import ComparedRun, Comparison, PeerRun, TraceLink
from app.core.db import Database
from app.core.errors import Conflict, Invalid, Unavailable
from app.jobs.pool import CallLost, ProcessPool
from app.kpis.evaluate import KpiValue
from app.kpis.queries import get_kpis_of_run
from app.metrics.registry import load_metrics
from app.results.models import BenchmarkRun
from app.results.plan import RunPlan
from app.results.queries import get_run
from app.results.rules import RunStatus, Validity, require_traces

R = TypeVar("R")

MOST_OTHER_AGENTS = 8
# Runs of other agents that were made within half a day of the candidate are of the same night.
SAME_NIGHT = timedelta(hours=12)
LONGEST_S = 120.0
LONGEST_TURN_S = 60.0

# One child at a time: a service has little memory, and a child takes more than all the rest of it.
_TURN = threading.BoundedSemaphore(1)


class RunNotComparable(Conflict):
    """The run has not completed, so there is nothing to compare; wait for it, or name another."""

    code = "run-not-comparable"


class ComparisonBusy(Unavailable):
    """Another comparison is being computed; try again in a minute."""

    code = "comparison-busy"


class ComparisonLost(Unavailable):
    """The comparison could not be computed; try again, or compare runs of fewer traces."""

    code = "comparison-lost"


def compare_in_child(
    db: Database, base_ids: Sequence[str], candidate_id: str, *, metric: str | None = None
) -> Comparison:
    """`compare_runs` in a process that ends with it, and takes the items and numpy along.

    Raises: `ComparisonBusy`, `ComparisonLost`, besides what `compare_runs` does.
    """
    with db.read() as session:
        _asked(session, base_ids, candidate_id)  # what is refused takes no process
    return in_child(_compare_stored, db.url, list(base_ids), candidate_id, metric)


def in_child(function: Callable[..., R], *arguments: Any) -> R:
    """What a function returns in a process that ends with it. Raises: `ComparisonBusy`,
    `ComparisonLost`.
    """
    if not _TURN.acquire(timeout=LONGEST_TURN_S):
        raise ComparisonBusy
    try:
        pool = ProcessPool(1, warm_up=load_metrics)
        try:
            return pool.run(function, *arguments, timeout_s=LONGEST_S)
        except CallLost as lost:
            raise ComparisonLost(
                f"the comparison could not be computed: {lost}; try again, or compare runs of"
                " fewer traces"
            ) from lost
        finally:
            pool.close()
    finally:
        _TURN.release()


def _compare_stored(
    url: str, base_ids: Sequence[str], candidate_id: str, metric: str | None
) -> Comparison:
    db = Database(url, pool_size=1, name="mosaico-compare")
    try:
        return compare_runs(db, base_ids, candidate_id, metric=metric)
    finally:
        db.engine.dispose()


def compare_runs(
    db: Database, base_ids: Sequence[str], candidate_id: str, *, metric: str | None = None
) -> Comparison:
    """The candidate beside the base, item by item; `metric` is the one whose flips are told. Several
    bases are taken together as for a stored verdict: each item's mean over all of them.

    Raises: `RunNotComparable`, `NoSuchMetric`, `Invalid` for runs of two benchmarks.
    """
    with db.read() as session:
        asked = _asked(session, base_ids, candidate_id)
        base, candidate = _side(session, asked.bases), _side(session, [asked.candidate])
        values = _kpi_values(session, asked.candidate, candidate.plan)
    counted = Case(plan=candidate.plan, kpis=(), baseline=None).counted
    base, candidate = (
        replace(side, items=with_counts(side.items, db, _columns_of(runs), counted))
        for runs, side in ((asked.bases, base), ([asked.candidate], candidate))
    )
    pair = RunPair(baseline=base, candidate=candidate, kpis=values)
    chosen = select_flip_metric(pair, metric)
    with db.read() as session:
        others, nights = _other_agents(session, asked.candidate, chosen) if chosen else ([], [])
    found = flips_of(pair, chosen)[:MAX_FLIPS] if chosen else []
    with db.read() as session:
        links = _links(session, asked, [flip.item_id for flip in found])
    return compare(replace(pair, metric=chosen, peer_runs=others, peer_means=nights, links=links))


class _Asked(NamedTuple):
    """The runs of a comparison, at least one base."""

    bases: list[BenchmarkRun]
    candidate: BenchmarkRun


def _asked(session: Session, base_ids: Sequence[str], candidate_id: str) -> _Asked:
    bases = [comparable(session, run_id) for run_id in dict.fromkeys(base_ids)]
    candidate = comparable(session, candidate_id)
    for base in bases:
        if base.benchmark_id != candidate.benchmark_id:
            raise Invalid(
                f"{base.id} is a run of {base.benchmark_id!r} and {candidate_id} of"
                f" {candidate.benchmark_id!r}; name runs of one benchmark"
            )
    return _Asked(bases, candidate)


def comparable(session: Session, run_id: str) -> BenchmarkRun:
    """The run, whose traces are all there. Raises: `RunNotComparable`, besides `get_run`."""
    run = get_run(session, run_id)
    if run.status != RunStatus.COMPLETED:
        raise RunNotComparable(
            f"the run {run_id} is {run.status}; wait until it is COMPLETED, or name another one"
        )
    require_traces(run.id, run.purged_at)
    return run


def _side(session: Session, runs: Sequence[BenchmarkRun]) -> ComparisonSide:
    run, earlier = runs[0], [_earlier(each) for each in runs]
    plan = earlier[0].plan
    columns = Case(plan=plan, kpis=(), baseline=None).columns
    return ComparisonSide(
        run=ComparedRun(
            id=run.id,
            benchmark_id=run.benchmark_id,
            agent_id=run.agent_id,
            run_name=run.run_name,
            created_at=run.created_at,
            validity=run.validity,
            traces=run.traces_total or 0,
        ),
        plan=plan,
        items=items_of_runs(session, _columns_of(runs), columns, cluster_field=plan.cluster_field),
        attributes=traits_of_runs(
            session, [each.seq for each in runs], cluster_field=plan.cluster_field
        ),
        invalid_reasons=[why for each in runs for why in _invalidity(each)],
        further_runs=earlier[1:],
    )


def _earlier(run: BenchmarkRun) -> EarlierRun:
    return EarlierRun(run.seq, run.id, RunPlan.model_validate(run.plan))


def _columns_of(runs: Sequence[BenchmarkRun]) -> dict[int, Sequence[str]]:
    """The metrics of each run, by its seq."""
    return {run.seq: run.metric_keys or [] for run in runs}


def _invalidity(run: BenchmarkRun) -> Sequence[str]:
    if run.validity == Validity.VALID:
        return ()
    return run.validity_reasons or ("it is not valid",)


def _kpi_values(session: Session, run: BenchmarkRun, plan: RunPlan) -> list[KpiValue]:
    stored = {kpi.kpi_id: kpi for kpi in get_kpis_of_run(session, run.seq)}
    return [
        KpiValue(kpi=kpi, value=stored[kpi.id].value, reason=stored[kpi.id].undefined_reason)
        for kpi in plan.kpis
        if kpi.id in stored
    ]


class _Others(NamedTuple):
    agents: list[PeerRun]
    nights: list[PeerMeans]


def _other_agents(session: Session, run: BenchmarkRun, column: str) -> _Others:
    """The last valid run of each other agent in the night of a run, beside its valid one before."""
    newest = (
        select(func.max(BenchmarkRun.seq))
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id != run.agent_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
            BenchmarkRun.rescore_of.is_(None),
            BenchmarkRun.created_at.between(
                run.created_at - SAME_NIGHT, run.created_at + SAME_NIGHT
            ),
        )
        .group_by(BenchmarkRun.agent_id)
    )
    statement = select(BenchmarkRun).where(BenchmarkRun.seq.in_(newest))
    statement = statement.order_by(BenchmarkRun.agent_id).limit(MOST_OTHER_AGENTS)
    found = _Others([], [])
    for other in session.scalars(statement).all():
        [*before] = valid_runs_before(session, other, 1)
        if not before:
            continue
        after = _earlier(other)
        means = [_means(session, each, column) for each in (before[0], after)]
        found.agents.append(
            PeerRun(agent_id=other.agent_id, run_id=other.id, baseline_run_id=before[0].id)
        )
        found.nights.append(PeerMeans(other.agent_id, *means))
    return found


def _means(session: Session, run: EarlierRun, column: str) -> dict[str, float]:
    table = items_of_runs(session, {run.seq: run.plan.columns}, [column])
    return item_means(table, column)


def _links(session: Session, asked: _Asked, items: Sequence[str]) -> dict[str, list[TraceLink]]:
    """Traces of the candidate, then of the newest base."""
    found: dict[str, list[TraceLink]] = {}
    for run, is_base in ((asked.candidate, False), (asked.bases[0], True)):
        for link in links_of_items(session, run, items):
            found.setdefault(link.item_id, []).append(_link(link, is_base=is_base))
    return found


def _link(link: Link, *, is_base: bool) -> TraceLink:
    return TraceLink(
        side="baseline" if is_base else "candidate", trace_id=link.trace_id, url=link.url
    )
