"""Messages, endpoints and deliveries as the API and pages show them; the request of a delivery without credentials."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from mosaico.core.keyset import MAX_LIMIT, PageQuery
from mosaico.core.schemas import view_of_row
from mosaico.core.symbols import symbol_of
from mosaico.notifications import queries
from mosaico.notifications.models import Delivery, Endpoint, Notification
from mosaico.notifications.queries import (
    DeliveryFilter,
    LoadedDelivery,
    endpoints_of,
    list_deliveries,
)
from mosaico.notifications.registry import CHANNELS
from mosaico.notifications.rules import DeliveryStatus
from mosaico.notifications.schemas import (
    DeliveryRequestView,
    DeliveryView,
    EndpointView,
    NotificationView,
)


def notification_view(row: Notification) -> NotificationView:
    message = row.message
    return view_of_row(
        NotificationView,
        row,
        **{name: getattr(message, name) for name in ("sentences", "facts", "items", "link")},
    )


def endpoint_view(row: Endpoint) -> EndpointView:
    return view_of_row(EndpointView, row, secret_set=row.secret is not None)


def delivery_view(row: Delivery, endpoint: Endpoint) -> DeliveryView:
    return view_of_row(DeliveryView, row, channel=endpoint.channel, recipient=endpoint.recipient)


def delivery_views(session: Session, rows: list[Delivery]) -> list[DeliveryView]:
    endpoint_of = queries.endpoints_of(session, rows)
    # Those of a deleted endpoint are hidden here and not by the query, which would read all of them to
    # fill a page; so a page may be short until the job has deleted them.
    return [
        delivery_view(row, endpoint)
        for row in rows
        if (endpoint := endpoint_of.get(row.endpoint_id)) is not None
    ]


class DeliveryRow(NamedTuple):
    """The recipient and the state of a delivery; `text` contains an error."""

    id: str
    channel: str
    recipient: str
    symbol: str
    status: str
    text: str
    attempts: int
    at: datetime | None
    can_redeliver: bool


def list_delivery_rows(session: Session, notification_ids: Iterable[str]) -> list[DeliveryRow]:
    """The deliveries of messages."""
    deliveries: list[Delivery] = []
    for notification_id in notification_ids:
        # All of them: a rule has at most 50 recipients, each of few channels.
        page, of_message = PageQuery(MAX_LIMIT), DeliveryFilter(notification_id=notification_id)
        deliveries += list_deliveries(session, page, of_message).rows
    return delivery_rows(deliveries, endpoints_of(session, deliveries))


def delivery_rows(
    deliveries: Sequence[Delivery], endpoints: Mapping[str, Endpoint]
) -> list[DeliveryRow]:
    """A row for each delivery; none for a deleted endpoint, whose deliveries a job deletes."""
    return [
        DeliveryRow(
            id=delivery.id,
            channel=endpoints[delivery.endpoint_id].channel.lower(),
            recipient=endpoints[delivery.endpoint_id].recipient,
            symbol=symbol_of(delivery.status),
            status=delivery.status.lower(),
            text=delivery.detail or delivery.status.lower(),
            attempts=delivery.attempts,
            at=delivery.delivered_at or delivery.due_at or delivery.tried_at,
            can_redeliver=delivery.status != DeliveryStatus.PENDING
            and endpoints[delivery.endpoint_id].disabled_at is None,
        )
        for delivery in deliveries
        if delivery.endpoint_id in endpoints
    ]


EMAIL = "EMAIL"
SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
REDACTED = "…"


def describe_request(loaded: LoadedDelivery, public_url: str) -> DeliveryRequestView:
    """The request of every attempt, rendered again from the stored message: each attempt sends the same
    bytes. The body is null when the channel is not installed here.
    """
    delivery, notification, endpoint = loaded
    channel = CHANNELS.find(endpoint.channel)
    is_mail = endpoint.channel == EMAIL
    headers = {} if is_mail else {"Content-Type": "application/json"}
    if channel is not None and channel.signed:
        # The time and the signature are those of an attempt, and prove who sent it.
        headers |= dict.fromkeys(SIGNED_HEADERS, REDACTED) | {"webhook-id": notification.id}
    body = (
        channel.render(loaded.published(public_url)).decode("utf-8", "replace") if channel else None
    )
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
