"""WEBHOOK: JSON to any URL, signed after Standard Webhooks 1.0."""

import json
from dataclasses import asdict
from typing import Any

from mosaico.core.resources import Resources
from mosaico.core.url_syntax import redact_url
from mosaico.notifications.message_layout import resolve_link
from mosaico.notifications.registry import CHANNELS, ChannelSpec, InvalidRecipient, OutgoingMessage
from mosaico.notifications.types import (
    DeliveryOutcome,
    MessageItem,
    NotificationMessage,
    PublishedMessage,
)
from mosaico.notifications.webhook_client import parse_recipient_url, post
from mosaico.notifications.webhook_signatures import signed_headers


def check(recipient: str) -> None:
    host = parse_recipient_url(recipient).host
    for channel in CHANNELS.names():
        if host.endswith(CHANNELS.get(channel).domains):
            raise InvalidRecipient(f"is a URL of the channel {channel}; use that channel")


def render(published: PublishedMessage) -> bytes:
    """The complete message: texts need no escaping, because JSON separates data from structure."""
    data = {"id": published.id, **_document(published.message, published.public_url)}
    body = {
        "type": published.message.topic,
        "timestamp": published.published_at.isoformat(),
        "data": data,
    }
    # The signature covers these exact bytes; render() is called again for each attempt and gives
    # them again.
    return json.dumps(body, separators=(",", ":")).encode()


def send(res: Resources, outgoing: OutgoingMessage) -> DeliveryOutcome:
    headers = signed_headers(
        outgoing.message_id, outgoing.sent_at, outgoing.body, outgoing.signing_secrets
    )
    return post(res, outgoing.recipient, outgoing.body, headers, outgoing.sent_at)


def _document(part: NotificationMessage | MessageItem, public_url: str) -> dict[str, Any]:
    document = asdict(part)
    document["link"] = resolve_link(part.link, public_url)
    document["facts"] = [fact._asdict() for fact in part.facts]
    if isinstance(part, NotificationMessage):
        document["items"] = [_document(item, public_url) for item in part.items]
    else:
        document["links"] = [
            {"text": link.text, "url": resolve_link(link.url, public_url)} for link in part.links
        ]
    return document


CHANNELS.register(
    "WEBHOOK", ChannelSpec(check=check, render=render, send=send, redact=redact_url, signed=True)
)
