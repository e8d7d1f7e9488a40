"""From a message to its deliveries: at least once, with one id, and never in anybody's way."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.responses import RedirectResponse, StreamingResponse
from standardwebhooks.webhooks import Webhook

from app.core.errors import Unavailable
from app.notifications import service, webhook_client
from app.notifications.endpoints import ensure_endpoints
from app.notifications.rules import SLOW_LOCK
from app.notifications.service import publish
from app.notifications.types import DeliveryTarget
from tests.integration.notifications.conftest import TOLD, Receiver, Scene, status
from tests.support.stored import Rows


def waits(scene: Scene, told: str, since: datetime, *, least_s: float, most_s: float) -> bool:
    """Whether a delivery is due so many seconds after a try between `since` and now."""
    due = datetime.fromisoformat(scene.delivery(told)["dueAt"])
    return since + timedelta(seconds=least_s) <= due <= scene.clock() + timedelta(seconds=most_s)


def test_a_message_is_in_the_inbox_and_at_its_recipient(scene: Scene) -> None:
    url = scene.receiver.at("hook")
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
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
    def publish_and_fail() -> None:
        res, target = scene.service.resources, DeliveryTarget("WEBHOOK", scene.receiver.at("hook"))
        with res.db.begin() as session:
            [endpoint] = ensure_endpoints(session, [target], res.secrets)
            publish(session, TOLD, [endpoint.id])
            raise LookupError

    with pytest.raises(LookupError):
        publish_and_fail()
    scene.work()
    assert (scene.inbox(), scene.receiver.calls) == ([], [])


def test_the_same_thing_is_told_once(scene: Scene) -> None:
    target = DeliveryTarget("WEBHOOK", scene.receiver.at("hook"))
    first = scene.tell(target, once="day 1")
    assert scene.tell(target, once="day 1") == first
    assert scene.tell(target, once="day 2") != first
    scene.work()
    assert len(scene.receiver.calls) == 2


def test_a_recipient_that_is_named_twice_is_told_once(scene: Scene) -> None:
    target = DeliveryTarget("WEBHOOK", scene.receiver.at("hook"))
    scene.tell(target, target, DeliveryTarget("IN_APP", ""))
    scene.work()
    assert len(scene.receiver.calls) == 1


def test_a_failure_is_tried_again_by_the_schedule_with_the_same_id_and_body(scene: Scene) -> None:
    url = scene.receiver.will("hook", status(500), status(503))
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    since = scene.clock()
    scene.work()
    assert scene.delivery(told)["detail"] == "HTTP 500: no thanks"
    assert waits(scene, told, since, least_s=4, most_s=6)  # 5 s ± 20 %
    since = scene.clock() + timedelta(seconds=6)
    scene.work(later_s=6)
    assert waits(scene, told, since, least_s=240, most_s=360)  # 5 min ± 20 %
    scene.work()
    assert len(scene.receiver.calls) == 2
    scene.work(later_s=360)
    assert scene.delivery(told)["status"] == "DELIVERED"
    assert [call.headers["webhook-id"] for call in scene.receiver.calls] == [told] * 3
    assert len({call.body for call in scene.receiver.calls}) == 1


def test_every_try_is_signed_as_the_reference_implementation_checks_it(scene: Scene) -> None:
    url = scene.receiver.at("hook")
    endpoint = scene.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    earlier = scene.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    newer = scene.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    scene.tell(DeliveryTarget("WEBHOOK", url))
    scene.work()
    [call] = scene.receiver.calls
    for secret in (earlier, newer):
        Webhook(secret).verify(call.body, call.headers)


def test_a_new_endpoint_is_signed_with_a_secret_of_its_own(scene: Scene) -> None:
    told = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.at("hook")))
    scene.work()
    assert scene.receiver.calls[0].headers["webhook-signature"].startswith("v1,")
    assert scene.endpoint(scene.delivery(told))["secretSet"] is True


def test_an_earlier_secret_ends_when_it_was_told_to(scene: Scene) -> None:
    url = scene.receiver.at("hook")
    endpoint = scene.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    path = f"/endpoints/{endpoint['id']}/secret"
    scene.service.post(path, {})
    scene.service.post(path, {"overlapSeconds": 60})
    for seconds, signatures in ((0, 2), (61, 1)):
        scene.clock.go_on(seconds)
        scene.tell(DeliveryTarget("WEBHOOK", url))
        scene.work()
        signed = scene.receiver.calls[-1].headers["webhook-signature"]
        assert len(signed.split()) == signatures


def test_a_429_is_tried_again_when_it_says(scene: Scene) -> None:
    url = scene.receiver.will("hook", status(429, retry_after="100"))
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    since = scene.clock()
    scene.work()
    assert waits(scene, told, since, least_s=100, most_s=100.5)
    scene.work(later_s=90)
    assert scene.delivery(told)["status"] == "PENDING"
    scene.work(later_s=11)
    assert scene.delivery(told)["status"] == "DELIVERED"


def test_a_redirect_is_a_failure_and_not_followed(scene: Scene) -> None:
    away = scene.receiver.at("elsewhere")
    url = scene.receiver.will("hook", lambda: RedirectResponse(away))
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    scene.work()
    assert scene.delivery(told)["detail"] == "HTTP 307: redirects are not followed"
    assert [call.path for call in scene.receiver.calls] == ["hook"]


def test_a_success_is_one_however_its_body_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 600.0)
    was_read_to_its_end = threading.Event()

    def drops() -> Iterator[bytes]:
        for _ in range(400):
            yield b"x" * 1024
            if scene.receiver.free.wait(0.05):
                return
        was_read_to_its_end.set()

    url = scene.receiver.will("hook", lambda: StreamingResponse(drops()))
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    scene.work()
    assert scene.delivery(told)["status"] == "DELIVERED"
    assert not was_read_to_its_end.is_set()
    scene.receiver.free.set()


@pytest.mark.parametrize("trickles", [False, True])
def test_who_does_not_answer_in_time_has_failed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, trickles: bool
) -> None:
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 1.5)

    def drops() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x"
            time.sleep(0.05)

    slow: Any = (lambda: StreamingResponse(drops(), 500)) if trickles else scene.receiver.hang
    told = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.will("hook", slow)))
    scene.work()
    detail = scene.delivery(told)["detail"]
    assert detail == ("HTTP 500" if trickles else "no response within 1.5 s")
    scene.receiver.free.set()


def test_what_the_policy_refuses_is_not_called(scene: Scene) -> None:
    told = scene.tell(DeliveryTarget("WEBHOOK", "http://169.254.169.254/latest"))
    scene.work()
    assert "never called" in scene.delivery(told)["detail"]


def test_an_endpoint_that_is_gone_is_disabled_and_told_of(scene: Scene) -> None:
    target = DeliveryTarget("WEBHOOK", scene.receiver.will("hook", status(410)))
    told = scene.tell(target)
    scene.work()
    delivery = scene.delivery(told)
    assert delivery["status"] == "HELD"
    endpoint = scene.endpoint(delivery)
    assert "410" in endpoint["disabledReason"]
    notice = scene.inbox()[0]
    assert notice["topic"] == "endpoint.disabled"
    assert target.recipient in notice["title"]
    later = scene.tell(target)
    scene.work()
    assert scene.delivery(later)["status"] == "HELD"
    assert len(scene.receiver.calls) == 1

    path = f"/deliveries/{delivery['id']}/redeliver"
    assert scene.service.refused(409, "POST", path)["type"] == "/problems/endpoint-disabled"
    scene.service.post(f"/endpoints/{endpoint['id']}/enable")
    scene.work()
    assert {scene.delivery(each)["status"] for each in (told, later)} == {"DELIVERED"}
    assert scene.endpoint(delivery)["disabledAt"] is None


def test_an_endpoint_that_only_fails_for_120_hours_is_disabled(scene: Scene) -> None:
    failing = [status(500)] * 30
    target = DeliveryTarget("WEBHOOK", scene.receiver.will("hook", *failing))
    told = scene.tell(target)
    for _ in range(12):  # more than enough for ten tries, the last waits being a day each
        scene.work(later_s=24 * 3600 * 1.2)
        if scene.delivery(told)["status"] != "PENDING":
            break
    delivery = scene.delivery(told)
    assert delivery["status"] == "HELD"
    endpoint = scene.endpoint(delivery)
    disabled = datetime.fromisoformat(endpoint["disabledAt"])
    first_failed_at = datetime.fromisoformat(endpoint["firstFailedAt"])
    assert (disabled - first_failed_at).total_seconds() >= 120 * 3600
    assert "every delivery since" in endpoint["disabledReason"]


def test_after_ten_tries_a_delivery_has_failed_until_it_is_sent_again(scene: Scene) -> None:
    target = DeliveryTarget("WEBHOOK", scene.receiver.will("hook", *[status(500)] * 10))
    told = scene.tell(target)
    scene.work()
    rows = Rows(scene.service.resources.db.url)
    for _ in range(9):
        rows.do("UPDATE deliveries SET due_at = now() - interval '1 s'")
        scene.work()
    delivery = scene.delivery(told)
    assert (delivery["status"], delivery["attempts"], delivery["dueAt"]) == ("FAILED", 10, None)
    scene.service.post(f"/deliveries/{delivery['id']}/redeliver")
    scene.work()
    delivery = scene.delivery(told)
    assert (delivery["status"], delivery["attempts"]) == ("DELIVERED", 1)
    assert {call.headers["webhook-id"] for call in scene.receiver.calls} == {told}


def test_what_has_a_job_is_not_sent_twice_by_asking_for_it_again(scene: Scene) -> None:
    told = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.at("hook")))
    delivery = scene.delivery(told)
    for _ in range(3):
        scene.service.post(f"/deliveries/{delivery['id']}/redeliver")
    scene.work()
    assert len(scene.receiver.calls) == 1


def test_whoever_loses_the_database_after_sending_sends_the_same_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, lost = service.finish_attempt, iter([True])

    def end_try(*arguments: Any) -> None:
        if next(lost, False):
            raise Unavailable
        noted(*arguments)

    monkeypatch.setattr(service, "finish_attempt", end_try)
    told = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.at("hook")))
    scene.work()
    first, second = scene.receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == told
    assert first.body == second.body
    assert scene.delivery(told)["attempts"] == 1


def test_a_host_that_hangs_keeps_one_job_busy_and_delays_nobody_else(
    scene: Scene, other_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first host answers once the second has been told everything: if it could fill the worker
    of two jobs, the second would never be told in time.
    """
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 6.0)
    bad = [
        DeliveryTarget("WEBHOOK", scene.receiver.will(f"b-{n}", scene.receiver.hang))
        for n in range(4)
    ]
    held = scene.tell(*bad)
    good = [DeliveryTarget("WEBHOOK", other_receiver.at(f"g-{number}")) for number in range(6)]

    def let_go() -> Any:
        scene.receiver.free.set()
        return status(200)()

    other_receiver.will("g-5", let_go)
    scene.tell(*good)
    scene.work()
    assert len(other_receiver.calls) == 6
    deliveries = scene.service.get("/deliveries", notificationId=held)["items"]
    assert [each["status"] for each in deliveries] == ["DELIVERED"] * 4


