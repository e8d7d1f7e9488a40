"""Renders the request of a delivery for display, without credentials."""

import json
from typing import Any

from app.notifications.queries import LoadedDelivery
from app.notifications.registry import CHANNELS
from app.notifications.schemas import DeliveryRequestView
from app.notifications.types import PublishedMessage

EMAIL = "EMAIL"
SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
REDACTED = "…"


def describe_request(loaded: LoadedDelivery, public_url: str) -> DeliveryRequestView:
    """The request of every attempt, rendered again from the stored message: each attempt sends the same
    bytes. The body is null when the channel is not installed here.
    """
    delivery, notification, endpoint = loaded
    channel = CHANNELS.find(endpoint.channel)
    published = PublishedMessage(
        id=notification.id,
        published_at=notification.created_at,
        message=notification.message,
        public_url=public_url,
    )
    is_mail = endpoint.channel == EMAIL
    headers = {} if is_mail else {"Content-Type": "application/json"}
    if channel is not None and channel.signed:
        # The time and the signature are those of an attempt, and prove who sent it.
        headers |= dict.fromkeys(SIGNED_HEADERS, REDACTED) | {"webhook-id": notification.id}
    body = channel.render(published).decode("utf-8", "replace") if channel else None
    return DeliveryRequestView(
        method="SMTP" if is_mail else "POST",
        recipient=endpoint.recipient,
        headers=headers,
        body=_readable(body),
        status=delivery.status,
        response=delivery.detail,
        tried_at=delivery.tried_at,
    )


def _readable(body: str | None) -> str | None:
    """JSON with one value on a line; another text as it is."""
    if body is None:
        return None
    try:
        document: Any = json.loads(body)
    except ValueError:
        return body
    return json.dumps(document, indent=2, ensure_ascii=False)
