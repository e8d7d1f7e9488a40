"""The data of a run: which they are, whether the agent had them before, and for which night.

Two runs have the same data when they read the same traces, with their IDs and scores, of the same source run, and
compute the same values: metrics and judges of the same versions, and the same formulas. New traces with equal
outputs are other data, and so are scores that arrived since, although both may come under one run name.
"""

import hashlib
import json
from typing import Final

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from mosaico.alerts.service import StaleDecision
from mosaico.formula import format_formula
from mosaico.run_store.models import POSITION, BenchmarkRun
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.run_store.run_result import RunPlace, SameData
from mosaico.runs.source_runs import lock_runs_of_agent
from mosaico.traces.models import Collection
from mosaico.traces.registry import TRACE_SOURCES


def digest_data(session: Session, run: BenchmarkRun) -> str:
    """The identity of the data of a run whose collection is complete."""
    collection, plan = session.get_one(Collection, run.collection_id), run.begun_plan
    traces = f"collection {collection.id}" if collection.digest is None else collection.digest.hex()
    document = [
        collection.source,
        # An upload has no other identity: equal uploads under two names are two nights of a deterministic agent.
        collection.source_run_id or run.run_name or "",
        # Traces that the service makes are those of one run and its rescored runs, whatever the agent answers.
        run.source_key if TRACE_SOURCES.get(collection.source).runs_models else "",
        traces,
        sorted((metric.column, metric.version) for metric in plan.metrics if not metric.is_added),
        sorted((kpi.id, format_formula(kpi.formula)) for kpi in plan.kpis),
    ]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def find_place(session: Session, run: BenchmarkRun) -> RunPlace:
    """Whether the data of a run are new at this moment, and whether a later night was judged before."""
    digest, is_rescored = digest_data(session, run), run.rescore_of is not None
    first = _find_first_run(session, run, digest) or _find_older_run(session, run, digest)
    return RunPlace(
        data_digest=digest,
        same_data=first,
        is_rescored=is_rescored,
        # Data that were judged before come for no night.
        is_late=first is None and (is_rescored or _has_later_night(session, run)),
    )


def settle_place(session: Session, run: BenchmarkRun, place: RunPlace, *, is_valid: bool) -> None:
    """Store the place of a run that ends now. The caller holds the lock of the run.

    Locks:  the runs of the agent: of two runs that end at the same time, the second one sees the first.
    Raises: `StaleDecision` when a run that ended since its place was found changes it.
    """
    lock_runs_of_agent(session, run.benchmark_id, run.agent_id)
    if find_place(session, run) != place or _is_deleted(session, place.same_data):
        raise StaleDecision("another run ended in the meantime; evaluate the run again")
    run.data_digest = place.data_digest
    run.same_data_as = place.same_data.run_id if place.same_data else None
    run.has_new_data = is_valid and place.has_new_data
    run.is_late = place.is_late


def _is_deleted(session: Session, first: SameData | None) -> bool:
    """Whether a run is gone; otherwise it stays until its ID is stored: the job that ends links to it comes after
    its deletion.
    """
    if first is None:
        return False
    kept = select(BenchmarkRun.seq).where(BenchmarkRun.seq == first.run_seq)
    return session.scalar(kept.with_for_update(read=True, key_share=True)) is None


def _find_first_run(session: Session, run: BenchmarkRun, digest: str) -> SameData | None:
    """The first valid run of the agent over the same data."""
    first = (
        select(BenchmarkRun.seq, BenchmarkRun.id, BenchmarkRun.completed_at)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.data_digest == digest,
            BenchmarkRun.seq != run.seq,
            *_IS_VALID,
        )
        # The one that was judged; the others say the same. Deleted, the oldest of the others.
        .order_by(BenchmarkRun.has_new_data.desc(), BenchmarkRun.seq)
        .limit(1)
    )
    row = session.execute(first).first()
    return None if row is None else SameData(*row)


def _find_older_run(session: Session, run: BenchmarkRun, digest: str) -> SameData | None:
    """A valid run over the same data that ended before digests were stored: it read the same collection."""
    older = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.data_digest.is_(None),
            BenchmarkRun.collection_id == run.collection_id,
            BenchmarkRun.seq != run.seq,
            *_IS_VALID,
        )
        # The runs that were judged, then the newest of those with other formulas.
        .order_by(BenchmarkRun.has_new_data.desc(), BenchmarkRun.seq.desc())
        .limit(_MAX_OLDER)
    )
    for earlier in session.scalars(older):
        if digest_data(session, earlier) == digest:
            return SameData(earlier.seq, earlier.id, earlier.completed_at)
    return None


def _has_later_night(session: Session, run: BenchmarkRun) -> bool:
    later = exists().where(
        BenchmarkRun.benchmark_id == run.benchmark_id,
        BenchmarkRun.agent_id == run.agent_id,
        run.night < POSITION,
        BenchmarkRun.has_new_data,
    )
    return bool(session.scalar(select(later)))


_MAX_OLDER: Final = 10
_IS_VALID = (
    BenchmarkRun.status == RunStatus.COMPLETED,
    BenchmarkRun.validity == Validity.VALID,
)
