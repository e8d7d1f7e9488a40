"""Tables of the keys that may call the service and of the requests already answered."""

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base


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
    request itself; `answer` the JSON text of the body, sealed (an answer may hold a new API key).
    """

    __tablename__ = "idempotency_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[str]
    method: Mapped[str]
    path: Mapped[str]
    fingerprint: Mapped[bytes]
    status: Mapped[int]
    location: Mapped[str | None]
    answer: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
