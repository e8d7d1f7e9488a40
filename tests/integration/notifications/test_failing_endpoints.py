"""Endpoints that fail or hang: they are disabled or paused, and delay no other."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import text

from mosaico.core.url_syntax import redact_url
from mosaico.jobs.declarations import Deliver
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.queue import split_arguments
from mosaico.notifications import delivery_jobs, service, tasks, webhook_client
from mosaico.notifications.rules import SLOW_LOCK
from mosaico.notifications.types import DeliveryTarget
from tests.integration.notifications.conftest import (
    NotificationScenario,
    Receiver,
    status,
)
from tests.support.stored import DatabaseReader


def test_circuit_breaker__gone_recipient_disables_endpoint(scenario: NotificationScenario) -> None:
    target = DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", status(410)))
    notification_id = scenario.publish(target)
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert delivery["status"] == "HELD"
    endpoint = scenario.endpoint(delivery)
    assert "410" in endpoint["disabledReason"]
    notice = scenario.inbox()[0]
    assert notice["topic"] == "endpoint.disabled"
    assert redact_url(target.recipient) in notice["title"]
    assert target.recipient not in notice["title"]
    later = scenario.publish(target)
    scenario.work()
    assert scenario.delivery(later)["status"] == "HELD"
    assert len(scenario.receiver.calls) == 1

    path = f"/deliveries/{delivery['id']}/redeliver"
    assert (
        scenario.service.expect_problem(409, "POST", path)["type"] == "/problems/endpoint-disabled"
    )
    scenario.service.post(f"/endpoints/{endpoint['id']}/enable")
    scenario.work()
    assert {
        scenario.delivery(published_id)["status"] for published_id in (notification_id, later)
    } == {"DELIVERED"}
    assert scenario.endpoint(delivery)["disabledAt"] is None


def test_circuit_breaker__many_deliveries_are_held_and_restarted_in_batches(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_jobs, "STATE_BATCH", 2)
    target = DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", status(410)))
    published = [scenario.publish(target) for _ in range(5)]

    def statuses() -> list[str]:
        return [scenario.delivery(notification_id)["status"] for notification_id in published]

    # The attempt holds the oldest two, and the job that it enqueues the others.
    tasks.tick(scenario.service.resources)
    scenario.service.work()
    assert statuses() == ["HELD"] * 5
    assert len(scenario.receiver.calls) == 1
    endpoint = scenario.endpoint(scenario.delivery(published[0]))
    scenario.service.post(f"/endpoints/{endpoint['id']}/enable")
    assert statuses() == ["PENDING", "PENDING", "HELD", "HELD", "HELD"]
    scenario.work()
    assert statuses() == ["DELIVERED"] * 5
    assert [call.headers["webhook-id"] for call in scenario.receiver.calls[1:]] == published


def test_circuit_breaker__attempt_that_disables_is_sent_if_enabled_before_all_are_held(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_jobs, "STATE_BATCH", 2)
    target = DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", status(410)))
    published = [scenario.publish(target) for _ in range(5)]
    database = scenario.service.resources.db
    later = text(
        "UPDATE deliveries SET due_at = now() + interval '1 h' WHERE notification_id = ANY(:ids)"
    )
    with database.begin() as session:
        # The oldest three wait for their next attempts, so the next attempt is that of the fourth.
        session.execute(later, {"ids": published[:3]})
        session.execute(text("DELETE FROM procrastinate_jobs"))
    tasks.tick(scenario.service.resources)
    with database.begin() as session:
        arguments = session.scalars(text("SELECT args FROM procrastinate_jobs")).one()
    job = JobContext(
        resources=scenario.service.resources, pool=scenario.service.pool, is_stopping=lambda: False
    )
    tasks.deliver(job, Deliver(**split_arguments(arguments).arguments))
    endpoint = scenario.endpoint(scenario.delivery(published[3]))
    # The attempt is held at once, and with it the batch of those that are due first.
    statuses = [scenario.delivery(notification_id)["status"] for notification_id in published]
    assert statuses == ["HELD", "PENDING", "PENDING", "HELD", "HELD"]
    scenario.service.post(f"/endpoints/{endpoint['id']}/enable")
    for _ in range(3):
        scenario.work(later_s=7200)
    statuses = [scenario.delivery(notification_id)["status"] for notification_id in published]
    assert statuses == ["DELIVERED"] * 5


def test_circuit_breaker__120_hours_of_failures_disable_endpoint(
    scenario: NotificationScenario,
) -> None:
    failing = [status(500)] * 30
    target = DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", *failing))
    notification_id = scenario.publish(target)
    for _ in range(12):  # more than enough for ten tries, the last waits being a day each
        # The longest wait is a day, and jitter makes it up to 20 % longer.
        scenario.work(later_s=24 * 3600 * 1.2)
        if scenario.delivery(notification_id)["status"] != "PENDING":
            break
    delivery = scenario.delivery(notification_id)
    assert delivery["status"] == "HELD"
    endpoint = scenario.endpoint(delivery)
    disabled = datetime.fromisoformat(endpoint["disabledAt"])
    first_failed_at = datetime.fromisoformat(endpoint["firstFailedAt"])
    assert (disabled - first_failed_at).total_seconds() >= 120 * 3600
    assert "every delivery since" in endpoint["disabledReason"]


def test_dead_letter__after_ten_attempts_until_redelivered(
    scenario: NotificationScenario,
) -> None:
    target = DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", *[status(500)] * 10))
    notification_id = scenario.publish(target)
    scenario.work()
    rows = DatabaseReader(scenario.service.resources.db.url)
    # The clock stays: 120 hours of failures would disable the endpoint.
    for _ in range(9):
        rows.execute("UPDATE deliveries SET due_at = now() - interval '1 s'")
        scenario.work()
    delivery = scenario.delivery(notification_id)
    assert (delivery["status"], delivery["attempts"], delivery["dueAt"]) == ("FAILED", 10, None)
    scenario.service.post(f"/deliveries/{delivery['id']}/redeliver")
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert (delivery["status"], delivery["attempts"]) == ("DELIVERED", 1)
    assert {call.headers["webhook-id"] for call in scenario.receiver.calls} == {notification_id}


def test_queue_lock__hanging_host_does_not_delay_others(
    scenario: NotificationScenario, other_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first host answers once the second has been told everything: if it could fill the worker
    of two jobs, the second would never be told in time.
    """
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 6.0)
    bad = [
        DeliveryTarget("WEBHOOK", scenario.receiver.will(f"b-{n}", scenario.receiver.hang))
        for n in range(4)
    ]
    held_id = scenario.publish(*bad)
    good = [DeliveryTarget("WEBHOOK", other_receiver.at(f"g-{number}")) for number in range(6)]

    def let_go() -> Any:
        scenario.receiver.free.set()
        return status(200)()

    other_receiver.will("g-5", let_go)
    scenario.publish(*good)
    scenario.work(concurrency=2)
    assert len(other_receiver.calls) == 6
    deliveries = scenario.service.get("/deliveries", notificationId=held_id)["items"]
    assert [delivery["status"] for delivery in deliveries] == ["DELIVERED"] * 4


