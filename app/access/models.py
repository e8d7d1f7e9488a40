"""Tables of the keys that may call the service, of what they changed and of answers to repeat."""

from datetime import datetime

from sqlalchemy import CheckConstraint, Identity, Index, Text, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base
from app.core.encryption import ENCRYPTED


class ApiKey(Base):
    """A key that was given out; only the digest of its text is kept."""

    __tablename__ = "api_keys"
    __table_args__ = (CheckConstraint("role IN ('read', 'run', 'admin')", name="role"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]
    digest: Mapped[bytes]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class IdempotencyKey(Base):
    """The answer to one creating request, written together with what the request created.

    `id` is the digest of API key, method, path and the client's key; `fingerprint` that of the
    request itself; `answer` the JSON text of the body, encrypted (an answer may hold a new API key).
    """

    __tablename__ = "idempotency_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[str]
    method: Mapped[str]
    path: Mapped[str]
    fingerprint: Mapped[bytes]
    status: Mapped[int]
    location: Mapped[str | None]
    response: Mapped[str] = mapped_column(info=ENCRYPTED)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class AuditEntry(Base):
    """Who changed what; written in the transaction of the change, and never changed after it.

    `fields` are the names of what was sent, never its values.
    """

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_actor_id_seq", "actor_id", "seq"),
        Index("ix_audit_log_resource_type_resource_id_seq", "resource_type", "resource_id", "seq"),
    )

    seq: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    actor_type: Mapped[str]
    actor_id: Mapped[str]
    action: Mapped[str]
    resource_type: Mapped[str]
    resource_id: Mapped[str | None]
    outcome: Mapped[str]
    fields: Mapped[list[str]] = mapped_column(ARRAY(Text))
    method: Mapped[str | None]
    path: Mapped[str | None]
    request_id: Mapped[str | None]


class RateWindow(Base):
    """How many requests an API key has sent in one minute, over all API processes."""

    __tablename__ = "rate_windows"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    api_key_id: Mapped[str] = mapped_column(primary_key=True)
    minute: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    request_count: Mapped[int]
