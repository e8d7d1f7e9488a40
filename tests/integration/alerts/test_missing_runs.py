"""Notices about agents without a schedule whose runs stop."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.alerts.missing_runs import report_missing_runs
from tests.integration.alerts.conftest import RULE
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader
from tests.support.texts import assert_names

LAST = datetime(2026, 11, 22, 2, 10, tzinfo=UTC)


@pytest.fixture
def agent_with_run(
    benchmark_service: Service, run_with: Callable[..., JSON], rows: DatabaseReader
) -> Service:
    """A service with an agent whose only run completed at `LAST`."""
    run_with(10)
    rows.execute("UPDATE benchmark_runs SET completed_at = %s", LAST)
    return benchmark_service


def report(service: Service, now: datetime) -> list[JSON]:
    """Check twice, as two workers do; returns all alerts so far, oldest first."""
    for _ in range(2):
        with service.resources.db.begin() as session:
            report_missing_runs(session, now)
    return sorted(service.list_items("/alerts"), key=lambda alert: str(alert["id"]))


def test_missing_run__a_longer_gap_is_reported_once_to_the_recipients_of_its_rule(
    agent_with_run: Service, rows: DatabaseReader
) -> None:
    webhook = {"channels": ["WEBHOOK"], "recipients": ["https://hooks.example.com/a"]}
    agent_with_run.post("/alert-configs", {**RULE, **webhook, "maxHoursWithoutRun": 24})
    other = {"channels": ["WEBHOOK"], "recipients": ["https://hooks.example.com/b"]}
    agent_with_run.post("/alert-configs", {**RULE, **other, "id": "rule-2"})
    assert report(agent_with_run, LAST + timedelta(hours=24)) == []
    [alert] = report(agent_with_run, LAST + timedelta(hours=26))
    assert (alert["state"], alert["alertConfigId"], alert["severity"]) == (
        "RUN_MISSED", "rule-1", "WARNING",
    )  # fmt: skip
    assert_names(
        alert["explanation"],
        "No new data since",
        "2026-11-22 02:10 UTC",
        "every 24 hours",
        "mosaico runs start bench-001 agent-001",
    )
    [delivery] = agent_with_run.list_items("/deliveries")
    assert "hooks.example.com" in delivery["recipient"]
    assert agent_with_run.list_items("/notifications")[0]["title"].endswith(
        "no new data for 26 hours, the limit is 24 hours (bench-001)"
    )
    # The next gap is another one.
    rows.execute("UPDATE benchmark_runs SET completed_at = %s", LAST + timedelta(hours=30))
    # 20 and then 25 hours after the newest run, of 24 allowed ones.
    assert len(report(agent_with_run, LAST + timedelta(hours=50))) == 1
    assert len(report(agent_with_run, LAST + timedelta(hours=55))) == 2


@pytest.mark.parametrize(
    "ignored",
    [
        "UPDATE alert_rules SET enabled = false",
        "UPDATE benchmarks SET archived = true",
        "UPDATE agents SET archived = true",
        "UPDATE benchmark_runs SET has_new_data = false",
    ],
)
def test_missing_run__retired_parts_and_agents_without_runs_are_not_awaited(
    agent_with_run: Service, rows: DatabaseReader, ignored: str
) -> None:
    agent_with_run.post("/alert-configs", {**RULE, "maxHoursWithoutRun": 1})
    rows.execute(ignored)
    assert report(agent_with_run, LAST + timedelta(days=2)) == []


def test_missing_run__an_agent_that_is_named_is_awaited_from_the_beginning(
    benchmark_service: Service, rows: DatabaseReader
) -> None:
    rule = {**RULE, "agentId": "agent-001", "maxHoursWithoutRun": 1}
    benchmark_service.post("/alert-configs", rule)
    rows.execute("UPDATE alert_rules SET created_at = %s", LAST)
    [alert] = report(benchmark_service, LAST + timedelta(hours=2))
    assert alert["explanation"].startswith(
        "No new data since the rule was created at 2026-11-22 02:10 UTC;"
        " new data are expected every hour."
    )
