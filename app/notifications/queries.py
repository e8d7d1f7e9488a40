from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from app.core.errors import NotFound
from app.core.keyset import PageQuery, PageRows, select_page
from app.notifications.models import Delivery, Endpoint, Notification
from app.notifications.rules import DeliveryStatus

DUE_AT_ONCE = 200

# What refers to a row may be written beside it: a delivery while its endpoint is being told of.
LOCK = {"key_share": True}


class NotificationNotFound(NotFound):
    """There is no notification with this id; GET /api/v1/notifications lists those there are."""

    code = "notification-not-found"


class DeliveryNotFound(NotFound):
    """There is no delivery with this id; GET /api/v1/deliveries lists those there are."""

    code = "delivery-not-found"


class EndpointNotFound(NotFound):
    """There is no endpoint with this id; GET /api/v1/endpoints lists those there are."""

    code = "endpoint-not-found"


class Sending(NamedTuple):
    """A delivery with what it brings and where to."""

    delivery: Delivery
    notification: Notification
    endpoint: Endpoint


def get_notification(
    session: Session, notification_id: str, *, for_update: bool = False
) -> Notification:
    found = session.get(Notification, notification_id, with_for_update=LOCK if for_update else None)
    if found is None:
        raise NotificationNotFound
    return found


def list_notifications(
    session: Session, query: PageQuery, *, unread: bool | None = None
) -> PageRows[Notification]:
    statement = select(Notification).where(Notification.listed)
    if unread is not None:
        is_unread = Notification.read_at.is_(None)
        statement = statement.where(is_unread if unread else ~is_unread)
    keys = [Notification.created_at, Notification.id]
    return select_page(session, statement, keys=keys, query=query)


def count_unread(session: Session) -> int:
    statement = select(func.count()).where(Notification.read_at.is_(None), Notification.listed)
    return session.scalar(statement) or 0


def get_endpoint(session: Session, endpoint_id: str, *, for_update: bool = False) -> Endpoint:
    found = session.get(Endpoint, endpoint_id, with_for_update=LOCK if for_update else None)
    if found is None:
        raise EndpointNotFound
    return found


def list_endpoints(
    session: Session,
    query: PageQuery,
    *,
    channel: str | None = None,
    disabled: bool | None = None,
) -> PageRows[Endpoint]:
    statement = select(Endpoint)
    if channel is not None:
        statement = statement.where(Endpoint.channel == channel)
    if disabled is not None:
        is_enabled = Endpoint.disabled_at.is_(None)
        statement = statement.where(~is_enabled if disabled else is_enabled)
    return select_page(session, statement, keys=[Endpoint.created_at, Endpoint.id], query=query)


def summary_endpoints(session: Session) -> list[str]:
    """Who asks for the daily summary, by id."""
    statement = select(Endpoint.id).where(Endpoint.daily_summary)
    return list(session.scalars(statement.order_by(Endpoint.id)))


def get_sending(session: Session, delivery_id: str, *, for_update: bool = False) -> Sending:
    """Locks:   with `for_update` the endpoint, then the delivery."""
    delivery = session.get(Delivery, delivery_id)
    if delivery is None:
        raise DeliveryNotFound
    endpoint = get_endpoint(session, delivery.endpoint_id, for_update=for_update)
    if for_update:
        session.refresh(delivery, with_for_update=LOCK)
    return Sending(delivery, get_notification(session, delivery.notification_id), endpoint)


def list_deliveries(
    session: Session,
    query: PageQuery,
    *,
    status: DeliveryStatus | None = None,
    notification_id: str | None = None,
    endpoint_id: str | None = None,
) -> PageRows[Delivery]:
    statement = select(Delivery)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    if notification_id is not None:
        statement = statement.where(Delivery.notification_id == notification_id)
    if endpoint_id is not None:
        statement = statement.where(Delivery.endpoint_id == endpoint_id)
    return select_page(session, statement, keys=[Delivery.created_at, Delivery.id], query=query)


def endpoints_of(session: Session, deliveries: Sequence[Delivery]) -> dict[str, Endpoint]:
    """The endpoints of some deliveries, by id."""
    return endpoints_by_id(session, {delivery.endpoint_id for delivery in deliveries})


def endpoints_by_id(session: Session, ids: Iterable[str]) -> dict[str, Endpoint]:
    """Those of these endpoints that there are."""
    found = session.scalars(select(Endpoint).where(Endpoint.id.in_(list(ids))))
    return {endpoint.id: endpoint for endpoint in found}


def endpoints_in_order(session: Session, ids: Sequence[str]) -> list[Endpoint]:
    """Those of these endpoints that there are, in this order."""
    found = endpoints_by_id(session, ids)
    return [found[each] for each in ids if each in found]


def next_deliveries(
    session: Session, now: datetime | None, endpoint_ids: Sequence[str] | None = None
) -> list[str]:
    """The delivery that is next for each of these endpoints (or of all): the oldest that is due.

    None for an endpoint that has a job, or rests. `now` None is the time of the transaction.
    """
    at = func.now() if now is None else now
    with_job = aliased(Delivery)
    has_job = exists().where(
        with_job.endpoint_id == Delivery.endpoint_id,
        with_job.status == DeliveryStatus.PENDING,
        with_job.due_at.is_(None),
    )
    statement = (
        select(func.min(Delivery.id))
        .join(Endpoint, Endpoint.id == Delivery.endpoint_id)
        .where(
            Delivery.due_at <= at,
            or_(Endpoint.rests_until.is_(None), Endpoint.rests_until <= at),
            ~has_job,
        )
        .group_by(Delivery.endpoint_id)
        .limit(DUE_AT_ONCE)
    )
    if endpoint_ids is not None:
        statement = statement.where(Delivery.endpoint_id.in_(endpoint_ids))
    return list(session.scalars(statement))
