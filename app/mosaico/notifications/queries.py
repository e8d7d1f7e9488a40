"""Reads of notifications, endpoints and deliveries."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple

from pydantic import Field
from sqlalchemy import ColumnElement, select, text
from sqlalchemy.orm import Session

from mosaico.core.batches import keyset_batches
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.list_filters import match_any, match_columns, one_value
from mosaico.core.resources import Resources
from mosaico.core.row_counts import count_selected
from mosaico.core.schemas import ListFilter
from mosaico.notifications.models import Delivery, Endpoint, Notification
from mosaico.notifications.rules import DeliveryStatus
from mosaico.notifications.types import PublishedMessage

# Per tick: a backlog of thousands is spread over some seconds instead of one long transaction.
MAX_DUE = 200

# Endpoints of the daily summary that a statement reads.
SUMMARY_BATCH = 5_000

# Every change of the inbox counts again, for each open page.
MAX_UNREAD_COUNTED = 10_000

# FOR NO KEY UPDATE: rows that refer to the locked row can still be inserted, such as a delivery to
# a locked endpoint.
ROW_LOCK = {"key_share": True}

# The endpoints for which deliveries wait: PostgreSQL has no statement that skips to the next one.
_WAITING_ENDPOINTS: Final = text(
    """
    WITH RECURSIVE waiting AS (
      (SELECT endpoint_id FROM deliveries WHERE status = 'PENDING' ORDER BY endpoint_id LIMIT 1)
      UNION ALL
      SELECT (SELECT endpoint_id FROM deliveries
              WHERE status = 'PENDING' AND endpoint_id > waiting.endpoint_id
              ORDER BY endpoint_id LIMIT 1)
      FROM waiting WHERE waiting.endpoint_id IS NOT NULL
    )
    SELECT endpoint_id FROM waiting WHERE endpoint_id IS NOT NULL
    """
)
# An index lookup per endpoint, however many deliveries wait for it, now or for a later time. A job clears
# `due_at`, see `delivery_jobs._enqueue`.
_NEXT_DELIVERIES: Final = text(
    """
    SELECT next.id FROM endpoints AS endpoint CROSS JOIN LATERAL (
      SELECT id FROM deliveries
      WHERE endpoint_id = endpoint.id AND status = 'PENDING'
        AND due_at <= coalesce(CAST(:now AS timestamptz), now())
      ORDER BY due_at, id LIMIT 1
    ) AS next
    WHERE endpoint.id = ANY(:endpoint_ids)
      AND endpoint.disabled_at IS NULL
      AND coalesce(endpoint.paused_until <= coalesce(CAST(:now AS timestamptz), now()), true)
      AND NOT EXISTS (
        SELECT FROM deliveries AS with_job
        WHERE with_job.endpoint_id = endpoint.id AND with_job.status = 'PENDING'
          AND with_job.due_at IS NULL
      )
    LIMIT :limit
    """
)


class NotificationNotFound(NotFound):
    """The notification does not exist; GET /api/v1/notifications lists all notifications."""


class DeliveryNotFound(NotFound):
    """The delivery does not exist; GET /api/v1/deliveries lists all deliveries."""


class EndpointNotFound(NotFound):
    """The endpoint does not exist; GET /api/v1/endpoints lists all endpoints."""


class EndpointFilter(ListFilter):
    """Filter of endpoints."""

    channel: str | None = Field(default=None, max_length=64)
    disabled: bool | None = None


class DeliveryFilter(ListFilter):
    """Filter of deliveries."""

    statuses: list[DeliveryStatus] = Field(
        default=[],
        validation_alias="status",
        description="Filter by status; repeat it for several.",
    )
    notification_id: str | None = Field(
        default=None, validation_alias="notificationId", max_length=64
    )
    endpoint_id: str | None = Field(default=None, validation_alias="endpointId", max_length=64)


class LoadedDelivery(NamedTuple):
    """A delivery with its notification and its endpoint."""

    delivery: Delivery
    notification: Notification
    endpoint: Endpoint

    def published(self, public_url: str) -> PublishedMessage:
        """The message, with `public_url` as the base of its links."""
        return PublishedMessage(
            id=self.notification.id,
            published_at=self.notification.created_at,
            message=self.notification.message,
            public_url=public_url,
        )


def get_notification(
    session: Session, notification_id: str, *, for_update: bool = False
) -> Notification:
    notification = find_notification(session, notification_id, for_update=for_update)
    return NotificationNotFound.unless(notification)


def find_notification(
    session: Session, notification_id: str, *, for_update: bool = False
) -> Notification | None:
    lock = ROW_LOCK if for_update else None
    return session.get(Notification, notification_id, with_for_update=lock)


def list_notifications(
    session: Session,
    query: PageQuery,
    *,
    unread: bool | None = None,
    severities: Sequence[str] = (),
    conditions: Sequence[ColumnElement[bool]] = (),
) -> PageRows[Notification]:
    """The messages of the inbox, newest first; `conditions` are additional conditions of the
    caller, for example on their alerts.
    """
    statement = select(Notification).where(Notification.in_inbox)
    if unread is not None:
        is_unread = Notification.read_at.is_(None)
        statement = statement.where(is_unread if unread else ~is_unread)
    keys = [Notification.created_at, Notification.id]
    tested = [*match_any((Notification.severity, severities)), *conditions]
    return select_page(session, statement, keys=keys, query=query, conditions=tested)


def count_unread(session: Session) -> int:
    """The number of unread messages in the inbox, at most `MAX_UNREAD_COUNTED`."""
    unread = select(Notification.id).where(Notification.read_at.is_(None), Notification.in_inbox)
    return count_selected(session, unread.limit(MAX_UNREAD_COUNTED))


def count_inbox(resources: Resources) -> int:
    """`count_unread`, for the header of pages."""
    with resources.db.read_statement() as session:
        return count_unread(session)


def get_endpoint(session: Session, endpoint_id: str, *, for_update: bool = False) -> Endpoint:
    return EndpointNotFound.unless(
        session.get(Endpoint, endpoint_id, with_for_update=ROW_LOCK if for_update else None)
    )


def list_endpoints(
    session: Session, query: PageQuery, endpoint_filter: EndpointFilter
) -> PageRows[Endpoint]:
    """Endpoints, newest first."""
    conditions = match_columns((Endpoint.channel, endpoint_filter.channel))
    if endpoint_filter.disabled is not None:
        is_enabled = Endpoint.disabled_at.is_(None)
        conditions.append(~is_enabled if endpoint_filter.disabled else is_enabled)
    keys = [Endpoint.created_at, Endpoint.id]
    return select_page(session, select(Endpoint), keys=keys, query=query, conditions=conditions)


def has_summary_endpoints(session: Session) -> bool:
    """Return whether an endpoint receives the daily summary."""
    statement = select(Endpoint.id).where(Endpoint.daily_summary).limit(1)
    return session.scalar(statement) is not None


def list_summary_endpoints(session: Session) -> list[str]:
    """The IDs of the endpoints that receive the daily summary, in order; read in batches."""

    def read(last_id: str, row_count: int) -> Sequence[str]:
        statement = select(Endpoint.id).where(Endpoint.daily_summary, Endpoint.id > last_id)
        return session.scalars(statement.order_by(Endpoint.id).limit(row_count)).all()

    return list(chain.from_iterable(keyset_batches(read, str, "", SUMMARY_BATCH)))


def get_delivery(session: Session, delivery_id: str, *, for_update: bool = False) -> LoadedDelivery:
    """A delivery with its notification and endpoint.

    Locks:   with `for_update`, the endpoint, then the delivery.
    """
    delivery = session.get(Delivery, delivery_id)
    if delivery is None:
        raise DeliveryNotFound
    try:
        endpoint = get_endpoint(session, delivery.endpoint_id, for_update=for_update)
    except EndpointNotFound:  # deleted, and the delivery soon is too
        raise DeliveryNotFound from None
    if for_update:
        # The endpoint first, always in this order, else two jobs could deadlock. The refresh also
        # reads what changed while this transaction waited for the lock.
        session.refresh(delivery, with_for_update=ROW_LOCK)
    return LoadedDelivery(delivery, get_notification(session, delivery.notification_id), endpoint)


def find_delivery(session: Session, delivery_id: str) -> LoadedDelivery | None:
    """A delivery, locked as by `get_delivery`; None if its endpoint was deleted."""
    try:
        return get_delivery(session, delivery_id, for_update=True)
    except DeliveryNotFound:
        return None


def list_deliveries(
    session: Session, query: PageQuery, delivery_filter: DeliveryFilter
) -> PageRows[Delivery]:
    """Deliveries, newest first; with those of deleted endpoints, until a job has deleted them, unless
    the filter is about such an endpoint.
    """
    endpoint_id = delivery_filter.endpoint_id
    if endpoint_id is not None and session.get(Endpoint, endpoint_id) is None:
        return PageRows(rows=[], next_cursor=None)
    return select_page(
        session,
        select(Delivery),
        keys=[Delivery.created_at, Delivery.id],
        query=query,
        filters=[
            (Delivery.notification_id, one_value(delivery_filter.notification_id)),
            (Delivery.endpoint_id, one_value(endpoint_id)),
            (Delivery.status, delivery_filter.statuses),
        ],
    )


def list_titles(session: Session, deliveries: Sequence[Delivery]) -> dict[str, str]:
    """The titles of the messages of some deliveries, by the ID of the message."""
    ids = {delivery.notification_id for delivery in deliveries}
    statement = select(Notification.id, Notification.title).where(Notification.id.in_(ids))
    return {row.id: row.title for row in session.execute(statement)}


def endpoints_of(session: Session, deliveries: Sequence[Delivery]) -> dict[str, Endpoint]:
    """The endpoints of some deliveries, by id."""
    return get_endpoints_by_id(session, {delivery.endpoint_id for delivery in deliveries})


def get_endpoints_by_id(session: Session, ids: Iterable[str]) -> dict[str, Endpoint]:
    """The endpoints with these ids; unknown ids are left out."""
    endpoints = session.scalars(select(Endpoint).where(Endpoint.id.in_(list(ids))))
    return {endpoint.id: endpoint for endpoint in endpoints}


def get_endpoints_in_order(session: Session, ids: Sequence[str]) -> list[Endpoint]:
    """The endpoints with these ids, in this order; unknown ids are left out."""
    endpoints = get_endpoints_by_id(session, ids)
    return [endpoints[endpoint_id] for endpoint_id in ids if endpoint_id in endpoints]


def list_next_deliveries(
    session: Session, now: datetime | None, endpoint_ids: Sequence[str] | None = None
) -> list[str]:
    """The delivery of each endpoint, or of these endpoints, that is due the longest; of several with the
    same time the oldest.

    Endpoints that have a job, are paused or disabled are left out. `now` None is the transaction's time.
    """
    if endpoint_ids is None:
        endpoint_ids = session.scalars(_WAITING_ENDPOINTS).all()
    parameters = {"now": now, "endpoint_ids": list(endpoint_ids), "limit": MAX_DUE}
    return list(session.scalars(_NEXT_DELIVERIES, parameters))
