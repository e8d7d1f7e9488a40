"""The message of an alert in each channel: the same lines in the same order."""

import json
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest

from mosaico.notifications.registry import CHANNELS, load_channels
from mosaico.notifications.types import NotificationMessage, PublishedMessage
from tests.support.fake_alerts import CHANGE_LINE, NOW, FakeAlert, render

load_channels(print)


def published(message: NotificationMessage) -> PublishedMessage:
    # A message is sent by a worker, which reads it as JSON from the database.
    stored = NotificationMessage.from_document(json.loads(json.dumps(message.to_document())))
    return PublishedMessage(
        id="m-1", published_at=NOW, message=stored, public_url="https://mosaico.example"
    )


LINES = [
    CHANGE_LINE,
    "Changes since the run before: agent revision 14 → 15; model small-1 → small-2.",
    "Alert rule: quality falls.",
    "Item refund-17: EXACT_MATCH is 0, was 1 https://mosaico.example/runs/run-1/traces/t-17",
    "Item refund-18: EXACT_MATCH is 0 https://mosaico.example/runs/run-1/traces/t%2F18",
    "See what changed: mosaico runs show run-1",
    "If nothing is wrong: mosaico incidents noise e-1",
    "If the new level is right: mosaico incidents accept e-1",
    "agent: Support bot (agent-001)",
    "Open in MOSAICO https://mosaico.example/runs/run-1",
]


def test_email_channel__golden_message() -> None:
    mail = message_from_bytes(
        CHANNELS.get("EMAIL").render(published(render(FakeAlert()))), EmailMessage, policy=default
    )
    assert (
        mail["Subject"] == "[CRITICAL] Support bot: answer quality 0.900 → 0.620 (nightly-support)"
    )
    body = mail.get_body(("plain",))
    assert body is not None
    text = body.get_content().splitlines()
    # Only the order counts: the channel adds lines of its own.
    assert [line for line in text if line in LINES] == LINES


def chat_texts(document: Any) -> str:
    """The texts of a chat message in their order, with the links after them."""
    if isinstance(document, list):
        return "".join(map(chat_texts, document))
    if not isinstance(document, dict):
        return ""
    text = document["text"] if isinstance(document.get("text"), str) else ""
    link = document.get("url") or document.get("selectAction", {}).get("url")
    children = [value for value in document.values() if isinstance(value, list | dict)]
    nested = "" if "selectAction" in document else chat_texts(children)
    end = "\n" if document.get("type") == "RichTextBlock" else ""
    return text + (f" {link}" if link else "") + nested + end


@pytest.mark.parametrize("channel", ["SLACK", "TEAMS"])
def test_chat_channels__golden_message(channel: str) -> None:
    document = json.loads(CHANNELS.get(channel).render(published(render(FakeAlert()))))
    text = chat_texts(document)
    assert "[CRITICAL] Support bot: answer quality 0.900 → 0.620 (nightly-support)" in text
    positions = [text.find(line) for line in LINES]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_webhook_channel__golden_message() -> None:
    document = json.loads(CHANNELS.get("WEBHOOK").render(published(render(FakeAlert()))))
    assert document["type"] == "alert.firing"
    data = document["data"]
    assert data["title"] == "Support bot: answer quality 0.900 → 0.620 (nightly-support)"
    assert (data["severity"], data["link"]) == (
        "CRITICAL",
        "https://mosaico.example/runs/run-1",
    )
    [item] = data["items"]
    assert item["links"][0] == {
        "text": "Item refund-17: EXACT_MATCH is 0, was 1",
        "url": "https://mosaico.example/runs/run-1/traces/t-17",
    }
    assert item["advice"][0] == "See what changed: mosaico runs show run-1"


def test_notification_message__another_version_of_a_stored_message_is_refused() -> None:
    document = render(FakeAlert()).to_document()
    with pytest.raises(ValueError, match="unknown version 2"):
        NotificationMessage.from_document({**document, "version": 2})
