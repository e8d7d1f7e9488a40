"""Leases: a worker's right to do one step of a run, guarded by a fencing token.

The worker that acquires a lease increases the fencing token, which is stored with the run or the
shard. A worker that was considered dead may continue; its token is old, so its writes fail.
Therefore a job can be killed at any point and be repeated by another worker. Every write locks the
row first and compares its token with the token of the lease.
"""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.errors import Conflict
from app.results import queries
from app.results.models import BenchmarkRun, RunShard
from app.results.plan import RunPlan
from app.results.rules import RunStatus


class RunEnded(Conflict):
    """The run ended, or another worker took over this step; the work of the step is dropped."""

    code = "run-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLease:
    """The right to do the current step of a run; not valid after the fencing token has increased."""

    run_id: str
    run_seq: int
    collection_id: int
    fencing_token: int
    plan: RunPlan
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLease:
    """The right to measure one shard of a run: the traces at positions `first` to `last`."""

    run_id: str
    run_seq: int
    collection_id: int
    shard: int
    first: int
    last: int
    fencing_token: int
    plan: RunPlan


def acquire_run_lease(session: Session, run_id: str) -> RunLease | None:
    """Take over the current step of a run; None when the run has ended.

    Collecting and finishing are such steps; the shards between them have leases of their own.
    """
    run = queries.get_run(session, run_id, for_update=True)
    if run.status != RunStatus.RUNNING:
        return None
    # Voids the lease of whoever had this step, before any of its writes can come.
    run.fencing_token += 1
    session.flush()
    assert run.collection_id is not None
    return RunLease(
        run_id=run.id,
        run_seq=run.seq,
        collection_id=run.collection_id,
        fencing_token=run.fencing_token,
        plan=RunPlan.model_validate(run.plan),
        fingerprint=run.fingerprint,
    )


def lock_leased_run(session: Session, lease: RunLease) -> BenchmarkRun:
    """The run, locked for writing. Raises: `RunEnded` when the lease is void."""
    run = queries.get_run(session, lease.run_id, for_update=True)
    if run.status != RunStatus.RUNNING or run.fencing_token != lease.fencing_token:
        raise RunEnded
    return run


def acquire_shard_lease(session: Session, run_id: str, shard: int) -> ShardLease | None:
    """Take over a shard; None when it is done or the run has ended."""
    # The run is not locked: shards are measured in parallel, and storing one checks the run again.
    run = queries.get_run(session, run_id)
    if run.status != RunStatus.RUNNING:
        return None
    row = queries.find_shard(session, run.seq, shard)
    if row is None or row.done_at is not None:
        return None
    # A shard has its own token: taking over one shard must not void the leases of the others.
    row.fencing_token += 1
    session.flush()
    assert run.collection_id is not None
    return ShardLease(
        run_id=run.id,
        run_seq=run.seq,
        collection_id=run.collection_id,
        shard=shard,
        first=row.first,
        last=row.last,
        fencing_token=row.fencing_token,
        plan=RunPlan.model_validate(run.plan),
    )


def require_shard_lease(session: Session, lease: ShardLease) -> None:
    """Raise `RunEnded` when the lease is void or the run has ended; locks nothing."""
    current = (
        select(RunShard.shard)
        .join(BenchmarkRun, BenchmarkRun.seq == RunShard.run_seq)
        .where(
            RunShard.run_seq == lease.run_seq,
            RunShard.shard == lease.shard,
            RunShard.fencing_token == lease.fencing_token,
            BenchmarkRun.status == RunStatus.RUNNING,
        )
    )
    if session.scalar(current) is None:
        raise RunEnded


def lock_leased_shard(session: Session, lease: ShardLease) -> RunShard:
    """The shard, locked for writing. Raises: `RunEnded` when the lease is void or it is done."""
    row = queries.find_shard(session, lease.run_seq, lease.shard)
    if row is None or row.fencing_token != lease.fencing_token or row.done_at is not None:
        raise RunEnded
    return row
