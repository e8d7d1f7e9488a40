"""Messages, endpoints and deliveries as the API returns them."""

from sqlalchemy.orm import Session

from app.core.schemas import view_of_row
from app.notifications import queries
from app.notifications.models import Delivery, Endpoint, Notification
from app.notifications.schemas import DeliveryView, EndpointView, NotificationView


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
