"""The summary of the day before, sent once to those who ask for it."""

import json
from datetime import UTC, date, datetime, time, timedelta

import pytest
from sqlalchemy import update

from app.notifications.models import Notification
from app.notifications.types import NotificationMessage
from app.schedules.daily_summary import SummaryTime, latest_due_day, send_summary
from tests.integration.notifications.conftest import Scene

MORNING = SummaryTime(at=time(6), timezone="UTC")


@pytest.mark.parametrize(
    ("now", "day"),
    [
        (datetime(2026, 11, 22, 5, 59, tzinfo=UTC), date(2026, 11, 20)),
        (datetime(2026, 11, 22, 6, 0, tzinfo=UTC), date(2026, 11, 21)),
        (datetime(2026, 11, 23, 5, 0, tzinfo=UTC), date(2026, 11, 21)),
    ],
)
def test_a_summary_is_due_in_the_morning_after_its_day(now: datetime, day: date) -> None:
    assert latest_due_day(MORNING, now) == day


def test_the_morning_is_that_of_the_zone() -> None:
    # 06:00 in Rome is 05:00 UTC in winter.
    when = SummaryTime.parse("06:00 Europe/Rome")
    assert latest_due_day(when, datetime(2026, 11, 22, 4, 59, tzinfo=UTC)) == date(2026, 11, 20)
    assert latest_due_day(when, datetime(2026, 11, 22, 5, 0, tzinfo=UTC)) == date(2026, 11, 21)


def test_it_goes_once_to_those_who_ask_and_tells_what_went_wrong(scene: Scene) -> None:
    service = scene.service
    service.agent()
    service.benchmark(metrics=["ROUGE"], datasetRef="absent")
    run = service.completed()
    assert run["status"] == "FAILED"
    scene.tell(message=NotificationMessage(topic="alert.firing", title="Firing: quality"))
    scene.tell(message=NotificationMessage(topic="alert.test", title="only a test"))
    [alert] = [told for told in scene.inbox() if told["topic"] == "alert.run_failed"]
    tomorrow = datetime.combine(scene.clock() + timedelta(days=1), time(6), UTC)
    scene.clock.go_on((tomorrow - scene.clock()).total_seconds() + 1)
    send_summary(service.resources, MORNING)
    assert len(scene.inbox()) == 3  # nobody has asked

    url = scene.receiver.at("hook")
    service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url, "dailySummary": True})
    for _ in range(2):
        send_summary(service.resources, MORNING)
        scene.work()
    [call] = scene.receiver.calls
    told = json.loads(call.body)["data"]
    day = (tomorrow - timedelta(days=1)).date()
    assert told["title"] == (
        f"Daily summary of {day}: 1 run, 1 failed, 2 alerts, 0 schedules without a run"
    )
    assert told["sentences"] == [alert["title"], "Firing: quality"]
    [item] = told["items"]
    assert item["title"] == "Run failed: benchmark bench-001, agent agent-001"
    assert item["sentences"] == [run["errorMessage"]]
    assert item["link"] == f"https://mosaico.example/api/v1/benchmark-runs/{run['id']}"


def test_it_counts_the_alerts_that_it_does_not_name(scene: Scene) -> None:
    for number in range(25):
        scene.tell(message=NotificationMessage(topic="alert.firing", title=f"Firing: {number}"))
    with scene.service.resources.db.begin() as session:
        session.execute(update(Notification).values(created_at=scene.clock()))
    url = scene.receiver.at("hook")
    scene.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url, "dailySummary": True})
    scene.clock.go_on(timedelta(days=1).total_seconds())
    when = SummaryTime(at=time(0), timezone="UTC")
    send_summary(scene.service.resources, when)
    scene.work()
    told = json.loads(scene.receiver.calls[-1].body)["data"]
    assert ", 25 alerts, " in told["title"]
    assert told["sentences"][-2:] == ["Firing: 19", "and 5 alerts more"]