def test_queue_lock__slow_endpoints_of_all_hosts_share_one_lock(
    scenario: NotificationScenario,
) -> None:
    # Nothing listens at these ports; each is a host of its own.
    hosts = [DeliveryTarget("WEBHOOK", f"http://127.0.0.1:{port}/") for port in (1, 2, 3)]
    rows = DatabaseReader(scenario.service.resources.db.url)
    lanes = "SELECT DISTINCT lock FROM procrastinate_jobs WHERE status = 'todo'"
    scenario.publish(*hosts)
    assert len(rows.all(lanes)) == 3
    scenario.work()
    rows.execute("DELETE FROM deliveries")
    rows.execute("UPDATE endpoints SET slow_count = 1")
    scenario.publish(*hosts)
    assert rows.all(lanes) == [(SLOW_LOCK,)]


def test_pause__hanging_endpoint_is_paused(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages, two tries: the others do not spend their time on it."""
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 0.3)
    # A failed attempt that took longer is slow; the hanging one ends at its deadline.
    monkeypatch.setattr(service, "SLOW_AFTER_S", 0.2)
    url = scenario.receiver.will("hook", *[scenario.receiver.hang] * 2)
    notification_ids = [scenario.publish(DeliveryTarget("WEBHOOK", url)) for _ in range(3)]
    scenario.work()
    assert len(scenario.receiver.calls) == 1
    assert sorted(
        scenario.delivery(published_id)["attempts"] for published_id in notification_ids
    ) == [0, 0, 1]
    assert all(scenario.delivery(published_id)["dueAt"] for published_id in notification_ids)
    scenario.work(later_s=7)  # 5 s, and then five minutes
    assert len(scenario.receiver.calls) == 2
    scenario.work(later_s=290)
    assert len(scenario.receiver.calls) == 2
    scenario.work(later_s=90)
    assert {scenario.delivery(published_id)["status"] for published_id in notification_ids} == {
        "DELIVERED"
    }
    scenario.receiver.free.set()
