"""Deliveries: at least once, with one message ID, without delaying other endpoints."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.responses import RedirectResponse, StreamingResponse
from sqlalchemy import text
from standardwebhooks.webhooks import Webhook

from app.core.errors import Unavailable
from app.jobs.handlers import JobContext
from app.jobs.queue import split_arguments
from app.notifications import delivery_jobs, service, tasks, webhook_client
from app.notifications.endpoints import ensure_endpoints
from app.notifications.rules import SLOW_LOCK
from app.notifications.service import publish
from app.notifications.types import DeliveryTarget
from app.notifications.webhook_client import redact_url
from tests.integration.notifications.conftest import (
    TEST_MESSAGE,
    NotificationScenario,
    Receiver,
    status,
)
from tests.support.stored import DatabaseReader


def waits(
    scenario: NotificationScenario,
    notification_id: str,
    since: datetime,
    *,
    least_s: float,
    most_s: float,
) -> bool:
    """Whether a delivery is due so many seconds after a try between `since` and now."""
    due = datetime.fromisoformat(scenario.delivery(notification_id)["dueAt"])
    return since + timedelta(seconds=least_s) <= due <= scenario.clock() + timedelta(seconds=most_s)


def test_publish__message_is_in_inbox_and_delivered(scenario: NotificationScenario) -> None:
    url = scenario.receiver.at("hook")
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    assert scenario.delivery(notification_id)["status"] == "PENDING"
    scenario.work()
    [call] = scenario.receiver.calls
    assert call.headers["webhook-id"] == notification_id
    body = json.loads(call.body)
    assert body["type"] == "test.sent"
    assert body["data"]["title"] == "The pelican has landed"
    delivery = scenario.delivery(notification_id)
    assert (delivery["status"], delivery["attempts"], delivery["detail"]) == (
        "DELIVERED",
        1,
        "HTTP 200",
    )
    [message] = scenario.inbox()
    assert (message["id"], message["title"], message["readAt"]) == (
        notification_id,
        body["data"]["title"],
        None,
    )


def test_publish__rollback_publishes_nothing(scenario: NotificationScenario) -> None:
    def publish_and_fail() -> None:
        res, target = (
            scenario.service.resources,
            DeliveryTarget("WEBHOOK", scenario.receiver.at("hook")),
        )
        with res.db.begin() as session:
            [endpoint] = ensure_endpoints(session, [target], res.secrets)
            publish(session, TEST_MESSAGE, [endpoint.id])
            raise LookupError

    with pytest.raises(LookupError):
        publish_and_fail()
    scenario.work()
    assert (scenario.inbox(), scenario.receiver.calls) == ([], [])


def test_publish__dedup_key_publishes_once(scenario: NotificationScenario) -> None:
    target = DeliveryTarget("WEBHOOK", scenario.receiver.at("hook"))
    first = scenario.publish(target, once="day 1")
    assert scenario.publish(target, once="day 1") == first
    assert scenario.publish(target, once="day 2") != first
    scenario.work()
    assert len(scenario.receiver.calls) == 2


def test_publish__duplicate_recipient_gets_one_delivery(scenario: NotificationScenario) -> None:
    target = DeliveryTarget("WEBHOOK", scenario.receiver.at("hook"))
    scenario.publish(target, target, DeliveryTarget("IN_APP", ""))
    scenario.work()
    assert len(scenario.receiver.calls) == 1


def test_delivery__failure_is_retried_with_same_id_and_body(
    scenario: NotificationScenario,
) -> None:
    url = scenario.receiver.will("hook", status(500), status(503))
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    since = scenario.clock()
    scenario.work()
    assert scenario.delivery(notification_id)["detail"] == "HTTP 500: no thanks"
    assert waits(scenario, notification_id, since, least_s=4, most_s=6)  # 5 s ± 20 %
    since = scenario.clock() + timedelta(seconds=6)
    scenario.work(later_s=6)
    assert waits(scenario, notification_id, since, least_s=240, most_s=360)  # 5 min ± 20 %
    scenario.work()
    assert len(scenario.receiver.calls) == 2
    scenario.work(later_s=360)
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
    assert [call.headers["webhook-id"] for call in scenario.receiver.calls] == [notification_id] * 3
    assert len({call.body for call in scenario.receiver.calls}) == 1


def test_webhook_signature__every_attempt_passes_reference_implementation(
    scenario: NotificationScenario,
) -> None:
    url = scenario.receiver.at("hook")
    endpoint = scenario.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    earlier = scenario.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    newer = scenario.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    scenario.publish(DeliveryTarget("WEBHOOK", url))
    scenario.work()
    [call] = scenario.receiver.calls
    for secret in (earlier, newer):
        Webhook(secret).verify(call.body, call.headers)


def test_webhook_signature__new_endpoint_has_own_secret(scenario: NotificationScenario) -> None:
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", scenario.receiver.at("hook")))
    scenario.work()
    assert scenario.receiver.calls[0].headers["webhook-signature"].startswith("v1,")
    assert scenario.endpoint(scenario.delivery(notification_id))["secretSet"] is True


def test_rotate_secret__previous_secret_expires_after_overlap(
    scenario: NotificationScenario,
) -> None:
    url = scenario.receiver.at("hook")
    endpoint = scenario.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    path = f"/endpoints/{endpoint['id']}/secret"
    scenario.service.post(path, {})
    scenario.service.post(path, {"overlapSeconds": 60})
    for seconds, signatures in ((0, 2), (61, 1)):
        scenario.clock.go_on(seconds)
        scenario.publish(DeliveryTarget("WEBHOOK", url))
        scenario.work()
        signed = scenario.receiver.calls[-1].headers["webhook-signature"]
        assert len(signed.split()) == signatures


def test_delivery__429_is_retried_after_retry_after(scenario: NotificationScenario) -> None:
    url = scenario.receiver.will("hook", status(429, retry_after="100"))
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    since = scenario.clock()
    scenario.work()
    assert waits(scenario, notification_id, since, least_s=100, most_s=100.5)
    scenario.work(later_s=90)
    assert scenario.delivery(notification_id)["status"] == "PENDING"
    scenario.work(later_s=11)
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"


def test_delivery__redirect_is_a_failure(scenario: NotificationScenario) -> None:
    away = scenario.receiver.at("elsewhere")
    url = scenario.receiver.will("hook", lambda: RedirectResponse(away))
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    scenario.work()
    assert scenario.delivery(notification_id)["detail"] == "HTTP 307: redirects are not followed"
    assert [call.path for call in scenario.receiver.calls] == ["hook"]


def test_delivery__2xx_is_success_with_any_body(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 600.0)
    was_read_to_its_end = threading.Event()

    def drops() -> Iterator[bytes]:
        for _ in range(400):
            yield b"x" * 1024
            if scenario.receiver.free.wait(0.05):
                return
        was_read_to_its_end.set()

    url = scenario.receiver.will("hook", lambda: StreamingResponse(drops()))
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    scenario.work()
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
    assert not was_read_to_its_end.is_set()
    scenario.receiver.free.set()


@pytest.mark.parametrize("trickles", [False, True])
def test_delivery__timeout_is_a_failure(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch, *, trickles: bool
) -> None:
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 1.5)

    def drops() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x"
            time.sleep(0.05)

    slow: Any = (lambda: StreamingResponse(drops(), 500)) if trickles else scenario.receiver.hang
    notification_id = scenario.publish(
        DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", slow))
    )
    scenario.work()
    detail = scenario.delivery(notification_id)["detail"]
    assert detail == ("HTTP 500" if trickles else "no response within 1.5 s")
    scenario.receiver.free.set()


def test_delivery__refused_address_fails_at_once(scenario: NotificationScenario) -> None:
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", "http://169.254.169.254/latest"))
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert "never called" in delivery["detail"]
    assert (delivery["status"], delivery["dueAt"]) == ("FAILED", None)


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
    tasks.deliver(job, **split_arguments(arguments).arguments)
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


def test_redeliver__delivery_with_job_is_not_sent_twice(
    scenario: NotificationScenario,
) -> None:
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", scenario.receiver.at("hook")))
    delivery = scenario.delivery(notification_id)
    for _ in range(3):
        scenario.service.post(f"/deliveries/{delivery['id']}/redeliver")
    scenario.work()
    assert len(scenario.receiver.calls) == 1


def test_delivery__lost_database_after_sending_sends_again(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_finish_attempt, failures = service.finish_attempt, iter([True])

    def end_try(*arguments: Any) -> None:
        if next(failures, False):
            raise Unavailable
        real_finish_attempt(*arguments)

    monkeypatch.setattr(service, "finish_attempt", end_try)
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", scenario.receiver.at("hook")))
    scenario.work()
    first, second = scenario.receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == notification_id
    assert first.body == second.body
    assert scenario.delivery(notification_id)["attempts"] == 1


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


def test_short_job__is_the_first_delivery_of_a_backlog_only(scenario: NotificationScenario) -> None:
    """Otherwise a long backlog of many endpoints would hold up all runs."""
    target = DeliveryTarget("WEBHOOK", scenario.receiver.at("hook"))
    for _ in range(3):
        scenario.publish(target)
    scenario.work()
    assert len(scenario.receiver.calls) == 3
    jobs = "SELECT priority FROM procrastinate_jobs WHERE task_name = 'notifications.deliver'"
    rows = DatabaseReader(scenario.service.resources.db.url)
    assert rows.all(f"{jobs} ORDER BY id") == [(1,), (0,), (0,)]


def test_pause__hanging_endpoint_is_paused(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages, two tries: the others do not spend their time on it."""
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 0.3)
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


def test_delivery__failure_does_not_change_run(scenario: NotificationScenario) -> None:
    scenario.service.create_agent()
    scenario.service.create_benchmark(metrics=["LATENCY"])
    scenario.service.upload([{"traceId": "t-1"}])
    run = scenario.service.complete_run()
    scenario.publish(DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", status(500))))
    scenario.work()
    assert scenario.service.get(f"/benchmark-runs/{run['id']}") == run
