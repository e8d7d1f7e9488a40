"""Leases: a worker's right to do one step of a run, guarded by a fencing token.

The worker that acquires a lease increases the fencing token, which is stored with the run or the
shard. A worker that was considered dead may continue; its token is old, so its writes fail.
Therefore a job can be killed at any point and be repeated by another worker. Every write locks the
row first and compares its token with the token of the lease.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, Select, select, update
from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.core.errors import Conflict, Unavailable
from mosaico.jobs.handlers import HOLDS_JOB, JobContext, JobToken
from mosaico.metrics.run_value import StoredSummary
from mosaico.run_store import queries
from mosaico.run_store.models import BenchmarkRun, RunShard
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import RunStatus

# A computation may take seconds, but for short texts it takes milliseconds.
LEASE_CHECK_INTERVAL_S = 0.5


class RunEnded(Conflict):
    """The run ended, or another worker took over this step; the work of the step is dropped."""


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


# One statement each, for the driver: every step of every run begins with one. Only the worker that has
# the job may take the step over. Otherwise one that was frozen until another got its job would void the
# lease of that one, could not start the next step itself, and the run would stall.
_ACQUIRE_RUN = f"""
    UPDATE benchmark_runs SET fencing_token = fencing_token + 1
    WHERE id = %(run_id)s AND status = 'RUNNING' AND {HOLDS_JOB}
    RETURNING id AS run_id, seq AS run_seq, collection_id, fencing_token, plan, fingerprint
"""  # noqa: S608 - a constant
_ACQUIRE_SHARD = f"""
    UPDATE run_shards AS shard SET fencing_token = shard.fencing_token + 1
    FROM benchmark_runs AS run
    WHERE run.id = %(run_id)s AND run.status = 'RUNNING'
      AND shard.run_seq = run.seq AND shard.shard = %(shard)s AND shard.done_at IS NULL
      AND {HOLDS_JOB}
    RETURNING run.id AS run_id, run.seq AS run_seq, run.collection_id, shard.shard, shard.first,
              shard.last, shard.fencing_token, run.plan
"""  # noqa: S608 - a constant


def acquire_run_lease(db: Database, run_id: str, token: JobToken) -> RunLease | None:
    """Take over the current step of a run; None when the run has ended or was deleted, or another worker
    has the job of the step.

    Collecting and finishing are such steps; the shards between them have leases of their own.
    """
    # Voids the lease of whoever had this step, before any of its writes can come.
    row = db.fetch_row(_ACQUIRE_RUN, {"run_id": run_id, **token._asdict()})
    if row is None:
        return None
    return RunLease(**{**row, "plan": RunPlan.model_validate(row["plan"])})


def lock_leased_run(session: Session, lease: RunLease) -> BenchmarkRun:
    """The run, locked for writing. Raises: `RunEnded` when the lease is void."""
    run = queries.get_run(session, lease.run_id, for_update=True)
    if not is_held_by(run, lease):
        raise RunEnded
    return run


def is_held_by(run: BenchmarkRun, lease: RunLease) -> bool:
    """Whether the lease of a locked run is not void."""
    return run.status == RunStatus.RUNNING and run.fencing_token == lease.fencing_token


def acquire_shard_lease(
    db: Database, run_id: str, shard: int, token: JobToken
) -> ShardLease | None:
    """Take over a shard; None when it is done, the run has ended or was deleted, or another worker has the
    job of the shard.
    """
    # The run is not locked: shards are measured in parallel, and storing one checks the run again.
    # A shard has its own token: taking over one shard must not void the leases of the others.
    row = db.fetch_row(_ACQUIRE_SHARD, {"run_id": run_id, "shard": shard, **token._asdict()})
    if row is None:
        return None
    return ShardLease(**{**row, "plan": RunPlan.model_validate(row["plan"])})


def _is_held(lease: ShardLease) -> tuple[ColumnElement[bool], ...]:
    """The conditions on the row of a shard whose lease is not void."""
    return (
        RunShard.run_seq == lease.run_seq,
        RunShard.shard == lease.shard,
        RunShard.fencing_token == lease.fencing_token,
    )


def complete_shard(
    session: Session,
    lease: ShardLease,
    now: datetime,
    summaries: Mapping[str, StoredSummary] | None,
) -> None:
    """Mark the shard as done, which locks it. Raises: `RunEnded` when the lease is void or it is done."""
    completed = (
        update(RunShard)
        .where(
            *_is_held(lease),
            RunShard.done_at.is_(None),
        )
        .values(done_at=now, summaries=dict(summaries) if summaries else None)
        .returning(RunShard.shard)
    )
    if session.scalar(completed) is None:
        raise RunEnded


def lease_run(job: JobContext, run_id: str) -> tuple[JobContext, RunLease]:
    """The lease of the current step of a run, and the job that watches it. Raises: `RunEnded` without a lease."""
    lease = acquire_run_lease(job.resources.db, run_id, job.token)
    if lease is None:
        raise RunEnded
    return watch_lease(job, lease), lease


def lease_shard(job: JobContext, run_id: str, shard: int) -> tuple[JobContext, ShardLease]:
    """The lease of a shard, and the job that watches it. Raises: `RunEnded` without a lease."""
    lease = acquire_shard_lease(job.resources.db, run_id, shard, job.token)
    if lease is None:
        raise RunEnded
    return watch_lease(job, lease), lease


def watch_lease(job: JobContext, lease: RunLease | ShardLease) -> JobContext:
    """The job, whose checkpoints also raise `RunEnded` when the run has ended or another worker took the
    step over.
    """
    return replace(job, check_lease=_LeaseCheck(job.resources.db, lease))


class _LeaseCheck:
    """Raises `RunEnded` when a lease is void; queries the database at most twice a second."""

    def __init__(self, db: Database, lease: RunLease | ShardLease) -> None:
        self._db = db
        self._lease = lease
        self._checked_at = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._checked_at < LEASE_CHECK_INTERVAL_S:
            return
        # A short outage of the database loses no work: who writes checks the lease again.
        with suppress(Unavailable), self._db.read_statement() as session:
            if session.scalar(_held_step(self._lease)) is None:
                raise RunEnded
        self._checked_at = time.monotonic()


def _held_step(lease: RunLease | ShardLease) -> Select[int]:
    """Selects a row while the lease is not void and the run has not ended; locks nothing."""
    running = select(BenchmarkRun.seq).where(
        BenchmarkRun.seq == lease.run_seq, BenchmarkRun.status == RunStatus.RUNNING
    )
    if isinstance(lease, RunLease):
        return running.where(BenchmarkRun.fencing_token == lease.fencing_token)
    return running.join(RunShard, RunShard.run_seq == BenchmarkRun.seq).where(*_is_held(lease))
