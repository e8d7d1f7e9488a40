"""Rescue of jobs whose worker is dead, which procrastinate itself does not restart.

A rescue takes the claim away by increasing `attempts`: the former holder, should it come back, can
no longer record an outcome (see `mosaico.jobs.outcomes`).
"""

import json
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.errors import AppError
from mosaico.jobs.deaths import (
    MAX_DELAY,
    PLACE_SUSPECTS,
    SUSPECTS_LOCK,
    UNSERVED_LOCK,
    Interrupted,
    Poison,
    Sighting,
    Suspicion,
    WorkerDeath,
    delay_retry,
    judge_deaths,
    read_deaths,
    review_deaths,
    write_deaths,
)
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.outcomes import MAX_RETRY_DELAY_S, JobClaim, JobFailed, fail_job, finish_twin
from mosaico.jobs.queue import DEATHS, RESCUES, split_arguments
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.jobs.worker_process import PRESENCE_LOCK, ProcessOrigin

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


class JobFailure(NamedTuple):
    """The error of a job that its workers cannot end, and the message with its numbers."""

    error: type[AppError]
    message: str


FAILURES = {
    Suspicion.POISON: JobFailure(
        Poison, "{deaths} workers died while running the job {job}; read their logs"
    ),
    Suspicion.INTERRUPTED: JobFailure(
        Interrupted,
        "{deaths} workers died in twelve hours or longer while running the job {job}, most of them with"
        " their machine; read the logs of the machines, and retry the run on another one",
    ),
}

_RESCUE_LOCK = 0x4D4F5341  # advisory lock of the rescue; any constant that nothing else uses

_SELECT_STALLED = text(
    """
    SELECT job.id, job.task_name, job.args, job.attempts, job.worker_id, job.lock,
           process.machine, process.boot_id, process.supervisor, process.instance,
           now() AS rescued_at,
           (SELECT count(*) FROM procrastinate_jobs AS neighbor
            WHERE neighbor.worker_id = job.worker_id AND neighbor.status = 'doing') AS job_count,
           pg_postmaster_start_time() BETWEEN (
               SELECT max(event.at) FROM procrastinate_events AS event
               WHERE event.job_id = job.id AND event.type = 'started'
           ) AND now() AS database_restarted,
           EXISTS (SELECT FROM procrastinate_workers AS successor
                   JOIN worker_processes AS successor_process ON successor_process.worker_id = successor.id
                   WHERE successor_process.instance = process.instance AND successor.id > worker.id
                     AND successor.last_heartbeat > worker.last_heartbeat) AS is_registered_again
    FROM procrastinate_jobs AS job
    LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
    LEFT JOIN worker_processes AS process ON process.worker_id = job.worker_id
    WHERE job.status = 'doing'
      -- Heartbeats and starts in the future are older: the clock of the database was set back since. Not
      -- for a worker with its presence: it may have sent one just now, with a clock that is ahead.
      AND (worker.id IS NULL
           OR worker.last_heartbeat < now() - make_interval(secs => CAST(:suspended AS float8))
           OR abs(extract(epoch FROM now() - worker.last_heartbeat)) > :absent
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
_SIGHTINGS = text(
    """
    SELECT process.machine, process.boot_id, process.supervisor, process.instance, worker.last_heartbeat
    FROM procrastinate_workers AS worker JOIN worker_processes AS process ON process.worker_id = worker.id
    -- One in the future is older, and proves nothing: the clock of the database was set back since.
    WHERE worker.last_heartbeat <= now()
    """
)
_SET_COUNTS = text("UPDATE procrastinate_jobs SET args = args || :counts ::jsonb WHERE id = :id")
_RETRY_JOB = text("SELECT procrastinate_retry_job_v2(:id, now() + :delay, NULL, NULL, :lock)")
# A job that was started before waits for a retry, and no retry is so far ahead: the clock of the database was
# ahead when the wait began.
_END_LONG_WAITS = text(
    f"""
    UPDATE procrastinate_jobs AS job SET scheduled_at = now()
    WHERE job.status = 'todo'
      AND job.scheduled_at > now() + CASE
          WHEN job.lock IN ('{SUSPECTS_LOCK}', '{UNSERVED_LOCK}') THEN :suspect_delay ELSE :delay END
      AND EXISTS (SELECT FROM procrastinate_events AS event
                  WHERE event.job_id = job.id AND event.type = 'started')
    """  # noqa: S608 - constants only
)
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
                          WHERE event.job_id = job.id AND event.at > :now ::timestamptz - interval '7 days')
    ) RETURNING id
    """
)


