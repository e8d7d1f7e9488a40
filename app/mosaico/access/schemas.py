"""Requests and responses of API keys and the audit log."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from mosaico.access.audit import ActorType, AuditOutcome
from mosaico.access.rules import RoleName
from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import Instant, ShortText, WireModel

# IDs of benchmarks.
Only = Annotated[list[ShortText] | None, Field(max_length=200)]


class ApiKeyView(WireModel):
    """An API key without its text."""

    id: str
    name: str
    role: RoleName
    created_at: datetime
    expires_at: datetime | None
    last_used_at: Annotated[datetime | None, SERVICE_MOVES]
    revoked_at: datetime | None
    person_id: str | None
    only: list[str] | None


class ApiKeyCreate(EditBody):
    """Name, role and expiry of a new API key; it stops working while its person is blocked."""

    shown_as: ClassVar = ApiKeyView

    name: ShortText
    role: RoleName = "read"
    expires_at: Instant | None = None
    person_id: ShortText | None = None
    only: Only = None


@patch_of
class ApiKeyPatch(EditBody):
    """The fields to change; null removes the expiry. The role of a key never changes."""

    shown_as: ClassVar = ApiKeyView

    name: ShortText
    expires_at: Instant | None = None


class ApiKeyCreated(ApiKeyView):
    """A new API key with its text, which is shown only once."""

    token: str


class PersonView(WireModel):
    """Somebody who logged in with the provider or through a proxy; `role` is that of the last login, with a limit at
    most `run`.
    """

    id: str
    name: str
    email: str | None
    issuer: str
    role: RoleName
    created_at: datetime
    last_login_at: Annotated[datetime, SERVICE_MOVES]
    blocked_at: datetime | None
    only: list[str] | None


@patch_of
class PersonPatch(EditBody):
    """Whether the access of a person is blocked, and the benchmarks that they see; null for all."""

    shown_as: ClassVar = PersonView

    blocked: bool
    only: Only


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
