"""Tables of API keys, people, browser sessions, idempotency keys, the audit log and rate limits."""

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base
from mosaico.core.encryption import ENCRYPTED


class ApiKey(Base):
    """An API key; only the SHA-256 digest of its text is stored."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint("role IN ('read', 'run', 'admin')", name="role"),
        Index("ix_api_keys_created_at_id", "created_at", "id"),
        # The last one to expire, which decides whether another one may be revoked.
        Index(
            "ix_api_keys_active_role_expires_at",
            "role",
            "expires_at",
            postgresql_where=text("revoked_at IS NULL"),
        ),
        # Read at each start; few keys are of administrators.
        Index(
            "ix_api_keys_active_admins",
            "name",
            postgresql_where=text("role = 'admin' AND revoked_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]
    digest: Mapped[bytes]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    # Whose key it is: it stops working while the person is blocked.
    person_id: Mapped[str | None] = mapped_column(
        ForeignKey("people.id", ondelete="CASCADE"), index=True
    )
    # The IDs of the benchmarks that it sees; NULL for all.
    only: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class Person(Base):
    """Somebody who logged in at a provider or came through a trusted proxy; `issuer` and `subject` never change.

    `role` is that of the last login. A blocked person cannot log in.
    """

    __tablename__ = "people"
    __table_args__ = (
        CheckConstraint("role IN ('read', 'run', 'admin')", name="role"),
        UniqueConstraint("issuer", "subject"),
        Index("ix_people_created_at_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    issuer: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str]
    email: Mapped[str | None]
    role: Mapped[str]
    created_at: Mapped[datetime]
    last_login_at: Mapped[datetime]
    blocked_at: Mapped[datetime | None]
    only: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class BrowserSession(Base):
    """A browser that logged in with an API key or as a person; only the digest of its cookie is stored.

    `provider_session` identifies the session at the provider, which may end it.
    """

    __tablename__ = "browser_sessions"
    __table_args__ = (CheckConstraint("num_nonnulls(api_key_id, person_id) = 1", name="one_owner"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    api_key_id: Mapped[str | None] = mapped_column(
        ForeignKey("api_keys.id", ondelete="CASCADE"), index=True
    )
    person_id: Mapped[str | None] = mapped_column(
        ForeignKey("people.id", ondelete="CASCADE"), index=True
    )
    provider_session: Mapped[str | None] = mapped_column(index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class LoginLink(Base):
    """A link that logs a browser in once, as an API key; the first use deletes it."""

    __tablename__ = "login_links"

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    api_key_id: Mapped[str] = mapped_column(
        ForeignKey("api_keys.id", ondelete="CASCADE"), index=True
    )
    expires_at: Mapped[datetime] = mapped_column(index=True)


class IdempotencyKey(Base):
    """The response to one create request, written together with the created resource.

    `id` is the digest of API key, method, path and idempotency key, `fingerprint` the digest of
    the request, `response` the JSON body, encrypted because it may contain a new API key.
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
    """One change with its actor; written in the transaction of the change and never updated.

    `fields` are the names of the sent fields, never their values.
    """

    __tablename__ = "audit_log"
    __table_args__ = (
        # In the order of the list, so that a filter reads no more rows than a page has.
        Index("ix_audit_log_at_seq", "at", "seq"),
        Index("ix_audit_log_actor_id_at_seq", "actor_id", "at", "seq"),
        Index("ix_audit_log_action_at_seq", "action", "at", "seq"),
        Index("ix_audit_log_resource_type_at_seq", "resource_type", "at", "seq"),
        Index("ix_audit_log_resource_id_at_seq", "resource_id", "at", "seq"),
        Index("ix_audit_log_request_id", "request_id"),
        Index("ix_audit_log_refused", "at", "seq", postgresql_where=text("outcome = 'refused'")),
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
    """Number of requests of an API key in one minute, over all API processes."""

    __tablename__ = "rate_windows"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    api_key_id: Mapped[str] = mapped_column(primary_key=True)
    minute: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    request_count: Mapped[int]
