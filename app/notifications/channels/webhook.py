"""WEBHOOK: JSON to any program, signed after Standard Webhooks 1.0."""

import json
from dataclasses import asdict
from typing import Any

from app.core.resources import Resources
from app.notifications.registry import CHANNELS, ChannelSpec, Outgoing, UnfitRecipient
from app.notifications.safe_text import followable
from app.notifications.types import Item, Message, Notice, Outcome
from app.notifications.webhook_client import check_recipient_url, post
from app.notifications.webhook_signatures import signed_headers

# Addresses of chats, which understand none of this.
OTHERS = {
    ".slack.com": "SLACK",
    ".slack-gov.com": "SLACK",
    ".logic.azure.com": "TEAMS",
    ".powerplatform.com": "TEAMS",
}


def check(recipient: str) -> None:
    host = check_recipient_url(recipient).host
    for ending, channel in OTHERS.items():
        if host.endswith(ending):
            raise UnfitRecipient(f"is an address of the channel {channel}; name that")


def render(notice: Notice) -> bytes:
    """The message whole: texts are data here, and JSON keeps them apart from everything else."""
    data = {"id": notice.id, **_document(notice.message, notice.public_url)}
    body = {"type": notice.message.topic, "timestamp": notice.at.isoformat(), "data": data}
    return json.dumps(body, separators=(",", ":")).encode()


def send(res: Resources, outgoing: Outgoing) -> Outcome:
    headers = signed_headers(outgoing.id, outgoing.now, outgoing.body, outgoing.keys)
    return post(res, outgoing.recipient, outgoing.body, headers, outgoing.now)


def shown(recipient: str) -> str:
    """Without what often is a key."""
    address, asks, _ = recipient.partition("?")
    return f"{address}{asks}…" if asks else address


def _document(part: Message | Item, public_url: str) -> dict[str, Any]:
    document = asdict(part)
    document["link"] = followable(part.link, public_url)
    document["facts"] = [fact._asdict() for fact in part.facts]
    if isinstance(part, Message):
        document["items"] = [_document(item, public_url) for item in part.items]
    return document


CHANNELS.register(
    "WEBHOOK", ChannelSpec(check=check, render=render, send=send, shown=shown, signed=True)
)
