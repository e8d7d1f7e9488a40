"""Schedules, and the runs that they started."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mosaico.schedules.firing import start_fire
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

TWO = datetime(2026, 3, 2, 2, tzinfo=UTC)
DAY = timedelta(days=1)

Due = Callable[..., JSON]
Tick = Callable[[datetime], int]


def fires(service: Service, schedule_id: str = "s-1") -> list[JSON]:
    """Oldest first."""
    return list(reversed(service.list_items(f"/schedule-configs/{schedule_id}/fires")))


def statuses(service: Service, schedule_id: str = "s-1") -> list[tuple[str, str | None]]:
    return [(fire["status"], fire["reason"]) for fire in fires(service, schedule_id)]


def schedule(service: Service, schedule_id: str = "s-1") -> JSON:
    return service.get(f"/schedule-configs/{schedule_id}")


def start_pending(service: Service, rows: DatabaseReader) -> None:
    """Do the oldest start job by hand."""
    seq = rows.value("SELECT min(seq) FROM schedule_fires WHERE status = 'PENDING'")
    with service.resources.db.begin() as session:
        start_fire(session, seq, datetime.now(UTC))
