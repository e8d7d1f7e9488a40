"""The daily summary is sent once to each endpoint that receives it."""

import json
from datetime import UTC, date, datetime, time, timedelta

import pytest
from sqlalchemy import update

from mosaico.notifications.models import Notification
from mosaico.notifications.types import NotificationMessage
from mosaico.schedules.daily_summary import SummaryTime, find_latest_due_day, send_summary
from tests.integration.notifications.conftest import NotificationScenario

MORNING = SummaryTime(at=time(6), timezone="UTC")


@pytest.mark.parametrize(
    ("now", "day"),
    [
        (datetime(2026, 11, 22, 5, 59, tzinfo=UTC), date(2026, 11, 20)),
        (datetime(2026, 11, 22, 6, 0, tzinfo=UTC), date(2026, 11, 21)),
        (datetime(2026, 11, 23, 5, 0, tzinfo=UTC), date(2026, 11, 21)),
    ],
)
def test_latest_due_day__morning_after(now: datetime, day: date) -> None:
    assert find_latest_due_day(MORNING, now) == day


def test_latest_due_day__time_is_in_zone() -> None:
    # 06:00 in Rome is 05:00 UTC in winter.
    when = SummaryTime.parse("06:00 Europe/Rome")
    assert find_latest_due_day(when, datetime(2026, 11, 22, 4, 59, tzinfo=UTC)) == date(
        2026, 11, 20
    )
    assert find_latest_due_day(when, datetime(2026, 11, 22, 5, 0, tzinfo=UTC)) == date(2026, 11, 21)


def test_send_summary__sent_once_with_failures_and_alerts(
    scenario: NotificationScenario,
) -> None:
    service = scenario.service
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], datasetRef="absent")
    run = service.complete_run()
    assert run["status"] == "FAILED"
    scenario.publish(message=NotificationMessage(topic="alert.firing", title="Firing: quality"))
    # A test of a rule is no alert of the day.
    scenario.publish(message=NotificationMessage(topic="alert.test", title="only a test"))
    [alert] = [message for message in scenario.inbox() if message["topic"] == "alert.run_failed"]
    tomorrow = datetime.combine(scenario.clock() + timedelta(days=1), time(6), UTC)
    scenario.clock.go_on((tomorrow - scenario.clock()).total_seconds() + 1)
    send_summary(service.resources, MORNING)
    assert len(scenario.inbox()) == 3  # nobody has asked

    url = scenario.receiver.at("hook")
    service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url, "dailySummary": True})
    for _ in range(2):
        send_summary(service.resources, MORNING)
        scenario.work()
    [call] = scenario.receiver.calls
    message = json.loads(call.body)["data"]
    day = (tomorrow - timedelta(days=1)).date()
    assert message["title"] == (
        f"Daily summary of {day}: 1 run, 1 failed, 2 alerts, 0 schedules without a run"
    )
    assert message["sentences"] == [alert["title"], "Firing: quality"]
    [item] = message["items"]
    assert item["title"].startswith("Run failed: ")
    assert "bench-001" in item["title"]
    assert item["sentences"] == [run["errorMessage"]]
    assert item["link"] == f"https://mosaico.example/runs/{run['id']}"


def test_send_summary__omitted_alerts_are_counted(scenario: NotificationScenario) -> None:
    for number in range(25):
        scenario.publish(
            message=NotificationMessage(topic="alert.firing", title=f"Firing: {number}")
        )
    # All on the day of the clock, also when the test runs around midnight.
    with scenario.service.resources.db.begin() as session:
        session.execute(update(Notification).values(created_at=scenario.clock()))
    url = scenario.receiver.at("hook")
    scenario.service.post(
        "/endpoints", {"channel": "WEBHOOK", "recipient": url, "dailySummary": True}
    )
    scenario.clock.go_on(timedelta(days=1).total_seconds())
    when = SummaryTime(at=time(0), timezone="UTC")
    send_summary(scenario.service.resources, when)
    scenario.work()
    message = json.loads(scenario.receiver.calls[-1].body)["data"]
    assert ", 25 alerts, " in message["title"]
    assert message["sentences"][-2:] == ["Firing: 19", "and 5 alerts more"]
