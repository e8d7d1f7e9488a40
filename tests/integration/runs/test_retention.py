"""What is forgotten when, and what stays."""

from datetime import timedelta

import pytest

from app.core.clock import utc_now
from app.runs.retention import count_runs_before, purge_expired_runs, purge_runs_before
from tests.support.service import JSON, Service, pair


@pytest.fixture
def runs(service: Service) -> tuple[JSON, JSON]:
    """A run of a benchmark that keeps its runs for seven days, and one of another that says nothing."""
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


def test_traces_are_kept_as_many_days_as_their_benchmark_says(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    assert [purge_after(service, days) for days in (6.9, 7.1, 7.1)] == [0, 1, 0]

    purged, kept = (service.get(f"/benchmark-runs/{run['id']}") for run in runs)
    assert purged["purgedAt"]
    assert kept["purgedAt"] is None


def test_a_purged_run_keeps_its_history_and_loses_its_traces(
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


def test_traces_that_no_run_judges_any_more_are_gone(
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


def test_a_purge_by_hand_may_be_of_one_benchmark(service: Service, runs: tuple[JSON, JSON]) -> None:
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, tomorrow, utc_now(), benchmark_id="bench-002") == 1

    assert service.get(f"/benchmark-runs/{runs[0]['id']}")["purgedAt"] is None


def test_a_purged_run_is_measured_anew_by_the_next_one(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        purge_runs_before(session, tomorrow, utc_now())
    service.work()

    again = service.completed()

    assert again["metricsComputed"] == runs[0]["metricsComputed"]
    assert service.get(f"/benchmark-runs/{again['id']}/results")["items"]
