from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base
from app.core.encryption import ENCRYPTED


class Notification(Base):
    """A message of the inbox, which is also what its deliveries bring.

    `message` is a `types.Message` as JSON. While a notification has a `once_key`, the same thing
    is not told again. One that is not `listed` is no message of the inbox: what it tells is part of
    one that is.
    """

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_created_at_id", "created_at", "id"),
        Index(
            "ix_notifications_unread", "created_at", "id", postgresql_where=text("read_at IS NULL")
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    severity: Mapped[str]
    title: Mapped[str]
    message: Mapped[dict[str, Any]]
    once_key: Mapped[str | None] = mapped_column(unique=True)
    listed: Mapped[bool] = mapped_column(Boolean, server_default="true")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    read_at: Mapped[datetime | None]


class Endpoint(Base):
    """Where messages of a channel go: a recipient, and how it has answered lately.

    `address` is the recipient, sealed; None once it was given up with a lost master key. What tells
    it apart is `digest`, what may be shown of it `recipient`, and what it shares with others `host`.
    `failing_since` is the first failure after the last success. `slow_tries` counts those that took
    long, one after the other: while there are any, nothing is sent beside what goes to other slow
    endpoints, and nothing at all before `rests_until`. Both secrets are sealed; the earlier one
    signs, too, until it ends.
    """

    __tablename__ = "endpoints"
    __table_args__ = (
        UniqueConstraint("channel", "digest"),
        Index("ix_endpoints_created_at_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str]
    recipient: Mapped[str]
    address: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    digest: Mapped[str]
    host: Mapped[str]
    secret: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    earlier_secret: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    earlier_until: Mapped[datetime | None]
    daily_summary: Mapped[bool] = mapped_column(Boolean, server_default="false")
    slow_tries: Mapped[int] = mapped_column(Integer, server_default="0")
    rests_until: Mapped[datetime | None]
    failing_since: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Delivery(Base):
    """One notification on its way to one endpoint.

    `attempts` counts the tries of the retry schedule, `round` all that were ever begun: it fences
    the one that is under way. `due_at` is set while a delivery waits for its next try, or for its
    turn; without it, one that is PENDING has a job.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("notification_id", "endpoint_id"),
        Index("ix_deliveries_created_at_id", "created_at", "id"),
        Index("ix_deliveries_pending", "endpoint_id", postgresql_where=text("status = 'PENDING'")),
        Index("ix_deliveries_due_at", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    notification_id: Mapped[str] = mapped_column(ForeignKey("notifications.id", ondelete="CASCADE"))
    endpoint_id: Mapped[str] = mapped_column(
        ForeignKey("endpoints.id", ondelete="CASCADE"), index=True
    )
    status: Mapped[str]
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    round: Mapped[int] = mapped_column(Integer, server_default="0")
    detail: Mapped[str | None]
    due_at: Mapped[datetime | None]
    tried_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
