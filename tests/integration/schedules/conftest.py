"""A service with a benchmark to schedule, and a clock that the test sets."""

from collections.abc import Callable
from datetime import datetime

import pytest

from mosaico.schedules.firing import fire_due
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

NIGHTLY = {
    "name": "nightly",
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "cronExpression": "0 0 2 * * *",
}


@pytest.fixture
def prepared_service(service: Service) -> Service:
    """A service with an agent, a benchmark and traces to judge."""
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    return service


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)


@pytest.fixture
def due(prepared_service: Service, rows: DatabaseReader) -> Callable[..., JSON]:
    """A schedule that is due at an instant of the past."""

    def make(at: datetime, schedule_id: str = "s-1", **more: object) -> JSON:
        # A year: with the default of a day, instants of several missed nights would be left out.
        body = {"id": schedule_id, **NIGHTLY, "catchupWindowSeconds": 366 * 86_400, **more}
        created = prepared_service.post("/schedule-configs", body)
        rows.execute("UPDATE schedule_configs SET next_run_at = %s WHERE id = %s", at, schedule_id)
        return created

    return make


@pytest.fixture
def tick(service: Service) -> Callable[[datetime], int]:
    """One tick of a scheduler at an instant."""

    def at(now: datetime) -> int:
        with service.resources.db.begin() as session:
            return fire_due(session, now, 500)

    return at
