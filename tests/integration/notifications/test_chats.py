"""Slack and Teams, through servers that stand where the names of their hosts lead."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.core.http import transport
from app.notifications.types import (
    DeliveryTarget,
    MessageFact,
    MessageItem,
    MessageSeverity,
    NotificationMessage,
)
from tests.integration.notifications.conftest import Scene
from tests.support.tls import trusted_server

SLACK, TEAMS = "hooks.slack.com", "prod-1.westeurope.logic.azure.com"
TOLD = NotificationMessage(
    topic="alert.firing",
    title="Firing: quality falls <!channel>",
    severity=MessageSeverity.CRITICAL,
    facts=(MessageFact("benchmark", "nightly"),),
    items=(
        MessageItem(
            title="quality falls", sentences=("It fell by 40 %.",), link="/api/v1/alerts/1"
        ),
    ),
)


class Call(NamedTuple):
    """What a chat was sent."""

    path: str
    content_type: str | None
    body: dict[str, Any]


class Answer(NamedTuple):
    """What a chat says to the next call."""

    status: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(kw_only=True)
class Chat:
    """A server with TLS; it answers as it is told to, then as Slack and Teams do to what is fine."""

    port: int
    calls: list[Call] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def slack(self) -> DeliveryTarget:
        return DeliveryTarget("SLACK", f"https://{SLACK}:{self.port}/services/T0/B0/abcdefgh")

    @property
    def teams(self) -> DeliveryTarget:
        return DeliveryTarget(
            "TEAMS", f"https://{TEAMS}:{self.port}/workflows/1/invoke?sig=ijklmnop"
        )

    def take(self, call: Call) -> Answer:
        self.calls.append(call)
        usual = Answer(200, "ok") if call.path.startswith("/services") else Answer(202)
        return self.answers.pop(0) if self.answers else usual


@contextmanager
def chatting(context: ssl.SSLContext) -> Iterator[Chat]:
    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = found.take(Call(self.path, self.headers["content-type"], body))
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Takes) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        found = Chat(port=server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def lead_here(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The resolver of this machine, for which these names are on it."""
    known = socket.getaddrinfo

    def find(host: str, *where: Any, **more: Any) -> Sequence[Any]:
        return known("127.0.0.1" if host in names else host, *where, **more)

    monkeypatch.setattr(socket, "getaddrinfo", find)


@pytest.fixture
def fresh_trust() -> Iterator[None]:
    """Certificate authorities are loaded again, for the test and after it."""
    transport.tls_context.cache_clear()
    yield
    transport.tls_context.cache_clear()


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_trust: None) -> Iterator[Chat]:
    lead_here(monkeypatch, SLACK, TEAMS)
    with chatting(trusted_server(tmp_path, monkeypatch, [SLACK, TEAMS])) as found:
        yield found


def test_slack_is_sent_blocks_and_says_ok(scene: Scene, chat: Chat) -> None:
    told = scene.tell(chat.slack, message=TOLD)
    scene.work()
    assert scene.delivery(told)["status"] == "DELIVERED"
    [call] = chat.calls
    assert (call.path, call.content_type) == ("/services/T0/B0/abcdefgh", "application/json")
    assert call.body["text"] == "Critical: Firing: quality falls &lt;!channel&gt;"
    header, *sections = call.body["blocks"]
    assert header["text"]["text"] == "Critical: Firing: quality falls <!channel>"
    link = sections[1]["elements"][0]["elements"][0]
    assert (link["type"], link["url"]) == ("link", "https://mosaico.example/api/v1/alerts/1")


def test_teams_is_sent_a_card_and_accepts_it(scene: Scene, chat: Chat) -> None:
    told = scene.tell(chat.teams, message=TOLD)
    scene.work()
    assert scene.delivery(told)["status"] == "DELIVERED"
    [call] = chat.calls
    assert call.path == "/workflows/1/invoke?sig=ijklmnop"
    [attachment] = call.body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    runs = [run for block in attachment["content"]["body"] for run in block["inlines"]]
    assert [run["text"] for run in runs] == [
        "Critical: Firing: quality falls <!channel>",
        "benchmark: ",
        "nightly",
        "quality falls",
        "It fell by 40 %.",
    ]


def test_a_chat_that_wants_less_is_left_alone_as_long_as_it_says(scene: Scene, chat: Chat) -> None:
    chat.answers = [Answer(429, "rate_limited", (("Retry-After", "30"),))]
    told = scene.tell(chat.slack, message=TOLD)
    scene.work()
    assert scene.delivery(told)["detail"] == "HTTP 429: rate_limited"
    scene.work(later_s=20)
    assert len(chat.calls) == 1
    scene.work(later_s=11)
    assert scene.delivery(told)["status"] == "DELIVERED"
    assert chat.calls[0] == chat.calls[1]


def test_a_channel_that_is_gone_disables_its_endpoint_and_nothing_tells_the_address(
    scene: Scene, chat: Chat
) -> None:
    chat.answers = [Answer(410, "channel_is_archived")]
    told = scene.tell(chat.slack, message=TOLD)
    scene.work()
    delivery = scene.delivery(told)
    assert (delivery["status"], delivery["detail"]) == ("HELD", "HTTP 410: channel_is_archived")
    assert "abcd" not in json.dumps([delivery, scene.endpoint(delivery), scene.inbox()])


def test_nothing_is_sent_to_whoever_cannot_prove_to_be_slack(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_trust: None
) -> None:
    lead_here(monkeypatch, SLACK)
    with chatting(trusted_server(tmp_path, monkeypatch, ["elsewhere.example"])) as other:
        told = scene.tell(other.slack, message=TOLD)
        scene.work()
    assert "certificate" in scene.delivery(told)["detail"]
    assert other.calls == []
