"""Requests and responses of API keys and the audit log."""

from datetime import datetime
from typing import Annotated, ClassVar

from mosaico.access.audit import ActorType, AuditOutcome
from mosaico.access.rules import RoleName
from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import Instant, ShortText, WireModel


class ApiKeyView(WireModel):
    """An API key without its text."""

    id: str
    name: str
    role: RoleName
    created_at: datetime
    expires_at: datetime | None
    last_used_at: Annotated[datetime | None, SERVICE_MOVES]
    revoked_at: datetime | None


class ApiKeyCreate(EditBody):
    """Name, role and expiry of a new API key."""

    shown_as: ClassVar = ApiKeyView

    name: ShortText
    role: RoleName = "read"
    expires_at: Instant | None = None


@patch_of
class ApiKeyPatch(EditBody):
    """The fields to change; null removes the expiry. The role of a key never changes."""

    shown_as: ClassVar = ApiKeyView

    name: ShortText
    expires_at: Instant | None = None


class ApiKeyCreated(ApiKeyView):
    """A new API key with its text, which is shown only once."""

    token: str


class AuditEntryView(WireModel):
    """One audit entry: actor, action, resource, and names of fields without their values."""

    seq: int
    at: datetime
    actor_type: ActorType
    actor_id: str
    action: str
    resource_type: str
    resource_id: str | None
    outcome: AuditOutcome
    fields: list[str]
    method: str | None
    path: str | None
    request_id: str | None
