"""Notices about schedules that did not start their run."""

from datetime import UTC, datetime, timedelta

import pytest

from app.schedules.missed_schedules import report_missed_schedules
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

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
    return service.listed("/alerts")


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
    assert alert["explanation"] == (
        "The schedule 'every night' was due at 2026-11-22 07:00:00 UTC and started no run:"
        " no scheduler fired it; start one with `mosaico scheduler`."
    )
    assert len(service_with_schedule.listed("/deliveries")) == 1


@pytest.mark.parametrize(
    ("status", "reason", "explanation"),
    [
        ("FAILED", "CONFLICT", "CONFLICT: the agent is archived"),
        ("SKIPPED", "MISSED", "no scheduler was running at that time, and misfirePolicy is SKIP"),
        ("SKIPPED", "COALESCED", None),
        ("SKIPPED", "NO_NEW_RUN", None),
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
    assert alert["explanation"].endswith("starts no more runs: 3 failures in a row.")