def rescue_jobs(
    session: Session,
    handlers: JobHandlers,
    silent_sessions: SilentSessions,
    rescuer: ProcessOrigin,
    *,
    absent_after_s: float = ABSENT_AFTER_S,
    suspended_after_s: float | None = SUSPENDED_AFTER_S,
    reconnect_s: float = RECONNECT_S,
) -> int:
    """Return the jobs of dead workers to the queue; returns how many.

    A job that ends every worker that runs it fails for good: see `mosaico.jobs.deaths`. With None for
    `suspended_after_s` no process counts as suspended.
    Locks:   one rescue at a time; concurrent ones return 0 at once.
    """
    # An advisory lock of the transaction ends with its process: a killed rescuer blocks nobody.
    if not session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RESCUE_LOCK}):
        return 0
    # First, because a suspended process may hold the row locks of the jobs that it no longer runs.
    if suspended_after_s is not None:
        silent_sessions.terminate(session)
    limits = {"absent": absent_after_s, "suspended": suspended_after_s, "reconnect": reconnect_s}
    stalled = session.execute(_SELECT_STALLED, {**limits, "presence": PRESENCE_LOCK}).all()
    sightings = _read_sightings(session, rescuer) if stalled else []
    for job in stalled:
        _rescue_job(session, handlers, job, _find_death(job), sightings)
    session.execute(text(PLACE_SUSPECTS))
    return len(stalled)


def end_long_waits(session: Session) -> None:
    """Let the jobs start whose retry waits until a time that the clock of the database showed, before it was
    set back.
    """
    delay = timedelta(seconds=MAX_RETRY_DELAY_S)
    session.execute(_END_LONG_WAITS, {"delay": delay, "suspect_delay": MAX_DELAY})


def _read_sightings(session: Session, rescuer: ProcessOrigin) -> list[Sighting]:
    # The clock of the database, as all times of heartbeats.
    now = session.scalar(text("SELECT now()"))
    assert now is not None
    workers = session.execute(_SIGHTINGS)
    seen_workers = [
        Sighting(worker.instance, _origin_of(worker).root, worker.last_heartbeat)
        for worker in workers
    ]
    return [Sighting(rescuer.instance, rescuer.root, now), *seen_workers]


def _find_death(job: Row[Any]) -> WorkerDeath | None:
    """The death of the worker of a job; None where the job cannot be its cause.

    A job that ends its worker leaves the row of that worker, the last one of its process.
    """
    if job.machine is None or job.is_registered_again:
        return None
    return WorkerDeath(
        instance=job.instance,
        root=_origin_of(job).root,
        rescued_at=job.rescued_at,
        # One suspect at a time: the others are harmless until they have as many deaths.
        is_own=job.job_count == 1 or job.lock == SUSPECTS_LOCK,
        with_database=job.database_restarted,
    )


def _rescue_job(
    session: Session,
    handlers: JobHandlers,
    job: Row[Any],
    new_death: WorkerDeath | None,
    sightings: Sequence[Sighting],
) -> None:
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
    new_deaths = [] if new_death is None else [new_death]
    deaths = review_deaths([*read_deaths(job_call.deaths), *new_deaths], sightings)
    suspicion = judge_deaths(deaths)
    # Also for jobs without `on_failure`: a job that kills its workers must not go on for ever.
    if suspicion in FAILURES:
        fail_job(session, claim, _fail_after_deaths(claim, suspicion, len(deaths)), handlers)
        return
    counts = {RESCUES: job_call.rescues + 1, DEATHS: write_deaths(deaths)}
    session.execute(_SET_COUNTS, {"id": claim.id, "counts": json.dumps(counts)})
    lock = SUSPECTS_LOCK if suspicion is Suspicion.SUSPECT else None
    delay = delay_retry(deaths)
    if delay:
        log.warning(
            "job %s (%d) waits for %s: its worker and everything above it ended %d times while running it",
            claim.name,
            claim.id,
            delay,
            len(deaths),
        )
    session.execute(_RETRY_JOB, {"id": claim.id, "delay": delay, "lock": lock})


def _origin_of(process: Row[Any]) -> ProcessOrigin:
    return ProcessOrigin(
        machine=process.machine,
        boot_id=process.boot_id,
        supervisor=process.supervisor,
        instance=process.instance,
    )


def _fail_after_deaths(claim: JobClaim, suspicion: Suspicion, death_count: int) -> JobFailed:
    error, message = FAILURES[suspicion]
    return JobFailed(code=error.code, message=message.format(deaths=death_count, job=claim.name))


def delete_finished_jobs(session: Session, now: datetime) -> int:
    """Delete one batch of jobs that ended more than a week ago.

    Returns the number of deleted jobs; see `delete_batch`.
    """
    return len(session.execute(_DELETE_FINISHED, {"now": now, "batch_rows": BATCH_ROWS}).all())
