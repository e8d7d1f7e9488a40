"""Requests and responses of API keys and the audit log."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from mosaico.access.audit import ActorType, AuditOutcome
from mosaico.access.rules import RoleName
from mosaico.core.schemas import UNSET, Instant, ShortText, WireModel

# IDs of benchmarks.
Only = Annotated[list[ShortText] | None, Field(max_length=200)]


class ApiKeyCreate(WireModel):
    """Name, role and expiry of a new API key; it stops working while its person is blocked."""

    name: ShortText
    role: RoleName = "read"
    expires_at: Instant | None = None
    person_id: ShortText | None = None
    only: Only = None


class ApiKeyPatch(WireModel):
    """The fields to change; null removes the expiry. The role of a key never changes."""

    name: ShortText = UNSET
    expires_at: Instant | None = None


class ApiKeyView(WireModel):
    """An API key without its text."""

    id: str
    name: str
    role: RoleName
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    person_id: str | None
    only: list[str] | None


class ApiKeyCreated(ApiKeyView):
    """A new API key with its text, which is shown only once."""

    token: str


class PersonView(WireModel):
    """Somebody who logged in with the provider or through a proxy; `role` is that of the last login."""

    id: str
    name: str
    email: str | None
    issuer: str
    role: RoleName
    created_at: datetime
    last_login_at: datetime
    blocked_at: datetime | None
    only: list[str] | None


class PersonPatch(WireModel):
    """Whether the access of a person is blocked, and the benchmarks that they see; null for all."""

    blocked: bool = UNSET
    only: Only = UNSET


class AuditEntryView(WireModel):
    """One audit entry: actor, action, resource, and names of fields without their values."""

    seq: int
    at: datetime
    actor_type: ActorType
    actor_id: str
    actor_name: str | None = None
    action: str
    resource_type: str
    resource_id: str | None
    outcome: AuditOutcome
    fields: list[str]
    method: str | None
    path: str | None
    request_id: str | None
