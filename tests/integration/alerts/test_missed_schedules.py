"""Notices about schedules that did not start their run."""

from datetime import UTC, datetime, timedelta

import pytest

from mosaico.schedules.missed_schedules import (
    MAX_SKIPS_COUNTED,
    report_missed_schedules,
)
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader
from tests.support.texts import assert_names

NOW = datetime(2026, 11, 22, 7, tzinfo=UTC)


@pytest.fixture
def service_with_schedule(benchmark_service: Service, rows: DatabaseReader) -> Service:
    """A service with a rule that notifies a webhook, and a nightly schedule that is not due."""
    create_rule = {"name": "any", "benchmarkId": "bench-001", "metric": "EXACT_MATCH"}
    benchmark_service.post(
        "/alert-configs",
        {
            **create_rule,
            "condition": "LESS_THAN",
            "threshold": 0,
            "channels": ["WEBHOOK"],
            "recipients": ["https://hooks.example.com/alerts"],
        },
    )
    benchmark_service.post(
        "/schedule-configs",
        {
            "id": "nightly",
            "name": "every night",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "0 0 2 * * *",
        },
    )
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW + timedelta(hours=1))
    return benchmark_service


def report_missed(service: Service, now: datetime = NOW) -> list[JSON]:
    """Check twice, as two workers do; returns all alerts so far."""
    for _ in range(2):
        with service.resources.db.begin() as session:
            report_missed_schedules(session, now)
    return service.list_items("/alerts")


def test_missed_schedule__overdue_for_five_minutes_causes_a_notice(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    assert report_missed(service_with_schedule) == []
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW)
    assert report_missed(service_with_schedule, NOW + timedelta(minutes=5)) == []
    [alert] = report_missed(service_with_schedule, NOW + timedelta(minutes=6))
    assert (alert["state"], alert["name"], alert["severity"]) == (
        "SCHEDULE_MISSED", "every night", "CRITICAL",
    )  # fmt: skip
    assert_names(
        alert["explanation"], "'every night'", "2026-11-22 07:00:00 UTC", "`mosaico scheduler`"
    )
    assert len(service_with_schedule.list_items("/deliveries")) == 1


@pytest.mark.parametrize(
    ("status", "reason", "explanation"),
    [
        ("FAILED", "CONFLICT", "CONFLICT: the agent is archived"),
        (
            "SKIPPED",
            "MISSED",
            "no scheduler was running at that time, and the schedule skips missed times",
        ),
        ("SKIPPED", "COALESCED", None),
        ("SKIPPED", "NO_NEW_RUN", None),
        ("SKIPPED", "OVERLAP", None),
        ("STARTED", None, None),
    ],
)
def test_missed_schedule__a_fire_without_a_run_causes_a_notice(
    service_with_schedule: Service,
    rows: DatabaseReader,
    status: str,
    reason: str | None,
    explanation: str | None,
) -> None:
    rows.execute(
        """INSERT INTO schedule_fires
               (schedule_id, due_at, fired_at, triggered_by, status, reason, detail)
           VALUES ('nightly', %s, %s, 'SCHEDULED', %s, %s, 'the agent is archived')""",
        NOW, NOW, status, reason,
    )  # fmt: skip
    explanations = [alert["explanation"] for alert in report_missed(service_with_schedule)]
    assert [explanation.partition("no run: ")[2] for explanation in explanations] == (
        [f"{explanation}."] if explanation else []
    )


