"""Stalled runs, and the daily summary."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.core.batch_delete import delete_in_batches
from mosaico.scheduler import fail_stalled_runs
from mosaico.schedules.firing import delete_old_fires
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

QUARTER = timedelta(minutes=15)


def test_fail_stalled_runs__run_without_job_fails_as_stale(
    prepared_service: Service, rows: DatabaseReader
) -> None:
    run = prepared_service.start_run()
    rows.execute("DELETE FROM procrastinate_jobs")
    rows.execute("UPDATE benchmark_runs SET created_at = now() - interval '14 minutes'")
    fail_stalled_runs(prepared_service.resources, QUARTER)
    assert rows.status(run["id"]) == "PENDING"
    rows.execute("UPDATE benchmark_runs SET created_at = now() - interval '16 minutes'")
    fail_stalled_runs(prepared_service.resources, QUARTER)
    failed = prepared_service.get(f"/benchmark-runs/{run['id']}")
    assert (failed["status"], failed["errorCode"]) == ("FAILED", "STALE")
    assert "retry" in failed["errorMessage"]


def test_fail_stalled_runs__long_run_with_job_stays(
    prepared_service: Service, rows: DatabaseReader
) -> None:
    run = prepared_service.start_run()
    rows.execute("UPDATE benchmark_runs SET created_at = now() - interval '9 days'")
    fail_stalled_runs(prepared_service.resources, QUARTER)
    assert rows.status(run["id"]) == "PENDING"
    prepared_service.work()
    fail_stalled_runs(prepared_service.resources, QUARTER)
    assert rows.status(run["id"]) == "COMPLETED"


def test_fail_stalled_runs__recent_shard_is_progress(
    prepared_service: Service, rows: DatabaseReader
) -> None:
    run = prepared_service.complete_run()
    rows.execute("DELETE FROM procrastinate_jobs")
    rows.execute(
        "UPDATE benchmark_runs SET status = 'RUNNING', created_at = now() - interval '1 day',"
        " started_at = now() - interval '1 day'"
    )
    fail_stalled_runs(prepared_service.resources, QUARTER)
    assert rows.status(run["id"]) == "RUNNING"


def test_delete_old_fires__old_fires_are_deleted_in_batches(
    prepared_service: Service,
    rows: DatabaseReader,
    due: Callable[..., JSON],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mosaico.schedules.firing.DELETE_BATCH", 2)
    due(datetime.now(UTC))
    rows.execute(
        "INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status)"
        " SELECT 's-1', now() - n * interval '1 day', now(), 'SCHEDULED', 'STARTED'"
        # Six of them are older than `KEEP_SCHEDULE_FIRES` (400 days): three batches.
        " FROM generate_series(398, 405) AS n"
    )
    resources = prepared_service.resources
    delete_in_batches(resources.db, delete_old_fires, resources.clock)
    days = "SELECT extract(day FROM now() - due_at)::int FROM schedule_fires ORDER BY 1"
    assert [day for (day,) in rows.all(days)] == [398, 399]


def test_daily_summary__runs_failures_and_idle_schedules(
    prepared_service: Service,
    rows: DatabaseReader,
    due: Callable[..., JSON],
    tick: Callable[[datetime], int],
) -> None:
    prepared_service.complete_run()
    prepared_service.patch("/benchmarks/bench-001", {"runName": "gone"})
    now = datetime.now(UTC)
    today = now.replace(hour=0, minute=0, second=1, microsecond=0)
    due(today, maxConsecutiveFailures=1, misfirePolicy="FIRE_ALL")
    due(today, "s-2", misfirePolicy="SKIP", cronExpression="1 0 0 * * *")
    # Later than ON_TIME (5 s), so that the misfire policies decide.
    tick(today + timedelta(seconds=30))
    prepared_service.work()
    summary = prepared_service.get("/daily-summary", date=today.date().isoformat())
    assert summary["runs"] == {"COMPLETED": 1, "FAILED": 1}
    assert summary["fires"] == {"STARTED": 1, "SKIPPED": 1}
    [failed] = summary["failedRuns"]
    assert failed["errorCode"] == "RUN_NOT_FOUND"
    assert [schedule["id"] for schedule in summary["disabledSchedules"]] == ["s-1"]
    assert summary["idleSchedules"] == [
        {"id": "s-2", "name": "nightly", "reasons": {"MISSED": 1}, "details": []}
    ]
    assert prepared_service.get("/daily-summary", date="2020-01-01")["runs"] == {}


def test_daily_summary__schedule_with_a_run_or_before_its_start_is_not_idle(
    prepared_service: Service, rows: DatabaseReader, due: Callable[..., JSON]
) -> None:
    for schedule_id in ("s-idle", "s-pending", "s-started"):
        due(datetime(2030, 1, 1, tzinfo=UTC), schedule_id)
    rows.execute(
        "INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, reason)"
        " SELECT id, timestamptz '2020-01-05 12:00Z' + n * interval '1 minute', now(), 'SCHEDULED',"
        " CASE WHEN n = 0 AND id <> 's-idle' THEN upper(substr(id, 3)) ELSE 'SKIPPED' END,"
        " CASE WHEN n > 0 OR id = 's-idle' THEN CASE n WHEN 1 THEN 'OVERLAP' ELSE 'MISSED' END END"
        " FROM schedule_configs, generate_series(0, 2) AS n"
    )

    summary = prepared_service.get("/daily-summary", date="2020-01-05")
    assert summary["fires"] == {"STARTED": 1, "PENDING": 1, "SKIPPED": 7}
    reasons = {"MISSED": 2, "OVERLAP": 1}
    assert summary["idleSchedules"] == [
        {"id": "s-idle", "name": "nightly", "reasons": reasons, "details": []}
    ]


def test_daily_summary__day_is_in_time_zone(prepared_service: Service) -> None:
    summary = prepared_service.get("/daily-summary", date="2026-10-25", timezone="Europe/Rome")
    # The night of 25 October has an hour more.
    assert (summary["since"], summary["until"]) == ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
    prepared_service.expect_problem(
        422, "GET", "/daily-summary", params={"timezone": "Mars/Phobos"}
    )
    prepared_service.expect_problem(422, "GET", "/daily-summary", params={"date": "9999-12-31"})
