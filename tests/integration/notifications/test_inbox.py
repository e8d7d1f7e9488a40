"""The inbox: read and unread, the event stream, the command line."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import QueuePool, text
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.notifications import inbox
from mosaico.notifications.inbox import delete_old_notifications
from mosaico.notifications.types import (
    DeliveryTarget,
    MessageFact,
    MessageItem,
    NotificationMessage,
)
from tests.integration.notifications.conftest import NotificationScenario, status
from tests.support.service import JSON, Service

END_KEY = text("UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE id = :id")
LONG = NotificationMessage(
    topic="test.long",
    title="Two \x1b[31mrules",
    sentences=("Both fired.",),
    facts=(MessageFact("run", "r-1"),),
    items=(MessageItem(title="quality", sentences=("It fell.",), link="/api/v1/alerts/1"),),
)


def test_inbox__mark_one_or_all_as_read(scenario: NotificationScenario) -> None:
    first, second, third = [scenario.publish() for _ in range(3)]
    assert [message["id"] for message in scenario.inbox()] == [third, second, first]
    read = scenario.service.post(f"/notifications/{second}/read")
    assert read["readAt"] is not None
    assert scenario.service.post(f"/notifications/{second}/read")["readAt"] == read["readAt"]
    assert [message["id"] for message in scenario.inbox(unread=True)] == [third, first]
    assert [message["id"] for message in scenario.inbox(unread=False)] == [second]
    assert scenario.service.post(f"/notifications/{second}/unread")["readAt"] is None
    assert scenario.service.post("/notifications/read-all")["unread"] == 0
    assert scenario.inbox(unread=True) == []
    problem = scenario.service.expect_problem(404, "POST", "/notifications/none/read")
    assert problem["type"] == "/problems/notification-not-found"


def events(lines: Iterator[str]) -> Iterator[JSON]:
    return (json.loads(line[6:]) for line in lines if line.startswith("data: "))


def test_inbox__events_are_streamed(scenario: NotificationScenario) -> None:
    client = scenario.service.client
    with client.stream("GET", "/api/v1/notifications/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        received_events = events(answer.iter_lines())
        assert next(received_events) == {"unread": 0, "newest": None}
        notification_id = scenario.publish()
        now = next(received_events)
        assert (now["unread"], now["newest"]["id"]) == (1, notification_id)
        scenario.service.post(f"/notifications/{notification_id}/read")
        now = next(received_events)
        assert (now["unread"], now["newest"]["readAt"] is None) == (0, False)


def revoke_key(service: Service, key_id: str) -> None:
    service.delete(f"/keys/{key_id}")


def expire_key(service: Service, key_id: str) -> None:
    # The API refuses a time in the past.
    with service.resources.db.begin() as session:
        session.execute(END_KEY, {"id": key_id})


@pytest.mark.parametrize("end_key", [revoke_key, expire_key])
def test_inbox__event_stream_of_an_ended_key_is_closed(
    scenario: NotificationScenario, end_key: Callable[[Service, str], None]
) -> None:
    service = scenario.service
    key = service.post("/keys", {"name": "watcher", "role": "read"})
    headers = {"Authorization": f"Bearer {key['token']}"}
    address = "/api/v1/notifications/events"
    with service.client.stream("GET", address, headers=headers) as answer:
        received_events = events(answer.iter_lines())
        assert next(received_events)["unread"] == 0
        end_key(service, key["id"])
        assert list(received_events) == []


def test_inbox__event_stream_of_an_ended_key_is_closed_while_requests_have_every_connection(
    scenario: NotificationScenario,
) -> None:
    service = scenario.service
    engine = service.resources.db.engine
    key = service.post("/keys", {"name": "watcher", "role": "read"})
    headers = {"Authorization": f"Bearer {key['token']}"}
    with (
        service.client.stream("GET", "/api/v1/notifications/events", headers=headers) as answer,
        ExitStack() as requests,
    ):
        received_events = events(answer.iter_lines())
        assert next(received_events)["unread"] == 0
        pool = engine.pool
        assert isinstance(pool, QueuePool)
        connections = [requests.enter_context(engine.connect()) for _ in range(pool.size())]
        connections[0].execute(END_KEY, {"id": key["id"]})
        connections[0].commit()
        assert list(received_events) == []


def test_delete_old_notifications__pending_ones_stay_and_hold_up_no_others(
    scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "PURGE_BATCH", 1)
    waiting = scenario.publish(DeliveryTarget("WEBHOOK", scenario.receiver.at("hook")))
    scenario.publish()
    with scenario.service.resources.db.begin() as session:
        delete_old_notifications(session, scenario.clock() + timedelta(days=91))
    assert [message["id"] for message in scenario.inbox()] == [waiting]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"channel": "EMAIL", "recipient": "ops"}, "/recipient"),
        ({"channel": "EMIAL", "recipient": "ops@example.org"}, "/channel"),
        ({"channel": "IN_APP", "recipient": "x"}, "/channel"),
        ({"channel": "SLACK", "recipient": "https://evil.example/services/1"}, "/recipient"),
    ],
)
def test_save_endpoint__invalid_recipient_is_rejected(
    scenario: NotificationScenario, body: JSON, pointer: str
) -> None:
    for path in ("/endpoints", "/notifications/test"):
        problem = scenario.service.expect_problem(422, "POST", path, body)
        assert problem["type"] == "/problems/invalid-recipient"
        assert [error["pointer"] for error in problem["errors"]] == [pointer]


@pytest.fixture
def mosaico(scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line, for this service."""
    key = scenario.service.client.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("MOSAICO_URL", str(scenario.service.client.base_url))
    monkeypatch.setenv("MOSAICO_API_KEY", key)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, list(words))

    return run


def test_cli__inbox_commands(scenario: NotificationScenario, mosaico: Any) -> None:
    notification_id = scenario.publish(message=LONG)
    assert notification_id in mosaico("inbox", "list", "--unread").stdout
    output = mosaico("inbox", "show", notification_id).stdout
    assert "\x1b" not in output
    assert "  It fell.\n  /api/v1/alerts/1" in output
    assert mosaico("inbox", "read", notification_id).exit_code == 0
    assert notification_id not in mosaico("inbox", "list", "--unread").stdout
    scenario.publish()
    assert mosaico("inbox", "read").exit_code == 0
    assert scenario.inbox(unread=True) == []
    assert mosaico("inbox", "show").exit_code == 2


def test_cli__endpoint_and_delivery_commands(scenario: NotificationScenario, mosaico: Any) -> None:
    notification_id = scenario.publish(
        DeliveryTarget("WEBHOOK", scenario.receiver.will("hook", status(410)))
    )
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert delivery["id"] in mosaico("notify", "deliveries", "list", "--status", "HELD").stdout
    assert delivery["endpointId"] in mosaico("notify", "endpoints", "list", "--disabled").stdout
    assert mosaico("notify", "deliveries", "redeliver", delivery["id"]).exit_code == 73
    assert mosaico(
        "notify", "endpoints", "rotate-secret", delivery["endpointId"]
    ).stdout.startswith("whsec_")
    updated = mosaico("notify", "endpoints", "update", delivery["endpointId"], "--daily-summary")
    assert updated.exit_code == 0
    assert scenario.endpoint(delivery)["dailySummary"] is True
    assert mosaico("notify", "endpoints", "enable", delivery["endpointId"]).exit_code == 0
    scenario.work()
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
    assert mosaico("notify", "deliveries", "redeliver", delivery["id"]).exit_code == 0
