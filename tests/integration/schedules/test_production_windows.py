"""Schedules of benchmarks that read production traces: the window of each due instant."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.support.service import JSON, Service

TWO = datetime(2026, 3, 2, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def test_window__of_a_late_run_is_that_of_its_due_instant(
    prepared_service: Service, due: Callable[..., JSON], tick: Callable[[datetime], int]
) -> None:
    production = {"since": "24h", "lag": "15m"}
    prepared_service.create_benchmark("live", source="otel", datasetRef=None, production=production)
    due(TWO, benchmarkId="live", misfirePolicy="FIRE_ALL", concurrencyPolicy="ALLOW")
    # Two nights passed while no scheduler ran.
    tick(TWO + 2 * DAY + timedelta(hours=5))
    prepared_service.work()
    runs = prepared_service.list_items("/benchmark-runs", benchmarkId="live")
    windows = sorted((run["traceWindow"]["from"], run["traceWindow"]["to"]) for run in runs)
    # Each window ends 15 minutes (`lag`) before its due instant, whenever the run starts.
    assert windows == [
        ("2026-03-01T01:45:00Z", "2026-03-02T01:45:00Z"),
        ("2026-03-02T01:45:00Z", "2026-03-03T01:45:00Z"),
        ("2026-03-03T01:45:00Z", "2026-03-04T01:45:00Z"),
    ]
