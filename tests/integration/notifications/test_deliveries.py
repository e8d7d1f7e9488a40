"""Deliveries: at least once, with one message ID, without delaying other endpoints."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.responses import RedirectResponse, StreamingResponse
from standardwebhooks.webhooks import Webhook

from mosaico.core.errors import Unavailable
from mosaico.notifications import service, webhook_client
from mosaico.notifications.endpoints import ensure_endpoints
from mosaico.notifications.service import publish
from mosaico.notifications.types import DeliveryTarget
from tests.integration.notifications.conftest import (
    TEST_MESSAGE,
    NotificationScenario,
    status,
)


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
    # A message is signed with both for a while, so that the receiver can change the secret.
    for secret in (earlier, newer):
        Webhook(secret).verify(call.body, call.headers)


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


@pytest.mark.parametrize("trickles", [False, True])
def test_delivery__timeout_is_a_failure(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch, *, trickles: bool
) -> None:
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 1.5)

    # Ten seconds in all, and never long without a byte.
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
    # The address at which clouds give credentials to their machines.
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", "http://169.254.169.254/latest"))
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert "never called" in delivery["detail"]
    assert (delivery["status"], delivery["dueAt"]) == ("FAILED", None)


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
    # The attempt whose record was lost does not count.
    assert scenario.delivery(notification_id)["attempts"] == 1
