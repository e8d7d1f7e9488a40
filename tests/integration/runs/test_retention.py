"""Purge and deletion of runs."""

from datetime import timedelta

import pytest

from app.core.clock import utc_now
from app.runs.retention import count_runs_before, purge_expired_runs, purge_runs_before
from tests.support.service import JSON, Service, pair


@pytest.fixture
def runs(service: Service) -> tuple[JSON, JSON]:
    """A run of a benchmark with `keepDays` 7, and one of a benchmark without `keepDays`."""
    service.agent()
    service.benchmark(keepDays=7)
    service.benchmark("bench-002")
    service.upload([pair(1)])
    return service.completed(), service.completed(benchmarkId="bench-002")


def purge_after(service: Service, days: float) -> int:
    now = utc_now() + timedelta(days=days)
    with service.resources.db.begin() as session:
        return purge_expired_runs(session, now)


def count(service: Service, table: str) -> int:
    with service.resources.db.engine.connect() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def test_purge__runs_are_kept_for_keep_days(service: Service, runs: tuple[JSON, JSON]) -> None:
    assert [purge_after(service, days) for days in (6.9, 7.1, 7.1)] == [0, 1, 0]

    purged, kept_run = (service.get(f"/benchmark-runs/{run['id']}") for run in runs)
    assert purged["purgedAt"]
    assert kept_run["purgedAt"] is None


def test_purge__keeps_the_history_and_removes_the_traces(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    run, other = runs
    path = f"/benchmark-runs/{run['id']}"
    metrics, history = service.get(f"{path}/metrics"), service.get("/kpi-history")

    purge_after(service, 8)
    service.work()

    assert service.get(f"{path}/metrics") == metrics
    assert service.get("/kpi-history") == history
    gone = service.client.get(f"/api/v1{path}/results")
    assert gone.status_code == 410
    assert "aggregates" in gone.json()["detail"]
    assert count(service, "trace_results") == 1
    # The other run judges the same traces.
    assert count(service, "collected_traces") == 1
    assert service.get(f"/benchmark-runs/{other['id']}/results")["items"]


def test_purge__removes_collections_without_a_run(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    assert len(runs) == 2
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        assert count_runs_before(session, tomorrow) == (2, 2)
        assert purge_runs_before(session, tomorrow, utc_now()) == 2
        assert count_runs_before(session, tomorrow) == (0, 0)
    service.work()

    assert (count(service, "trace_results"), count(service, "collected_traces")) == (0, 0)


def test_purge__can_be_limited_to_one_benchmark(service: Service, runs: tuple[JSON, JSON]) -> None:
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, tomorrow, utc_now(), benchmark_id="bench-002") == 1

    assert service.get(f"/benchmark-runs/{runs[0]['id']}")["purgedAt"] is None


def test_purge__the_next_run_measures_again(service: Service, runs: tuple[JSON, JSON]) -> None:
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        purge_runs_before(session, tomorrow, utc_now())
    service.work()

    again = service.completed()

    assert again["metricsComputed"] == runs[0]["metricsComputed"]
    assert service.get(f"/benchmark-runs/{again['id']}/results")["items"]
