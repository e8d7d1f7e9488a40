"""Who is asking, and may they: one dependency per route declares the role that it needs."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import BackgroundTasks, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.access.keyring import KeyRing
from app.access.queries import KnownKey
from app.access.rules import RoleName, covers
from app.core.deps import resources
from app.core.errors import Forbidden, Unauthorized

CHALLENGE = {"WWW-Authenticate": "Bearer"}

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="ApiKey",
    description="An API key of this service, as `Authorization: Bearer <key>`.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API key that a request was sent with."""

    key_id: str
    role: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """The role that a route needs; as a dependency it lets through who has it.

    Sets: `request.state.caller`.
    Raises: `Unauthorized` (one answer for unknown, mistyped, expired and revoked keys),
    `Forbidden`, `DatabaseUnavailable`.
    Cost: one lookup by primary key, or none within a second of the last one.
    """

    role: RoleName

    def __call__(
        self, request: Request, credentials: Credentials, after: BackgroundTasks
    ) -> Caller:
        if credentials is None:
            raise Unauthorized(headers=CHALLENGE)
        ring = _key_ring(request)
        key = ring.find(credentials.credentials)
        if key is None:
            raise Unauthorized(
                "this API key is not valid: unknown, mistyped, expired or revoked;"
                " send another one, or ask an administrator for one",
                headers=CHALLENGE,
            )
        if ring.use_is_due(key.id):
            after.add_task(ring.note_use, key.id)
        _refuse_too_little(key, self.role)
        request.state.caller = Caller(key_id=key.id, role=key.role)
        return Caller(key_id=key.id, role=key.role)


def require(role: RoleName) -> Requirement:
    """The dependency of a route that needs a role: `dependencies=[Depends(require("run"))]`."""
    return Requirement(role)


def caller_of(request: Request) -> Caller:
    """The caller of a request whose route requires a role."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise RuntimeError(
            f"{request.method} {request.url.path} declares no role; add Depends(require(…))"
        )
    return caller


def _refuse_too_little(key: KnownKey, needed: RoleName) -> None:
    if not covers(key.role, needed):
        raise Forbidden(
            f"this needs an API key with the role {needed}, yours has the role {key.role};"
            " use another key, or ask an administrator for one"
        )


def _key_ring(request: Request) -> KeyRing:
    state = request.app.state
    ring = getattr(state, "key_ring", None)
    if not isinstance(ring, KeyRing):
        held = resources(request)
        ring = state.key_ring = KeyRing(held.db, held.clock)
    return ring
