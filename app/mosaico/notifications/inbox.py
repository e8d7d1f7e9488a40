"""Writes of the inbox: messages are read, and are deleted when they are old."""

from datetime import datetime

from sqlalchemy import exists, select, tuple_, update
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import BATCH_ROWS, delete_batch
from mosaico.core.db import Database
from mosaico.core.defaults import KEEP_NOTIFICATIONS
from mosaico.core.postgres_notify import notify_streams
from mosaico.notifications import queries
from mosaico.notifications.models import Delivery, Notification
from mosaico.notifications.rules import DeliveryStatus

INBOX = "notifications"
READ_BATCH = 500
PURGE_BATCH = 250


def set_read_at(session: Session, notification_id: str, read_at: datetime | None) -> Notification:
    """Mark a notification as read at a time, or as unread; the first time of reading stays."""
    notification = queries.get_notification(session, notification_id, for_update=True)
    # Two people may read one message; the first time is the informative one.
    if read_at is None or notification.read_at is None:
        notification.read_at = read_at
    session.flush()
    announce_inbox(session)
    return notification


def mark_all_read(db: Database, now: datetime) -> None:
    """Mark the messages of the inbox until `now` as read, in batches with transactions of their own.

    An interrupted call has marked the newest ones; a repeated one continues.
    """
    marked = READ_BATCH
    while marked == READ_BATCH:
        with db.begin() as session:
            marked = _mark_some_read(session, now)


def _mark_some_read(session: Session, now: datetime) -> int:
    unread = (
        select(Notification.id)
        .where(
            Notification.read_at.is_(None), Notification.in_inbox, Notification.created_at <= now
        )
        .order_by(Notification.created_at.desc(), Notification.id.desc())
        .limit(READ_BATCH)
        # Messages that another request is marking need no second mark, and no wait.
        .with_for_update(skip_locked=True)
    )
    marked = update(Notification).where(Notification.id.in_(unread)).values(read_at=now)
    statement = marked.returning(Notification.id).execution_options(synchronize_session=False)
    return len(session.scalars(statement).all())


def announce_inbox(session: Session) -> None:
    """Notify the event streams of the inbox, when this transaction ends, that it has changed."""
    notify_streams(session, INBOX)


def delete_old_notifications(session: Session, now: datetime) -> int:
    """Delete a batch of the notifications older than `KEEP_NOTIFICATIONS` that have no pending delivery, or of their
    deliveries.

    Returns: the number deleted; 0 if nothing is left.
    """
    # A pending delivery needs the message; HELD ones of a disabled endpoint may expire with it.
    is_pending = exists().where(
        Delivery.notification_id == Notification.id, Delivery.status == DeliveryStatus.PENDING
    )
    columns = (Notification.created_at, Notification.id)
    oldest_first = (
        select(*columns, is_pending.label("is_pending"))
        .where(Notification.created_at < now - KEEP_NOTIFICATIONS)
        # By columns: PostgreSQL finds no index for the order of a row value, and sorts the table.
        .order_by(*columns)
        .limit(PURGE_BATCH)
    )
    page = session.execute(oldest_first).all()
    # Pending ones are few at this age, but the purge must get past them.
    while page and all(row.is_pending for row in page):
        after = tuple_(*columns) > tuple_(page[-1].created_at, page[-1].id)
        page = session.execute(oldest_first.where(after)).all()
    expired_ids = [row.id for row in page if not row.is_pending]
    # First: a message may have gone to thousands of endpoints, which is too much for a cascade.
    deleted = delete_batch(session, Delivery, Delivery.notification_id.in_(expired_ids))
    if deleted < BATCH_ROWS:
        deleted += delete_batch(session, Notification, Notification.id.in_(expired_ids))
    return deleted
