"""From a message to its deliveries: at least once, with one id, and never in anybody's way."""

import json
from datetime import datetime

import pytest
from standardwebhooks.webhooks import Webhook

from app.notifications.types import Target
from tests.integration.notifications.conftest import Scene, status


def seconds_until_next(scene: Scene, notification_id: str) -> float:
    due = datetime.fromisoformat(scene.delivery(notification_id)["dueAt"])
    return (due - scene.clock()).total_seconds()


def test_a_message_is_in_the_inbox_and_at_its_recipient(scene: Scene) -> None:
    url = scene.receiver.at("hook")
    told = scene.tell(Target("WEBHOOK", url))
    assert scene.delivery(told)["status"] == "PENDING"
    scene.work()
    [call] = scene.receiver.calls
    assert call.headers["webhook-id"] == told
    body = json.loads(call.body)
    assert body["type"] == "test.told"
    assert body["data"]["title"] == "The pelican has landed"
    delivery = scene.delivery(told)
    assert (delivery["status"], delivery["attempts"], delivery["detail"]) == ("DELIVERED", 1, None)
    [shown] = scene.inbox()
    assert (shown["id"], shown["title"], shown["readAt"]) == (told, body["data"]["title"], None)


def test_what_is_rolled_back_is_neither_told_nor_sent(scene: Scene) -> None:
    def fail() -> None:
        with scene.service.resources.db.begin() as session:
            from app.notifications.service import publish
            from tests.integration.notifications.conftest import TOLD

            publish(session, TOLD, [Target("WEBHOOK", scene.receiver.at("hook"))])
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    scene.work()
    assert (scene.inbox(), scene.receiver.calls) == ([], [])


def test_a_failure_is_tried_again_by_the_schedule_with_the_same_id_and_body(scene: Scene) -> None:
    url = scene.receiver.will("hook", status(500), status(503))
    told = scene.tell(Target("WEBHOOK", url))
    scene.work()
    assert scene.delivery(told)["detail"] == "answered 500: no thanks"
    assert 4 <= seconds_until_next(scene, told) + 0.5 <= 6.6  # 5 s ± 20 %
    scene.work()
    assert len(scene.receiver.calls) == 1
    scene.work(later_s=6)
    assert 240 <= seconds_until_next(scene, told) + 5 <= 366  # 5 min ± 20 %
    scene.work(later_s=360)
    assert scene.delivery(told)["status"] == "DELIVERED"
    assert [call.headers["webhook-id"] for call in scene.receiver.calls] == [told] * 3
    assert len({call.body for call in scene.receiver.calls}) == 1


def test_every_try_is_signed_as_the_reference_implementation_checks_it(scene: Scene) -> None:
    url = scene.receiver.at("hook")
    endpoint = scene.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    earlier = scene.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    newer = scene.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    scene.tell(Target("WEBHOOK", url))
    scene.work()
    [call] = scene.receiver.calls
    for secret in (earlier, newer):
        Webhook(secret).verify(call.body, call.headers)
