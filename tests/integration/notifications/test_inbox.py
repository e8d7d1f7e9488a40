"""The inbox: read and unread, followed as a stream, on the command line."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.notifications.service import delete_old_notifications
from app.notifications.types import DeliveryTarget, MessageFact, MessageItem, NotificationMessage
from tests.integration.notifications.conftest import Scene, status
from tests.support.service import JSON

LONG = NotificationMessage(
    topic="test.long",
    title="Two \x1b[31mrules",
    sentences=("Both fired.",),
    facts=(MessageFact("run", "r-1"),),
    items=(MessageItem(title="quality", sentences=("It fell.",), link="/api/v1/alerts/1"),),
)


def test_messages_are_read_one_by_one_or_all_at_once(scene: Scene) -> None:
    first, second, third = [scene.tell() for _ in range(3)]
    assert [each["id"] for each in scene.inbox()] == [third, second, first]
    read = scene.service.post(f"/notifications/{second}/read")
    assert read["readAt"] is not None
    assert scene.service.post(f"/notifications/{second}/read")["readAt"] == read["readAt"]
    assert [each["id"] for each in scene.inbox(unread=True)] == [third, first]
    assert [each["id"] for each in scene.inbox(unread=False)] == [second]
    assert scene.service.post(f"/notifications/{second}/unread")["readAt"] is None
    assert scene.service.post("/notifications/read-all")["unread"] == 0
    assert scene.inbox(unread=True) == []
    problem = scene.service.refused(404, "POST", "/notifications/none/read")
    assert problem["type"] == "/problems/notification-not-found"


def test_a_message_is_shown_with_its_parts(scene: Scene) -> None:
    shown = scene.service.get(f"/notifications/{scene.tell(message=LONG)}")
    assert shown["title"] == LONG.title  # data: whoever shows it makes it inert
    assert shown["facts"] == [{"name": "run", "value": "r-1"}]
    assert shown["items"] == [
        {"title": "quality", "sentences": ["It fell."], "facts": [], "link": "/api/v1/alerts/1"}
    ]


def events(lines: Iterator[str]) -> Iterator[JSON]:
    return (json.loads(line[6:]) for line in lines if line.startswith("data: "))


def test_the_inbox_is_followed_as_a_stream(scene: Scene) -> None:
    client = scene.service.client
    with client.stream("GET", "/api/v1/notifications/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        seen = events(answer.iter_lines())
        assert next(seen) == {"unread": 0, "newest": None}
        told = scene.tell()
        now = next(seen)
        assert (now["unread"], now["newest"]["id"]) == (1, told)
        scene.service.post(f"/notifications/{told}/read")
        now = next(seen)
        assert (now["unread"], now["newest"]["readAt"] is None) == (0, False)


def test_old_messages_are_forgotten_unless_they_are_on_their_way(scene: Scene) -> None:
    waiting = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.at("hook")))
    scene.tell()
    with scene.service.resources.db.begin() as session:
        delete_old_notifications(session, scene.clock() + timedelta(days=91))
    assert [each["id"] for each in scene.inbox()] == [waiting]


def test_an_endpoint_is_one_however_often_it_is_set_up(scene: Scene) -> None:
    body = {"channel": "EMAIL", "recipient": "ops@example.org"}
    first = scene.service.post("/endpoints", {**body, "dailySummary": True})
    again = scene.service.post("/endpoints", body)
    assert again == first
    assert again["dailySummary"] is True
    assert scene.service.post("/endpoints", {**body, "dailySummary": False})["id"] == first["id"]
    assert scene.service.get("/endpoints", channel="EMAIL", disabled=False)["items"] == [
        {**first, "dailySummary": False}
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"channel": "EMAIL", "recipient": "ops"}, "/recipient"),
        ({"channel": "EMIAL", "recipient": "ops@example.org"}, "/channel"),
        ({"channel": "IN_APP", "recipient": "x"}, "/channel"),
        ({"channel": "SLACK", "recipient": "https://evil.example/services/1"}, "/recipient"),
    ],
)
def test_a_recipient_that_does_not_fit_is_refused_at_once(
    scene: Scene, body: JSON, pointer: str
) -> None:
    for path in ("/endpoints", "/notifications/test"):
        problem = scene.service.refused(422, "POST", path, body)
        assert problem["type"] == "/problems/invalid-recipient"
        assert [error["pointer"] for error in problem["errors"]] == [pointer]


def test_addresses_that_are_as_good_as_passwords_are_not_shown(scene: Scene) -> None:
    url = "https://hooks.slack.com/services/T0/B0/abcdefgh"
    sent = scene.service.post("/notifications/test", {"channel": "SLACK", "recipient": url})
    shown = json.dumps([sent, scene.endpoint(sent), scene.service.get("/deliveries")])
    assert "abcdefgh"[:5] not in shown


@pytest.fixture
def mosaico(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line, for this service."""
    key = scene.service.client.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("MOSAICO_URL", str(scene.service.client.base_url))
    monkeypatch.setenv("MOSAICO_API_KEY", key)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, list(words))

    return run


def test_the_inbox_on_the_command_line(scene: Scene, mosaico: Any) -> None:
    told = scene.tell(message=LONG)
    assert told in mosaico("inbox", "list", "--unread").stdout
    shown = mosaico("inbox", "show", told).stdout
    assert "\x1b" not in shown
    assert "  It fell.\n  /api/v1/alerts/1" in shown
    assert mosaico("inbox", "read", told).exit_code == 0
    assert told not in mosaico("inbox", "list", "--unread").stdout
    scene.tell()
    assert mosaico("inbox", "read").exit_code == 0
    assert scene.inbox(unread=True) == []
    assert mosaico("inbox", "show").exit_code == 2


def test_endpoints_and_deliveries_on_the_command_line(scene: Scene, mosaico: Any) -> None:
    told = scene.tell(DeliveryTarget("WEBHOOK", scene.receiver.will("hook", status(410))))
    scene.work()
    delivery = scene.delivery(told)
    assert delivery["id"] in mosaico("notify", "deliveries", "list", "--status", "HELD").stdout
    assert delivery["endpointId"] in mosaico("notify", "endpoints", "list", "--disabled").stdout
    assert mosaico("notify", "deliveries", "redeliver", delivery["id"]).exit_code == 73
    assert mosaico(
        "notify", "endpoints", "rotate-secret", delivery["endpointId"]
    ).stdout.startswith("whsec_")
    assert mosaico("notify", "endpoints", "enable", delivery["endpointId"]).exit_code == 0
    scene.work()
    assert scene.delivery(told)["status"] == "DELIVERED"
    assert mosaico("notify", "deliveries", "redeliver", delivery["id"]).exit_code == 0
