"""Tables of notifications: messages, endpoints and deliveries."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    TypeDecorator,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base
from mosaico.core.encryption import ENCRYPTED
from mosaico.notifications.types import NotificationMessage


class MessageJson(TypeDecorator[NotificationMessage]):
    """A message in a `jsonb` column."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: NotificationMessage | None, dialect: Dialect) -> Any:
        del dialect
        return None if value is None else value.to_document()

    def process_result_value(self, value: Any, dialect: Dialect) -> NotificationMessage | None:
        """Raises: `ValueError` for a message of another layout."""
        del dialect
        return None if value is None else NotificationMessage.from_document(value)


class Notification(Base):
    """A published message, which its deliveries send.

    `message` is stored with the version of its layout. A second message with the same `dedup_key` is not
    published. A message that is not `in_inbox` repeats a part of another message that is.
    """

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_created_at_id", "created_at", "id"),
        Index(
            "ix_notifications_unread",
            "created_at",
            "id",
            postgresql_where=text("read_at IS NULL AND in_inbox"),
        ),
        Index(
            "ix_notifications_read",
            "created_at",
            "id",
            postgresql_where=text("read_at IS NOT NULL AND in_inbox"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    severity: Mapped[str]
    title: Mapped[str]
    message: Mapped[NotificationMessage] = mapped_column(MessageJson)
    dedup_key: Mapped[str | None] = mapped_column(unique=True)
    in_inbox: Mapped[bool] = mapped_column(Boolean, server_default="true")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    read_at: Mapped[datetime | None]


class Endpoint(Base):
    """A destination of messages: the recipient of a channel, with the state of its circuit breaker.

    `address` is the encrypted recipient (None if its master key was lost), `recipient` its redacted
    form and `recipient_hash` its unique key. Deliveries to the same `host` are sent one after the
    other. `first_failed_at` is the first failure since the last success. `slow_count` is the number
    of slow attempts in a row: if it is not 0, deliveries share one job with those of all slow
    endpoints. No attempt is made before `paused_until`. `secret` and `previous_secret` are
    encrypted; the previous one signs too until `previous_expires_at`.
    """

    __tablename__ = "endpoints"
    __table_args__ = (
        UniqueConstraint("channel", "recipient_hash"),
        Index("ix_endpoints_created_at_id", "created_at", "id"),
        # What the page of the system names.
        Index("ix_endpoints_disabled", "id", postgresql_where=text("disabled_at IS NOT NULL")),
        Index("ix_endpoints_failing", "id", postgresql_where=text("first_failed_at IS NOT NULL")),
        # Asked each minute.
        Index("ix_endpoints_daily_summary", "id", postgresql_where=text("daily_summary")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str]
    recipient: Mapped[str]
    address: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    recipient_hash: Mapped[str]
    host: Mapped[str]
    secret: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    previous_secret: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    previous_expires_at: Mapped[datetime | None]
    daily_summary: Mapped[bool] = mapped_column(Boolean, server_default="false")
    slow_count: Mapped[int] = mapped_column(Integer, server_default="0")
    paused_until: Mapped[datetime | None]
    first_failed_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Delivery(Base):
    """The delivery of one notification to one endpoint.

    The job `notifications.drop_deliveries` deletes the rows of a deleted endpoint.
    `attempts` counts the attempts of the current retry schedule. `fencing_token` grows with every
    attempt and every redelivery: a job with an older token does nothing. `due_at` is set while a
    delivery waits for its next attempt; a PENDING delivery without it has a job.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("notification_id", "endpoint_id"),
        Index("ix_deliveries_created_at_id", "created_at", "id"),
        Index("ix_deliveries_status_created_at_id", "status", "created_at", "id"),
        Index("ix_deliveries_endpoint_id_created_at_id", "endpoint_id", "created_at", "id"),
        Index(
            "ix_deliveries_pending",
            "endpoint_id",
            "due_at",
            "id",
            postgresql_where=text("status = 'PENDING'"),
        ),
        Index("ix_deliveries_held", "endpoint_id", "id", postgresql_where=text("status = 'HELD'")),
        Index(
            "ix_deliveries_with_job",
            "endpoint_id",
            postgresql_where=text("status = 'PENDING' AND due_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    notification_id: Mapped[str] = mapped_column(ForeignKey("notifications.id", ondelete="CASCADE"))
    endpoint_id: Mapped[str]
    status: Mapped[str]
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    fencing_token: Mapped[int] = mapped_column(Integer, server_default="0")
    detail: Mapped[str | None]
    due_at: Mapped[datetime | None]
    tried_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
