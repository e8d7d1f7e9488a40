"""A schedule that was to run and did not is told once, whoever was to run it."""

from datetime import UTC, datetime, timedelta

import pytest

from app.schedules.missed_schedules import report_missed_schedules
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

NOW = datetime(2026, 11, 22, 7, tzinfo=UTC)


@pytest.fixture
def scheduled(ready: Service, rows: DatabaseReader) -> Service:
    """A service with a rule that tells a webhook, and a nightly schedule that is not due."""
    rule = {"name": "any", "benchmarkId": "bench-001", "metric": "EXACT_MATCH"}
    ready.post(
        "/alert-configs",
        {
            **rule,
            "condition": "LESS_THAN",
            "threshold": 0,
            "channels": ["WEBHOOK"],
            "recipients": ["https://hooks.example.com/alerts"],
        },
    )
    ready.post(
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
    return ready


def look(service: Service, now: datetime = NOW) -> list[JSON]:
    """Look twice, as two workers do; what was told so far."""
    for _ in range(2):
        with service.resources.db.begin() as session:
            report_missed_schedules(session, now)
    return service.listed("/alerts")


def test_a_schedule_that_nobody_fires_is_told_after_five_minutes(
    scheduled: Service, rows: DatabaseReader
) -> None:
    assert look(scheduled) == []
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", NOW)
    assert look(scheduled, NOW + timedelta(minutes=5)) == []
    [alert] = look(scheduled, NOW + timedelta(minutes=6))
    assert (alert["state"], alert["name"], alert["severity"]) == (
        "SCHEDULE_MISSED", "every night", "CRITICAL",
    )  # fmt: skip
    assert alert["explanation"] == (
        "The schedule 'every night' was due at 2026-11-22 07:00:00 UTC and started no run:"
        " no scheduler fired it; start one with `mosaico scheduler`."
    )
    assert len(scheduled.listed("/deliveries")) == 1


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        ("FAILED", "CONFLICT", "CONFLICT: the agent is archived"),
        ("SKIPPED", "MISSED", "no scheduler was running at that time, and misfirePolicy is SKIP"),
        ("SKIPPED", "COALESCED", None),
        ("SKIPPED", "NO_NEW_RUN", None),
        ("STARTED", None, None),
    ],
)
def test_an_instant_that_started_nothing_is_told_unless_another_stands_for_it(
    scheduled: Service, rows: DatabaseReader, status: str, reason: str | None, told: str | None
) -> None:
    rows.execute(
        """INSERT INTO schedule_fires
               (schedule_id, due_at, fired_at, triggered_by, status, reason, detail)
           VALUES ('nightly', %s, %s, 'SCHEDULED', %s, %s, 'the agent is archived')""",
        NOW, NOW, status, reason,
    )  # fmt: skip
    found = [alert["explanation"] for alert in look(scheduled)]
    assert [explanation.partition("no run: ")[2] for explanation in found] == (
        [f"{told}."] if told else []
    )


def test_a_schedule_that_was_disabled_is_told(scheduled: Service, rows: DatabaseReader) -> None:
    rows.execute(
        "UPDATE schedule_configs SET enabled = false, next_run_at = NULL, disabled_at = %s,"
        " disabled_reason = '3 failures in a row'",
        NOW,
    )
    [alert] = look(scheduled)
    assert alert["explanation"].endswith("starts no more runs: 3 failures in a row.")