def test_missed_schedule__a_disabled_schedule_causes_a_notice(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    rows.execute(
        "UPDATE schedule_configs SET enabled = false, next_run_at = NULL, disabled_at = %s,"
        " disabled_reason = '3 failures in a row'",
        NOW,
    )
    [alert] = report_missed(service_with_schedule)
    schedule_id = alert["details"]["scheduleId"]
    assert alert["explanation"].endswith(
        "starts no more runs: 3 failures in a row. To enable it: mosaico schedules enable"
        f" {schedule_id}"
    )
    [message] = service_with_schedule.list_items("/notifications")
    assert message["link"].endswith(f"/schedules/{schedule_id}")
    assert "is disabled: 3 failures in a row" in message["title"]


def add_fires(rows: DatabaseReader, schedule_id: str, count: int, first: datetime = NOW) -> None:
    """Instants that were missed, one each three seconds."""
    rows.execute(
        """INSERT INTO schedule_fires
               (schedule_id, due_at, fired_at, triggered_by, status, reason)
           SELECT %s, %s + n * interval '3 seconds', %s, 'SCHEDULED', 'SKIPPED', 'MISSED'
           FROM generate_series(0, %s) AS n""",
        schedule_id, first, first, count - 1,
    )  # fmt: skip


def test_missed_schedule__many_instants_are_one_notice_with_count_and_span(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    add_fires(rows, "nightly", 10)
    [alert] = report_missed(service_with_schedule)
    assert_names(
        alert["explanation"], "10 due times", "2026-11-22 07:00:00 UTC", "2026-11-22 07:00:27 UTC"
    )
    assert len(service_with_schedule.list_items("/deliveries")) == 1


def test_missed_schedule__later_misses_wait_an_hour_and_are_counted_together(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    add_fires(rows, "nightly", 1)
    assert len(report_missed(service_with_schedule)) == 1
    for minutes in (1, 30, 59):
        later = NOW + timedelta(minutes=minutes)
        add_fires(rows, "nightly", 2, later)
        assert len(report_missed(service_with_schedule, later)) == 1
    newest, _ = report_missed(service_with_schedule, NOW + timedelta(minutes=61))
    # Two at each of the three later times.
    assert "started no run at 6 due times" in newest["explanation"]


def test_missed_schedule__extent_of_a_reported_outage_is_no_second_critical_message(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW)
    [overdue] = report_missed(service_with_schedule, NOW + timedelta(minutes=6))
    # A scheduler is back: it skips what was missed, and waits for the next night.
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW + timedelta(days=1))
    add_fires(rows, "nightly", 4)
    extent, _ = report_missed(service_with_schedule, NOW + timedelta(minutes=7))
    assert (overdue["severity"], extent["severity"]) == ("CRITICAL", "INFO")
    assert "at 4 due times" in extent["explanation"]


def test_missed_schedule__schedules_with_one_recipient_share_a_message(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    other = service_with_schedule.get("/schedule-configs/nightly")
    copied = ("benchmarkId", "agentId", "cronExpression")
    service_with_schedule.post(
        "/schedule-configs",
        {"id": "hourly", "name": "every hour", **{name: other[name] for name in copied}},
    )
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW)
    assert len(report_missed(service_with_schedule, NOW + timedelta(minutes=6))) == 2
    assert len(service_with_schedule.list_items("/deliveries")) == 1
    assert len(service_with_schedule.list_items("/notifications")) == 1


def block(service: Service, rows: DatabaseReader) -> str:
    """A run that the schedule started at `NOW` and that never ends; returns its ID."""
    run_id: str = service.start_run()["id"]
    rows.execute(
        """INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, run_id)
           VALUES ('nightly', %s, %s, 'SCHEDULED', 'STARTED', %s)""",
        NOW, NOW, run_id,
    )  # fmt: skip
    # Not due by the end of a test: an overdue schedule has a notice of its own.
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW + timedelta(days=9))
    return run_id


def skip(rows: DatabaseReader, *hours: float) -> None:
    """Due times that were skipped so many hours after `NOW`."""
    for due_at in (NOW + timedelta(hours=hour) for hour in hours):
        rows.execute(
            """INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, reason)
               VALUES ('nightly', %s, %s, 'SCHEDULED', 'SKIPPED', 'OVERLAP')""",
            due_at, due_at,
        )  # fmt: skip


def test_blocked_schedule__is_reported_once_a_day_from_six_hours_on(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    run_id = block(service_with_schedule, rows)
    skip(rows, 2, 4)
    reported = {
        hours: len(report_missed(service_with_schedule, NOW + timedelta(hours=hours)))
        for hours in (4, 5.9, 6.1, 23, 24.1, 47, 48.1)
    }
    assert reported == {4: 0, 5.9: 0, 6.1: 1, 23: 1, 24.1: 2, 47: 2, 48.1: 3}
    alert = service_with_schedule.list_items("/alerts")[0]
    assert (alert["state"], alert["name"], alert["severity"], alert["runId"]) == (
        "SCHEDULE_MISSED", "every night", "CRITICAL", run_id,
    )  # fmt: skip
    assert_names(
        alert["explanation"],
        "since 2026-11-22 07:00:00 UTC",
        "2 due times",
        f"mosaico runs cancel {run_id}",
    )
    assert len(service_with_schedule.list_items("/deliveries")) == 3


def test_blocked_schedule__a_nightly_one_is_reported_when_its_first_night_is_skipped(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    block(service_with_schedule, rows)
    assert report_missed(service_with_schedule, NOW + timedelta(hours=23)) == []
    skip(rows, 24)
    [alert] = report_missed(service_with_schedule, NOW + timedelta(hours=24, minutes=1))
    assert "1 due time was skipped" in alert["explanation"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE benchmark_runs SET status = 'FAILED'",
        "UPDATE schedule_configs SET next_run_at = NULL, enabled = false",
        "UPDATE schedule_configs SET concurrency_policy = 'ALLOW'",
    ],
)
def test_blocked_schedule__that_may_run_again_is_not_reported(
    service_with_schedule: Service, rows: DatabaseReader, change: str
) -> None:
    block(service_with_schedule, rows)
    skip(rows, 2)
    rows.execute(change)
    assert report_missed(service_with_schedule, NOW + timedelta(hours=7)) == []


def test_blocked_schedule__many_skipped_due_times_are_not_counted_to_the_end(
    service_with_schedule: Service, rows: DatabaseReader
) -> None:
    block(service_with_schedule, rows)
    skip(rows, *range(1, MAX_SKIPS_COUNTED + 3))
    [alert] = report_missed(service_with_schedule, NOW + timedelta(hours=7))
    assert "more than 100 due times were skipped" in alert["explanation"]
