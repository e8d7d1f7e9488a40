"""The deaths of workers during a job, whether the job is to blame, and the lock of such suspects.

The arguments of a job contain its deaths. They are judged together, each time one is added, because the
proof of a death may appear only later.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from mosaico.core.errors import AppError
from mosaico.jobs.handlers import MAX_ATTEMPTS

log = logging.getLogger(__name__)

# Proved deaths. After one, the jobs of the worker go on side by side: most deaths have another cause.
SUSPECT_AFTER = 2
# Deaths of any kind: without proofs, only many of them make a suspect, since power losses are not a fault.
SUSPECT_AFTER_UNPROVED = MAX_ATTEMPTS
# A harmless job that ran beside a poison one has the shared deaths, but none of its own.
MIN_OWN_DEATHS = 3
# Where each crash takes the machine or the database along, as in a virtual machine per task, no death is ever proved, and
# each may as well be a power loss. So from here on such deaths only make the job wait, longer each time ...
DELAY_AFTER_UNPROVED = 50
FIRST_DELAY = timedelta(minutes=1)
MAX_DELAY = timedelta(hours=1)
# ... and then fail, before the next night: the next instant of a schedule is skipped while a run of it is in
# progress.
GIVE_UP_AFTER = timedelta(hours=12)

# The lock of jobs (`enqueue`) that all suspects get instead of their own.
SUSPECTS_LOCK = "suspects"
# Waiting jobs of one lock run in their order: one that no worker may start now, because of its queue or
# its time, would hold up the others.
UNSERVED_LOCK = "suspects of no worker"

# Between the end of the last worker of a queue and its absence, its suspects hold up the others.
_ABSENT_AFTER_S = 15
# Several rescues before its time, so that a job never starts with the other lock.
_DUE_WITHIN = "interval '10 seconds'"

# With the predicate of an index, because millions of other jobs may wait.
PLACE_SUSPECTS = f"""
    WITH placed AS (
        SELECT job.id, CASE WHEN (job.scheduled_at <= now() + {_DUE_WITHIN}) IS NOT FALSE AND EXISTS (
                SELECT FROM worker_processes AS process
                JOIN procrastinate_workers AS worker ON worker.id = process.worker_id
                -- A heartbeat in the future is older: the clock of the database was set back since.
                WHERE abs(extract(epoch FROM now() - worker.last_heartbeat)) < {_ABSENT_AFTER_S}
                  AND (process.queues IS NULL OR job.queue_name = ANY (process.queues))
            ) THEN '{SUSPECTS_LOCK}' ELSE '{UNSERVED_LOCK}' END AS lock
        FROM procrastinate_jobs AS job
        WHERE job.status = 'todo' AND job.lock IN ('{SUSPECTS_LOCK}', '{UNSERVED_LOCK}')
        FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE procrastinate_jobs AS job SET lock = placed.lock
    FROM placed WHERE job.id = placed.id AND job.lock <> placed.lock
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeath:
    """The death of a worker during a job.

    `root` and `instance` are those of the `ProcessOrigin` of the worker. `rescued_at` is the time of the database at which the
    job was taken from it. `is_own`: no other job can have ended the worker, as far as is known.
    `is_proved`: the root was seen afterwards, so the worker alone died. `with_database`: the database restarted
    during the job, which may be the reason whatever is seen afterwards: never proved.
    """

    instance: str
    root: str
    rescued_at: AwareDatetime
    is_own: bool
    is_proved: bool = False
    with_database: bool = False


_ENTRY: Final = TypeAdapter(WorkerDeath)


class Sighting(NamedTuple):
    """The instance of a process, its root, and the last sign of life of both."""

    instance: str
    root: str
    seen_at: datetime


class Poison(AppError):
    """Workers died while they ran a job of the run, again and again; read their logs, for example for a lack
    of memory, then retry the run.
    """

    code = "POISON"


class Interrupted(AppError):
    """Workers ended with their machines for twelve hours while they ran a job of the run; read the logs of the
    machines, and retry the run on another one.
    """

    code = "INTERRUPTED"


class Suspicion(Enum):
    """The suspicion that worker deaths raise about their job."""

    NONE = "none"
    SUSPECT = "suspect"  # runs while no other suspect does
    POISON = "poison"  # fails, because it ends its workers
    INTERRUPTED = "interrupted"  # fails, although the machines may be the reason


def read_deaths(entries: object) -> list[WorkerDeath]:
    """The deaths that the arguments of a job contain; see `write_deaths`.

    Fields of a newer version are ignored, and so is an entry that cannot be read: an error would stop the
    rescue of every other job, too.
    """
    deaths = []
    for entry in entries if isinstance(entries, list) else [entries]:
        try:
            deaths.append(_ENTRY.validate_python(entry))
        except ValidationError:
            log.warning("the death of a worker cannot be read and does not count: %.200r", entry)
    return deaths


def write_deaths(deaths: Iterable[WorkerDeath]) -> list[dict[str, Any]]:
    """The deaths as JSON."""
    return [{**asdict(death), "rescued_at": death.rescued_at.isoformat()} for death in deaths]


def review_deaths(
    deaths: Iterable[WorkerDeath], sightings: Sequence[Sighting]
) -> list[WorkerDeath]:
    """Drop the deaths of processes that live after all, and mark those that are proved by now."""
    reviewed = []
    for death in deaths:
        later = [sighting for sighting in sightings if sighting.seen_at >= death.rescued_at]
        # A suspended process, one that lost its connection, or one that rescues its own job.
        if any(sighting.instance == death.instance for sighting in later):
            continue
        is_seen = any(sighting.root == death.root for sighting in later)
        is_proved = death.is_proved or (is_seen and not death.with_database)
        reviewed.append(replace(death, is_proved=is_proved))
    return reviewed


def judge_deaths(deaths: Sequence[WorkerDeath]) -> Suspicion:
    """Decide from the reviewed deaths, in their order, what becomes of the job."""
    proved_deaths = [death for death in deaths if death.is_proved]
    own_proved_deaths = [death for death in proved_deaths if death.is_own]
    if len(proved_deaths) >= MAX_ATTEMPTS and len(own_proved_deaths) >= MIN_OWN_DEATHS:
        return Suspicion.POISON
    interruptions = _own_unproved(deaths)
    if len(interruptions) > DELAY_AFTER_UNPROVED and _duration(interruptions) >= GIVE_UP_AFTER:
        return Suspicion.INTERRUPTED
    is_suspect = len(proved_deaths) >= SUSPECT_AFTER or len(deaths) >= SUSPECT_AFTER_UNPROVED
    return Suspicion.SUSPECT if is_suspect else Suspicion.NONE


def delay_retry(deaths: Iterable[WorkerDeath]) -> timedelta:
    """The time that a job waits after the last of its reviewed deaths."""
    doublings = len(_own_unproved(deaths)) - DELAY_AFTER_UNPROVED - 1
    if doublings < 0:
        return timedelta()
    # The exponent is bounded, because there may be hundreds of deaths.
    return min(FIRST_DELAY * (1 << min(doublings, 10)), MAX_DELAY)


def _own_unproved(deaths: Iterable[WorkerDeath]) -> list[WorkerDeath]:
    return [death for death in deaths if death.is_own and not death.is_proved]


def _duration(deaths: Sequence[WorkerDeath]) -> timedelta:
    return deaths[-1].rescued_at - deaths[0].rescued_at
