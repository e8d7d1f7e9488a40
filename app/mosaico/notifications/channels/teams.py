"""TEAMS: a Workflows webhook, with messages as Adaptive Cards.

User texts are only in `TextRun`, the one element whose text is not Markdown; a mention would need
an entity of its own.
Source: learn.microsoft.com, adaptive-cards (RichTextBlock, TextRun); at most 28 KB per card.
"""

import json
from bisect import bisect_right
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

WORKFLOWS_DOMAINS = (
    ".logic.azure.com",
    ".logic.azure.us",
    ".logic.azure.cn",
    ".api.powerplatform.com",
)
# Rejected with their own message, because these URLs are still in many configurations.
RETIRED_DOMAINS = (".webhook.office.com", "outlook.office.com")
MAX_BYTES = 28 * 1024
MAX_ITEMS = 40


def check(recipient: str) -> None:
    url = parse_recipient_url(recipient)
    if is_own_chat_host(url.host):
        return
    if url.host.endswith(RETIRED_DOMAINS):
        raise InvalidRecipient(
            "is a connector URL, which Teams no longer supports; create a webhook in Workflows and"
            " send its URL"
        )
    if url.scheme != "https" or not url.host.endswith(WORKFLOWS_DOMAINS) or url.path == "/":
        raise InvalidRecipient(
            "is not a Workflows webhook; send the URL that Workflows shows, on …logic.azure.com "
            "or …api.powerplatform.com, or ask the operator to add your own server to "
            "MOSAICO_CHAT_HOSTS"
        )


def render(published: PublishedMessage) -> bytes:
    """A card with as many items as its size limit allows."""
    counts = range(1, min(MAX_ITEMS, len(published.message.items)) + 1)
    # The size grows with the number of items, so the largest number that fits is found by
    # bisection; Teams rejects a card above the limit as a whole.
    item_count = bisect_right(
        counts, MAX_BYTES, key=lambda count: len(_render_items(published, count))
    )
    body = _render_items(published, item_count)
    return (
        # The message alone can exceed the limit, too; two lines never do.
        body if len(body) <= MAX_BYTES else _card(build_layout(published, max_items=0, max_lines=2))
    )


def send(res: Resources, outgoing: OutgoingMessage) -> DeliveryOutcome:
    return post(res, outgoing.recipient, outgoing.body, {}, outgoing.sent_at)


def _render_items(published: PublishedMessage, item_count: int) -> bytes:
    return _card(build_layout(published, max_items=item_count))


def _card(layout: MessageLayout) -> bytes:
    title = {"type": "TextRun", "text": layout.title, "weight": "Bolder", "size": "Large"}
    lines = [line for section in layout.sections for line in _text_blocks(section)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [{"type": "RichTextBlock", "inlines": [title]}, *lines],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    document = {"type": "message", "attachments": [attachment]}
    return json.dumps(document, separators=(",", ":")).encode()


def _text_blocks(section: tuple[TextLine, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "RichTextBlock",
            "spacing": "None" if index else "Medium",
            "inlines": [_text_run(run) for run in line],
        }
        for index, line in enumerate(section)
    ]


def _text_run(run: TextSpan) -> dict[str, Any]:
    weight = {"weight": "Bolder"} if run.strong else {}
    link = {"selectAction": {"type": "Action.OpenUrl", "url": run.link}} if run.link else {}
    return {"type": "TextRun", "text": run.text, **weight, **link}


CHANNELS.register(
    "TEAMS",
    ChannelSpec(
        check=check, render=render, send=send, redact=redact_url, domains=WORKFLOWS_DOMAINS
    ),
)
