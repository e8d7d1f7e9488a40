"""The heartbeat of the service: a dead man's switch is called each minute while runs can be done.

A scheduler enqueues a job for each minute, unless a schedule is overdue, and a worker that does it makes the call. So a
call proves what a run needs: a scheduler that fires, a database that commits, a worker that does jobs. Of several
schedulers and workers, one enqueues and one calls.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import httpx
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.errors import AppError, Invalid
from mosaico.core.http.client import outbound_client
from mosaico.core.resources import Resources
from mosaico.core.text import format_utc
from mosaico.jobs.declarations import SendHeartbeat
from mosaico.jobs.queue import enqueue_once
from mosaico.schedules.missed_schedules import OVERDUE_AFTER

PERIOD_S: Final = 60.0
TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 64 * 1024
# A worker that was busy or away for longer says nothing about the minute of the job.
MAX_AGE: Final = timedelta(minutes=5)

LOCK: Final = 0x4D484254
_LOCK = text("SELECT pg_try_advisory_xact_lock(:key)")
# A statement of its own, which sees what the holder of the lock before has committed.
_FIND_MINUTE = text(
    """
    SELECT date_trunc('minute', now())
    WHERE NOT EXISTS (
        SELECT FROM procrastinate_jobs
        WHERE queue_name = :queue AND (args ->> 'minute')::timestamptz = date_trunc('minute', now())
    ) AND NOT EXISTS (SELECT FROM schedule_configs WHERE next_run_at < now() - :overdue_after)
    """
)
_FIND_LAST = text(
    """
    SELECT status = 'succeeded', greatest(now() - ended.at, interval '0')
    FROM procrastinate_jobs AS job
    CROSS JOIN LATERAL (SELECT max(at) AS at FROM procrastinate_events WHERE job_id = job.id) AS ended
    WHERE queue_name = :queue AND status IN ('succeeded', 'failed') ORDER BY job.id DESC LIMIT 1
    """
)


class HeartbeatFailed(AppError):
    """The dead man's switch was not reached; the next call follows in a minute."""


class LastHeartbeat(NamedTuple):
    """The last call that was tried, by the clock of the database."""

    succeeded: bool
    age: timedelta


def enqueue_heartbeat(res: Resources) -> bool:
    """Enqueue the call of this minute, unless another scheduler has, or a schedule is overdue; returns whether it was
    enqueued. Nothing happens without a URL.
    """
    if res.heartbeat_url is None:
        return False
    queue = SendHeartbeat.queue()
    with res.db.begin() as session:
        if not session.scalar(_LOCK, {"key": LOCK}):
            return False
        minute = session.scalar(_FIND_MINUTE, {"queue": queue, "overdue_after": OVERDUE_AFTER})
        # One waits at most: when workers return, they make one call and not one for each minute.
        return minute is not None and enqueue_once(
            session, SendHeartbeat(minute=minute), key=queue, is_short=True
        )


def send(res: Resources, minute: datetime) -> None:
    """Call the dead man's switch with GET; any 2xx status is a success.

    Raises: `HeartbeatFailed`, whose text has no part of the URL but its host.
    """
    if res.heartbeat_url is None:
        raise HeartbeatFailed(
            "MOSAICO_HEARTBEAT_URL is set for a scheduler, and not for this worker; set it for both"
        )
    if res.clock() - minute > MAX_AGE:
        raise HeartbeatFailed(
            f"the heartbeat of {format_utc(minute)} waited too long for a worker, and was not sent"
        )
    try:
        with (
            outbound_client(
                timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES, policy=res.outbound
            ) as client,
            client.stream("GET", res.heartbeat_url.reveal()) as response,
        ):
            status, is_success = response.status_code, response.is_success
    except Invalid as error:
        raise HeartbeatFailed(f"the heartbeat was not sent: {error.detail}") from None
    except httpx.HTTPError as error:
        # Its text may contain the URL, which is a credential.
        raise HeartbeatFailed(f"the heartbeat was not sent: {type(error).__name__}") from None
    if not is_success:
        raise HeartbeatFailed(f"the dead man's switch answered HTTP {status}")


def find_last_heartbeat(session: Session) -> LastHeartbeat | None:
    """The last call that was tried; None before the first one."""
    row = session.execute(_FIND_LAST, {"queue": SendHeartbeat.queue()}).first()
    return LastHeartbeat(*row) if row else None
