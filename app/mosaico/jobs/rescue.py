"""Rescue of jobs whose worker is dead, which procrastinate itself does not restart.

A rescue takes the claim away by increasing `attempts`: the former holder, should it come back, can
no longer record an outcome (see `mosaico.jobs.outcomes`).
"""

import json
import logging
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.db import Database
from mosaico.core.defaults import KEEP_FINISHED_JOBS
from mosaico.jobs.deaths import JobDeaths, Poison, count_death, is_poison, runs_alone
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.outcomes import JobClaim, JobFailed, fail_job, finish_twin
from mosaico.jobs.queue import ALONE_PRIORITY, DEATHS, RESCUES, split_arguments
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.jobs.worker_process import PRESENCE_LOCK

log = logging.getLogger(__name__)

# A killed worker's jobs run again within 10 s: one missed heartbeat, one tick of the rescue, and the
# start.
HEARTBEAT_INTERVAL_S = 2.0
RESCUE_INTERVAL_S = 2.0
# A worker without presence is dead, unless it is just connecting again.
ABSENT_AFTER_S = 3.0
# A worker that has its presence but sends no heartbeat is suspended, or its machine is lost. A busy
# machine delays heartbeats, but not for so long.
SUSPENDED_AFTER_S = 15.0
# While the database was down no worker could send a heartbeat. After its restart live workers get the
# time to connect again.
RECONNECT_S = 6.0

_RESCUE_LOCK = 0x4D4F5341  # advisory lock of the rescue; any constant that nothing else uses

_SELECT_STALLED = text(
    """
    SELECT job.id, job.task_name, job.args, job.attempts, job.worker_id,
           -- A process that stops in order deletes this row.
           process.worker_id IS NOT NULL AS has_died,
           NOT EXISTS (SELECT FROM procrastinate_jobs AS neighbor
                       WHERE neighbor.worker_id = job.worker_id AND neighbor.status = 'doing'
                         AND neighbor.id <> job.id) AS is_alone
    FROM procrastinate_jobs AS job
    LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
    LEFT JOIN worker_processes AS process ON process.worker_id = job.worker_id
    WHERE job.status = 'doing'
      AND (worker.id IS NULL
           OR worker.last_heartbeat < now() - make_interval(secs => :suspended)
           OR worker.last_heartbeat NOT BETWEEN now() - make_interval(secs => :absent) AND now()
              AND NOT EXISTS (SELECT FROM pg_locks AS presence
                              JOIN pg_database ON pg_database.oid = presence.database
                              WHERE presence.locktype = 'advisory' AND presence.objsubid = 2
                                AND pg_database.datname = current_database()
                                AND presence.classid = :presence
                                AND presence.objid::bigint = worker.id))
      AND pg_postmaster_start_time() NOT BETWEEN now() - make_interval(secs => :reconnect) AND now()
    FOR UPDATE OF job SKIP LOCKED
    """
)
_SET_COUNTS = text("UPDATE procrastinate_jobs SET args = args || :counts ::jsonb WHERE id = :id")
_RETRY_JOB = text("SELECT procrastinate_retry_job_v2(:id, now(), :priority, NULL, NULL)")
_DELETE_FINISHED = text(
    """
    DELETE FROM procrastinate_jobs WHERE id IN (
        SELECT id FROM (
            -- The first ones, so that jobs which are too young are not all visited each time.
            SELECT id FROM procrastinate_jobs
            WHERE status IN ('succeeded', 'failed', 'cancelled', 'aborted')
            ORDER BY id LIMIT :batch_rows
        ) AS job
        WHERE NOT EXISTS (SELECT FROM procrastinate_events AS event
                          WHERE event.job_id = job.id AND event.at > :kept_since)
    ) RETURNING id
    """
)


class Rescue:
    """Returns the jobs of dead workers to the queue; call it every `RESCUE_INTERVAL_S` seconds."""

    def __init__(self, db: Database, handlers: JobHandlers) -> None:
        self._db = db
        self._handlers = handlers
        self._silent_sessions = SilentSessions()

    def __call__(self) -> None:
        with self._db.begin() as session:
            rescued = rescue_jobs(session, self._handlers, self._silent_sessions)
        if rescued:
            log.warning("rescued %d jobs of dead workers", rescued)


def rescue_jobs(
    session: Session,
    handlers: JobHandlers,
    silent_sessions: SilentSessions,
    *,
    absent_after_s: float = ABSENT_AFTER_S,
    suspended_after_s: float = SUSPENDED_AFTER_S,
    reconnect_s: float = RECONNECT_S,
) -> int:
    """Return the jobs of dead workers to the queue; returns how many.

    A job that ends its workers fails for good: see `mosaico.jobs.deaths`.
    Locks:   one rescue at a time; concurrent ones return 0 at once.
    """
    # An advisory lock of the transaction ends with its process: a killed rescuer blocks nobody.
    if not session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RESCUE_LOCK}):
        return 0
    # First, because a suspended process may hold the row locks of the jobs that it no longer runs.
    silent_sessions.terminate(session)
    limits = {"absent": absent_after_s, "suspended": suspended_after_s, "reconnect": reconnect_s}
    stalled = session.execute(_SELECT_STALLED, {**limits, "presence": PRESENCE_LOCK}).all()
    for job in stalled:
        _rescue_job(session, handlers, job)
    return len(stalled)


def _rescue_job(session: Session, handlers: JobHandlers, job: Row[Any]) -> None:
    claim = JobClaim(
        id=job.id,
        name=job.task_name,
        arguments=job.args,
        attempts=job.attempts,
        worker_id=job.worker_id,
    )
    if finish_twin(session, claim):
        return
    job_call = split_arguments(claim.arguments)
    deaths = job_call.deaths
    if job.has_died:
        deaths = count_death(deaths, is_alone=job.is_alone)
    # Also for jobs without `on_failure`: a job that kills its workers must not go on for ever.
    if is_poison(deaths):
        fail_job(session, claim, _fail_as_poison(claim, deaths), handlers)
        return
    counts = {RESCUES: job_call.rescues + 1, DEATHS: deaths._asdict()}
    session.execute(_SET_COUNTS, {"id": claim.id, "counts": json.dumps(counts)})
    priority = ALONE_PRIORITY if runs_alone(deaths) else None
    session.execute(_RETRY_JOB, {"id": claim.id, "priority": priority})


def _fail_as_poison(claim: JobClaim, deaths: JobDeaths) -> JobFailed:
    return JobFailed(
        code=Poison.code,
        message=f"{deaths.total} workers died while running the job {claim.name},"
        f" {deaths.alone} of them without another job; read their logs",
    )


def delete_finished_jobs(session: Session, now: datetime) -> int:
    """Delete one batch of the jobs that ended longer than `KEEP_FINISHED_JOBS` ago.

    Returns the number of deleted jobs; see `delete_batch`.
    """
    parameters = {"kept_since": now - KEEP_FINISHED_JOBS, "batch_rows": BATCH_ROWS}
    return len(session.execute(_DELETE_FINISHED, parameters).all())
