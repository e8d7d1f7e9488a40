"""SLACK: an incoming webhook, with messages in Block Kit.

User texts are only in fields without markup: `plain_text` and the texts of `rich_text`, in which
mentions and links are separate elements.
Source: docs.slack.dev, reference/block-kit (blocks, rich_text), messaging/formatting-message-text.
"""

import json
from typing import Any

from mosaico.core.resources import Resources
from mosaico.core.url_syntax import redact_url
from mosaico.notifications.message_layout import MessageLayout, TextLine, TextSpan, build_layout
from mosaico.notifications.registry import (
    CHANNELS,
    ChannelSpec,
    InvalidRecipient,
    OutgoingMessage,
    is_own_chat_host,
)
from mosaico.notifications.types import DeliveryOutcome, PublishedMessage
from mosaico.notifications.webhook_client import parse_recipient_url, post

HOSTS = ("hooks.slack.com", "hooks.slack-gov.com")
MAX_HEADER_CHARS = 150
MAX_ITEMS = 40  # a message has at most 50 blocks


def check(recipient: str) -> None:
    url = parse_recipient_url(recipient)
    if is_own_chat_host(url.host):
        return
    if url.scheme != "https" or url.host not in HOSTS or url.path == "/":
        raise InvalidRecipient(
            "is not a Slack incoming webhook; write it as https://hooks.slack.com/services/…, "
            "or ask the operator to add your own server to MOSAICO_CHAT_HOSTS"
        )


def render(published: PublishedMessage) -> bytes:
    layout = build_layout(published, max_items=MAX_ITEMS)
    header = {"type": "plain_text", "text": layout.title[:MAX_HEADER_CHARS], "emoji": False}
    document = {
        "text": escape_markup(layout.title),
        "mrkdwn": False,
        # Slack would otherwise turn names, channels and URLs of the text into mentions and links
        # with previews.
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [{"type": "header", "text": header}, *_blocks(layout)],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def escape_markup(text: str) -> str:
    """Escape a text for the one field in which Slack interprets its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def send(res: Resources, outgoing: OutgoingMessage) -> DeliveryOutcome:
    return post(res, outgoing.recipient, outgoing.body, {}, outgoing.sent_at)


def _blocks(layout: MessageLayout) -> list[dict[str, Any]]:
    # Slack rejects the whole message if a block has no elements.
    sections = [section for section in layout.sections if section]
    return [{"type": "rich_text", "elements": [_lines(section)]} for section in sections]


def _lines(lines: tuple[TextLine, ...]) -> dict[str, Any]:
    elements: list[dict[str, Any]] = []
    for line in lines:
        elements += [_element(run) for run in line]
        elements.append({"type": "text", "text": "\n"})
    # Without the line break after the last line.
    return {"type": "rich_text_section", "elements": elements[:-1]}


def _element(run: TextSpan) -> dict[str, Any]:
    style = {"style": {"bold": True}} if run.strong else {}
    if run.link is not None:
        return {"type": "link", "url": run.link, "text": run.text, **style}
    return {"type": "text", "text": run.text, **style}


CHANNELS.register(
    "SLACK",
    ChannelSpec(
        check=check, render=render, send=send, redact=redact_url,
        domains=(".slack.com", ".slack-gov.com"),
    ),
)  # fmt: skip
