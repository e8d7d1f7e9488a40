"""The checks of a running service: what is wrong, and what to do. Findings contain no text of a user."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

from pydantic import Field
from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from mosaico.core.defaults import MIN_FREE_BYTES, REPORTED_CLOCK_DIFFERENCE
from mosaico.core.migrations import HEAD_REVISION
from mosaico.core.schemas import WireModel
from mosaico.core.text import count_noun, format_duration
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.prometheus import QueueState
from mosaico.notifications.models import Delivery, Endpoint
from mosaico.notifications.rules import DeliveryStatus
from mosaico.schedules.missed_schedules import OVERDUE_AFTER
from mosaico.schedules.models import MISSED, ScheduleConfig, ScheduleFire
from mosaico.schedules.rules import SCHEDULER_NAME

# A job that waits longer is late: a worker takes a new one within a second.
MAX_QUEUE_AGE: Final = timedelta(minutes=5)
RECENT: Final = timedelta(hours=24)
MAX_COUNTED: Final = 1_000
MAX_LINKS: Final = 5

_SCHEMA = text("SELECT version_num FROM alembic_version")
_HAS_SCHEMA = text("SELECT to_regclass('alembic_version') IS NOT NULL")
_COUNT_SCHEDULERS = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = :name AND datname = current_database()"
)


class SystemLink(WireModel):
    """A page that shows the cause of a finding."""

    path: str
    text: str


class SystemCheck(WireModel):
    """The result of a check of the service; a failed one has a remedy: a command, or pages to open."""

    name: str
    ok: bool
    finding: Annotated[str, Field(description="What was found.")]
    remedy: Annotated[str | None, Field(description="What to do.")] = None
    command: Annotated[str | None, Field(description="A command that does it.")] = None
    links: list[SystemLink] = Field(default_factory=list)


class StoredState(NamedTuple):
    """What the database says about the service; the lists are IDs. `schedulers` are sessions, of which a
    scheduler has several; None where they cannot be seen.
    """

    revision: str | None
    schedulers: int | None
    active_schedules: int
    overdue_schedules: Sequence[str]
    missed_schedules: Sequence[str]
    disabled_endpoints: Sequence[str]
    failing_endpoints: Sequence[str]
    failed_deliveries: int


class MachineState(NamedTuple):
    """What this process says about its machine."""

    disk_free_bytes: int
    clock_difference: timedelta
    alive_workers: int
    workers: int
    broken_plugins: Sequence[str]


def read_stored_state(session: Session, now: datetime, *, is_pooled: bool) -> StoredState:
    """The state at `now`, by the clock of the database. A pooler shows no session of a scheduler."""
    active = select(ScheduleConfig.id).where(ScheduleConfig.next_run_at.is_not(None))
    missed = select(ScheduleFire.schedule_id).where(
        ScheduleFire.due_at >= now - RECENT, ScheduleFire.due_at < now, text(MISSED)
    )
    failed = select(Delivery.id).where(
        Delivery.status == DeliveryStatus.FAILED, Delivery.created_at >= now - RECENT
    )
    overdue = select(ScheduleConfig.id).where(ScheduleConfig.next_run_at < now - OVERDUE_AFTER)
    disabled = select(Endpoint.id).where(Endpoint.disabled_at.is_not(None))
    failing = select(Endpoint.id).where(
        Endpoint.disabled_at.is_(None), Endpoint.first_failed_at.is_not(None)
    )
    has_schema = session.scalar(_HAS_SCHEMA)
    return StoredState(
        revision=session.scalar(_SCHEMA) if has_schema else None,
        schedulers=None
        if is_pooled
        else session.scalars(_COUNT_SCHEDULERS, {"name": SCHEDULER_NAME}).one(),
        active_schedules=len(_list_first(session, active)),
        overdue_schedules=_list_first(session, overdue.order_by(ScheduleConfig.next_run_at)),
        missed_schedules=list(dict.fromkeys(_list_first(session, missed))),
        disabled_endpoints=_list_first(session, disabled),
        failing_endpoints=_list_first(session, failing),
        failed_deliveries=len(_list_first(session, failed)),
    )


def _list_first(session: Session, ids: Select[str]) -> Sequence[str]:
    """The first `MAX_COUNTED` IDs: a state of more is the same."""
    return session.scalars(ids.limit(MAX_COUNTED)).all()


def list_checks(
    stored: StoredState, machine: MachineState, queues: Sequence[QueueState], database: str
) -> list[SystemCheck]:
    """The checks, failed ones first, each group from what most depends on to what least does."""
    checks = [
        SystemCheck(name="database", ok=True, finding=f"{database} answers"),
        _check_migrations(stored.revision),
        _check_workers(machine),
        *_check_queues(queues),
        _check_scheduler(stored),
        _check_missed(stored),
        _check_endpoints(stored),
        _check_deliveries(stored),
        _check_disk(machine.disk_free_bytes),
        _check_clock(machine.clock_difference),
        _check_plugins(machine.broken_plugins),
    ]
    return sorted(checks, key=lambda check: check.ok)


def describe_checks(checks: Sequence[SystemCheck]) -> str:
    """The verdict on the service in a sentence."""
    failed = sum(not check.ok for check in checks)
    if not failed:
        return "The service is healthy"
    return "1 check failed" if failed == 1 else f"{failed} checks failed"


def _check_migrations(revision: str | None) -> SystemCheck:
    if revision == HEAD_REVISION:
        return SystemCheck(name="migrations", ok=True, finding="the schema is up to date")
    return SystemCheck(
        name="migrations",
        ok=False,
        finding=f"the database is at schema {revision or 'none'}, this version requires {HEAD_REVISION}",
        remedy="stop the service and upgrade the database",
        command="mosaico db upgrade",
    )


def _check_workers(machine: MachineState) -> SystemCheck:
    finding = f"{machine.alive_workers} of {machine.workers} workers are alive"
    if machine.alive_workers:
        return SystemCheck(name="workers", ok=True, finding=finding)
    return SystemCheck(
        name="workers",
        ok=False,
        finding=finding if machine.workers else "no worker runs",
        remedy="runs and messages wait for a worker; start one",
        command="mosaico worker",
    )


def _check_queues(queues: Sequence[QueueState]) -> Iterator[SystemCheck]:
    """A check for each queue whose jobs wait too long; one of all queues if there is none."""
    waiting = [queue for queue in queues if queue.status == "todo"]
    late = [queue for queue in waiting if queue.oldest_s > MAX_QUEUE_AGE.total_seconds()]
    busy = {queue.queue for queue in queues if queue.status == "doing"}
    if not late:
        count = sum(queue.depth for queue in waiting)
        yield SystemCheck(name="queues", ok=True, finding=f"{count:,} jobs wait, none for long")
    for queue in late:
        age = format_duration(timedelta(seconds=queue.oldest_s))
        is_served = queue.queue in busy
        yield SystemCheck(
            name=f"queue {queue.queue}",
            ok=False,
            finding=f"{queue.depth:,} jobs wait, the oldest for {age}"
            + ("" if is_served else "; no worker runs a job of this queue"),
            remedy="start another worker" if is_served else "start a worker for this queue",
            command=f"mosaico worker --queues {queue.queue}",
        )


def _check_scheduler(stored: StoredState) -> SystemCheck:
    if stored.overdue_schedules:
        count = len(stored.overdue_schedules)
        finding = f"{count_noun(count, 'schedule')} did not fire when due"
    elif stored.active_schedules and stored.schedulers == 0:
        count = stored.active_schedules
        finding = f"no scheduler runs; {count_noun(count, 'schedule')} will not fire"
    else:
        connected = "a scheduler is connected, " if stored.schedulers else ""
        finding = f"{connected}{count_noun(stored.active_schedules, 'schedule')} on, none overdue"
        return SystemCheck(name="scheduler", ok=True, finding=finding)
    return SystemCheck(
        name="scheduler",
        ok=False,
        finding=finding,
        remedy="schedules fire only while a scheduler runs; start one",
        command="mosaico scheduler",
        links=_links("schedules", stored.overdue_schedules),
    )


def _check_missed(stored: StoredState) -> SystemCheck:
    missed = stored.missed_schedules
    if not missed:
        return SystemCheck(
            name="schedules", ok=True, finding="no due time was missed in the last 24 hours"
        )
    return SystemCheck(
        name="schedules",
        ok=False,
        finding=f"{count_noun(len(missed), 'schedule')} missed due times in the last 24 hours",
        remedy="the page of a schedule shows why; run it now, if the result is needed",
        links=_links("schedules", missed),
    )


def _check_endpoints(stored: StoredState) -> SystemCheck:
    disabled, failing = stored.disabled_endpoints, stored.failing_endpoints
    if not disabled and not failing:
        return SystemCheck(name="endpoints", ok=True, finding="no endpoint is failing or disabled")
    parts = [
        f"{len(ids)} {state}"
        for ids, state in ((disabled, "disabled"), (failing, "failing"))
        if ids
    ]
    return SystemCheck(
        name="endpoints",
        ok=False,
        finding=f"endpoints: {', '.join(parts)}",
        remedy="open the endpoint, correct the cause, and send a test message",
        links=_links("endpoints", [*disabled, *failing]),
    )


def _check_deliveries(stored: StoredState) -> SystemCheck:
    if not stored.failed_deliveries:
        return SystemCheck(
            name="deliveries", ok=True, finding="no message was given up in the last 24 hours"
        )
    return SystemCheck(
        name="deliveries",
        ok=False,
        finding=f"{count_noun(stored.failed_deliveries, 'message')} given up in the last 24 hours",
        remedy="the inbox has the messages; the page of an endpoint sends them again",
        command="mosaico notify deliveries list --status failed",
    )


def _check_disk(free_bytes: int) -> SystemCheck:
    finding = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes >= MIN_FREE_BYTES:
        return SystemCheck(name="disk", ok=True, finding=finding)
    return SystemCheck(
        name="disk",
        ok=False,
        finding=finding,
        remedy="free some space, or set MOSAICO_DATA_DIR to a folder on another disk",
    )


def _check_clock(difference: timedelta) -> SystemCheck:
    finding = f"this machine and the database differ by {abs(difference.total_seconds()):.1f} s"
    if abs(difference) <= REPORTED_CLOCK_DIFFERENCE:
        return SystemCheck(name="clock", ok=True, finding=finding)
    return SystemCheck(
        name="clock",
        ok=False,
        finding=finding,
        remedy="set both clocks with NTP",
        command="timedatectl set-ntp true",
    )


def _check_plugins(broken: Sequence[str]) -> SystemCheck:
    if not broken:
        return SystemCheck(name="plugins", ok=True, finding="every plugin is loaded")
    return SystemCheck(
        name="plugins",
        ok=False,
        finding=f"not loaded: {', '.join(broken)}",
        remedy="the list of providers shows the error of each; update or remove its package",
        links=[SystemLink(path="/providers", text="Providers")],
    )


def _links(section: str, ids: Sequence[str]) -> list[SystemLink]:
    """The pages of the first resources, then the list of all."""
    pages = [SystemLink(path=path_of(section, id_), text=id_) for id_ in ids[:MAX_LINKS]]
    if len(ids) > MAX_LINKS:
        pages.append(SystemLink(path=f"/{section}", text=f"{MAX_LINKS} of {len(ids)}; all"))
    return pages