def test_what_is_slow_waits_in_one_lane_wherever_it_is(scene: Scene) -> None:
    hosts = [DeliveryTarget("WEBHOOK", f"http://127.0.0.1:{port}/") for port in (1, 2, 3)]
    rows = Rows(scene.service.resources.db.url)
    lanes = "SELECT DISTINCT lock FROM procrastinate_jobs WHERE status = 'todo'"
    scene.tell(*hosts)
    assert len(rows.all(lanes)) == 3
    scene.work()
    rows.do("DELETE FROM deliveries")
    rows.do("UPDATE endpoints SET slow_count = 1")
    scene.tell(*hosts)
    assert rows.all(lanes) == [(SLOW_LOCK,)]


def test_an_endpoint_that_hangs_is_left_alone_for_a_while(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages, two tries: the others do not spend their time on it."""
    monkeypatch.setattr(webhook_client, "DEADLINE_S", 0.3)
    monkeypatch.setattr(service, "SLOW_AFTER_S", 0.2)
    url = scene.receiver.will("hook", *[scene.receiver.hang] * 2)
    told = [scene.tell(DeliveryTarget("WEBHOOK", url)) for _ in range(3)]
    scene.work()
    assert len(scene.receiver.calls) == 1
    assert sorted(scene.delivery(each)["attempts"] for each in told) == [0, 0, 1]
    assert all(scene.delivery(each)["dueAt"] for each in told)
    scene.work(later_s=7)  # 5 s, and then five minutes
    assert len(scene.receiver.calls) == 2
    scene.work(later_s=290)
    assert len(scene.receiver.calls) == 2
    scene.work(later_s=90)
    assert {scene.delivery(each)["status"] for each in told} == {"DELIVERED"}
    scene.receiver.free.set()


def test_a_delivery_changes_no_run(scene: Scene) -> None:
    scene.service.agent()
    scene.service.benchmark(metrics=["LATENCY"])
    scene.service.upload([{"traceId": "t-1"}])
    run = scene.service.completed()
    scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.will("hook", status(500))))
    scene.work()
    assert scene.service.get(f"/benchmark-runs/{run['id']}") == run
