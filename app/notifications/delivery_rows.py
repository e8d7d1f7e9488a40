"""The deliveries of a notification as pages show them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from app.core.keyset import PageQuery
from app.notifications.models import Delivery, Endpoint
from app.notifications.queries import endpoints_of, list_deliveries
from app.notifications.rules import DeliveryStatus

_SYMBOLS: Final = {"DELIVERED": "✓", "PENDING": "…"}


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


def list_delivery_rows(session: Session, notification_id: str | None) -> list[DeliveryRow]:
    """The deliveries of a message; none without a message, as for a silenced alert."""
    if notification_id is None:
        return []
    deliveries = list_deliveries(session, PageQuery(), notification_id=notification_id).rows
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
            symbol=_SYMBOLS.get(delivery.status, "✗"),
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
