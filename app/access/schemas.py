"""API keys and the audit log on the wire."""

from datetime import datetime

from app.access.rules import RoleName
from app.core.schemas import Instant, ShortText, WireModel


class ApiKeyCreate(WireModel):
    """What a new key is for, and what it may do."""

    name: ShortText
    role: RoleName = "read"
    expires_at: Instant | None = None


class ApiKeyView(WireModel):
    """A key as everybody may see it: never its text."""

    id: str
    name: str
    role: RoleName
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class ApiKeyCreated(ApiKeyView):
    """A new key with its text, which is shown this once."""

    token: str


class AuditEntryView(WireModel):
    """One change: who did what, to what, with which fields; never their values."""

    seq: int
    at: datetime
    actor_type: str
    actor_id: str
    action: str
    resource_type: str
    resource_id: str | None
    outcome: str
    fields: list[str]
    method: str | None
    path: str | None
    request_id: str | None
