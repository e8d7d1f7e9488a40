"""Who is asking, and may they: one dependency per route declares the role that it needs."""

from dataclasses import dataclass

from fastapi import BackgroundTasks, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param

from app.access.audit_middleware import witness
from app.access.keyring import KeyRing
from app.access.limits import MINUTE_S, FailureLimit, RequestLimit
from app.access.queries import KnownKey
from app.access.rules import RoleName, covers
from app.core.errors import Forbidden, Unauthorized
from app.core.problems import TooManyRequests
from app.core.resources import Resources
from app.core.web.deps import READING
from app.core.web.response_headers import add_header

RATE_LIMIT = "rate_limit"  # the option: requests a minute for each key, 0 for no limit
CHALLENGE = {"WWW-Authenticate": "Bearer"}

BEARER = HTTPBearer(description="An API key of this service, as `Authorization: Bearer <key>`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API key that a request was sent with."""

    key_id: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a process knows of those who ask; `requests` is None where nobody is limited."""

    ring: KeyRing
    failures: FailureLimit
    requests: RequestLimit | None


class Requirement(SecurityBase):
    """The role that a route needs; as a dependency it lets through who has it.

    It is the security scheme of its route too: one dependency to resolve, not two.

    Sets: `request.state.caller`, and the headers `RateLimit` and `RateLimit-Policy`.
    Raises: `Unauthorized` (one answer for unknown, mistyped, expired and revoked keys),
    `Forbidden`, `TooManyRequests`, `DatabaseUnavailable`.
    Cost: one lookup by primary key, or none within a second of the last one.
    """

    model = BEARER
    scheme_name = "ApiKey"

    def __init__(self, role: RoleName) -> None:
        self.role = role

    async def __call__(self, request: Request, after: BackgroundTasks) -> Caller:
        token = _token(request)
        # A route may need a role beside that of its router: the request is still one.
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None:
            caller = await _admitted(request, token, after)
        if not covers(caller.role, self.role):
            await run_in_threadpool(_record_refusal, request)
            raise Forbidden(
                f"this needs an API key with the role {self.role}, yours has the role"
                f" {caller.role}; use another key, or ask an administrator for one"
            )
        return caller


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


def _token(request: Request) -> str:
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(headers=CHALLENGE)
    return token


async def _admitted(request: Request, token: str, after: BackgroundTasks) -> Caller:
    """Who is asking, counted; what there is to note of it is noted after the answer.

    A thread is taken only when the database has to be asked.
    """
    gate = _gate(request)
    key = gate.ring.remembered(token)
    if key is None:
        key = await run_in_threadpool(_identified, gate, request, token)
    caller = Caller(key_id=key.id, role=key.role)
    request.state.caller = caller
    if gate.requests is not None:
        _count(gate.requests, request, key.id, after)
    if gate.ring.use_is_due(key.id):
        after.add_task(gate.ring.note_use, key.id)
    return caller


def _identified(gate: Gate, request: Request, token: str) -> KnownKey:
    """The key with this text.

    An address that was wrong too often is told to wait, whatever it sends, unless what it sends
    is right; and only what cannot be a guess is looked up at all. So nobody behind the same proxy
    is locked out, and nobody finds a key by trying.
    """
    address = request.client.host if request.client else None
    wait_s = gate.failures.wait_s(address)
    key = gate.ring.find(token) if not wait_s or gate.ring.is_no_guess(token) else None
    if key is not None:
        return key
    if wait_s:
        raise TooManyRequests(
            f"too many API keys from your address were not valid; wait {wait_s} s, then send a"
            " valid one",
            headers={"Retry-After": str(wait_s)},
        )
    gate.failures.note(address)
    raise Unauthorized(
        "this API key is not valid: unknown, mistyped, expired or revoked;"
        " send another one, or ask an administrator for one",
        headers=CHALLENGE,
    )


def _count(limit: RequestLimit, request: Request, key_id: str, after: BackgroundTasks) -> None:
    """Source: draft-ietf-httpapi-ratelimit-headers-10."""
    allowance = limit.take(key_id)
    left, resets_s = allowance.remaining, allowance.resets_s
    add_header(request.scope, "RateLimit-Policy", f'"minute";q={allowance.limit};w={MINUTE_S}')
    add_header(request.scope, "RateLimit", f'"minute";r={left};t={resets_s}')
    if allowance.exceeded:
        raise TooManyRequests(
            f"this API key has asked {allowance.limit} times within a minute; go on in"
            f" {resets_s} s, or have MOSAICO_RATE_LIMIT raised",
            headers={"Retry-After": str(resets_s)},
        )
    if limit.is_due(key_id):
        after.add_task(limit.share, key_id)


def _record_refusal(request: Request) -> None:
    if request.method in READING:
        return
    held: Resources = request.app.state.resources
    with held.db.begin() as session:
        witness(request, session, outcome="refused")


def _gate(request: Request) -> Gate:
    state = request.app.state
    gate = getattr(state, "gate", None)
    if not isinstance(gate, Gate):
        held: Resources = state.resources
        per_minute = int(held.options.get(RATE_LIMIT, "0"))
        gate = state.gate = Gate(
            ring=KeyRing(held.db, held.clock),
            failures=FailureLimit(),
            requests=RequestLimit(held.db, per_minute) if per_minute else None,
        )
    return gate
