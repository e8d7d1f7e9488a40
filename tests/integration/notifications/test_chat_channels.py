"""Slack and Teams, with local servers in place of their hosts."""

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

from mosaico.core.http import transport
from mosaico.notifications.types import (
    DeliveryTarget,
    MessageFact,
    MessageItem,
    MessageSeverity,
    NotificationMessage,
)
from tests.integration.notifications.conftest import NotificationScenario
from tests.support.tls import trusted_server

SLACK, TEAMS = "hooks.slack.com", "prod-1.westeurope.logic.azure.com"
MESSAGE = NotificationMessage(
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


class ChatRequest(NamedTuple):
    """What a chat was sent."""

    path: str
    content_type: str | None
    body: dict[str, Any]


class ChatResponse(NamedTuple):
    """What a chat says to the next call."""

    status: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(kw_only=True)
class Chat:
    """A server with TLS; it answers as it is told to, then as Slack and Teams do to what is fine."""

    port: int
    calls: list[ChatRequest] = field(default_factory=list)
    answers: list[ChatResponse] = field(default_factory=list)

    @property
    def slack(self) -> DeliveryTarget:
        return DeliveryTarget("SLACK", f"https://{SLACK}:{self.port}/services/T0/B0/tokenxyz")

    @property
    def teams(self) -> DeliveryTarget:
        return DeliveryTarget(
            "TEAMS", f"https://{TEAMS}:{self.port}/workflows/1/invoke?sig=ijklmnop"
        )

    def take(self, call: ChatRequest) -> ChatResponse:
        self.calls.append(call)
        usual = ChatResponse(200, "ok") if call.path.startswith("/services") else ChatResponse(202)
        return self.answers.pop(0) if self.answers else usual


@contextmanager
def chatting(context: ssl.SSLContext) -> Iterator[Chat]:
    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = chat_server.take(ChatRequest(self.path, self.headers["content-type"], body))
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Takes) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        chat_server = Chat(port=server.server_port)
        # The end of the server waits for a poll, which is every half second by default.
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield chat_server
        finally:
            server.shutdown()
            thread.join()


def lead_here(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The resolver of this machine, for which these names are on it."""
    real_getaddrinfo = socket.getaddrinfo

    def find(host: str, *where: Any, **more: Any) -> Sequence[Any]:
        return real_getaddrinfo("127.0.0.1" if host in names else host, *where, **more)

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
    with chatting(trusted_server(tmp_path, monkeypatch, [SLACK, TEAMS])) as chat_server:
        yield chat_server


def test_slack_channel__blocks_are_delivered(scenario: NotificationScenario, chat: Chat) -> None:
    notification_id = scenario.publish(chat.slack, message=MESSAGE)
    scenario.work()
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
    [call] = chat.calls
    assert (call.path, call.content_type) == ("/services/T0/B0/tokenxyz", "application/json")
    assert call.body["text"] == "[CRITICAL] Firing: quality falls &lt;!channel&gt;"
    header, *sections = call.body["blocks"]
    assert header["text"]["text"] == "[CRITICAL] Firing: quality falls <!channel>"
    link = sections[0]["elements"][0]["elements"][0]
    assert (link["type"], link["url"]) == ("link", "https://mosaico.example/api/v1/alerts/1")


def test_teams_channel__card_is_delivered(scenario: NotificationScenario, chat: Chat) -> None:
    notification_id = scenario.publish(chat.teams, message=MESSAGE)
    scenario.work()
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
    [call] = chat.calls
    assert call.path == "/workflows/1/invoke?sig=ijklmnop"
    [attachment] = call.body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    runs = [run for block in attachment["content"]["body"] for run in block["inlines"]]
    assert [run["text"] for run in runs] == [
        "[CRITICAL] Firing: quality falls <!channel>",
        "quality falls",
        "It fell by 40 %.",
        "benchmark: ",
        "nightly",
    ]


def test_slack_channel__gone_disables_endpoint_without_exposing_url(
    scenario: NotificationScenario, chat: Chat
) -> None:
    chat.answers = [ChatResponse(410, "channel_is_archived")]
    notification_id = scenario.publish(chat.slack, message=MESSAGE)
    scenario.work()
    delivery = scenario.delivery(notification_id)
    assert (delivery["status"], delivery["detail"]) == ("HELD", "HTTP 410: channel_is_archived")
    # The last four characters are shown; those before them are the credential.
    assert "token" not in json.dumps([delivery, scenario.endpoint(delivery), scenario.inbox()])


def test_slack_channel__server_without_valid_certificate_gets_nothing(
    scenario: NotificationScenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_trust: None,
) -> None:
    lead_here(monkeypatch, SLACK)
    with chatting(trusted_server(tmp_path, monkeypatch, ["elsewhere.example"])) as other:
        notification_id = scenario.publish(other.slack, message=MESSAGE)
        scenario.work()
    assert "certificate" in scenario.delivery(notification_id)["detail"]
    assert other.calls == []
