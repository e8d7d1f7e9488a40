"""Authentication: who sends a request, decided before anything else of the request is read."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from fastapi.security.utils import get_authorization_scheme_param
from starlette.background import BackgroundTasks
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaico.access import sessions
from mosaico.access.audit import CallerType
from mosaico.access.key_finder import KeyFinder
from mosaico.access.login_rules import UNCLEAR, read_named
from mosaico.access.queries import CallerIdentity
from mosaico.access.rate_limits import MINUTE_S, FailureLimiter, RequestLimiter
from mosaico.access.rules import hash_token
from mosaico.core.acting import acting_as
from mosaico.core.errors import AppError, Unauthorized
from mosaico.core.problem_documents import TooManyRequests, on_app_error
from mosaico.core.resources import Resources
from mosaico.core.row_limits import limited_to
from mosaico.core.web.deps import SAFE_METHODS
from mosaico.core.web.forwarded_headers import is_from_proxy
from mosaico.core.web.request_body import never
from mosaico.core.web.request_origin import require_same_origin
from mosaico.core.web.response_headers import add_header

RATE_LIMIT = "rate_limit"  # the option: requests a minute for each key, 0 for no limit
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API key that a request was sent with, or the key or person that its browser logged in as.

    `key_id` is the ID of either. `session` is the digest of the browser session, `only` are the
    benchmarks that it sees; None for all.
    """

    key_id: str
    role: str
    type: CallerType = "key"
    only: tuple[str, ...] | None = None
    session: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControl:
    """The access state of a process; `requests` is None without a rate limit."""

    keys: KeyFinder
    failures: FailureLimiter
    requests: RequestLimiter | None


class AuthenticationMiddleware:
    """Refuses requests without a valid API key before their path, parameters and body are checked.

    A client without a key gets no information from the checks, and its body is not read.
    `requires_key` selects these requests. `accepts_key` selects those that may be sent without: the
    routes of pages declare their role themselves, so that a browser can be asked to log in.

    A browser sends the cookie of its session in the place of a key; below `/api/` only to read.

    Sets: `request.state.caller`, and the headers `RateLimit` and `RateLimit-Policy`.
    Responds with: 401 (the same for unknown, mistyped, expired and revoked keys), 429, 503.
    Cost: one lookup by primary key, none when the key was used within the last second.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requires_key: Callable[[Scope], bool],
        accepts_key: Callable[[Scope], bool] = never,
    ) -> None:
        self.app = app
        self.requires_key = requires_key
        self.accepts_key = accepts_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        is_required = self.requires_key(scope)
        if not is_required and not self.accepts_key(scope):
            return await self.app(scope, receive, send)
        request, bookkeeping = Request(scope, receive), BackgroundTasks()
        try:
            await _authenticate(request, bookkeeping, is_required=is_required)
        except AppError as error:
            response = await on_app_error(request, error)
            return await response(scope, receive, send)
        caller: Caller | None = getattr(request.state, "caller", None)
        with (
            limited_to(caller.only if caller else None),
            acting_as(caller.key_id if caller else None),
        ):
            await self.app(scope, receive, send)
        # After the response: nobody has to wait for bookkeeping.
        return await bookkeeping()


def _read_token(request: Request) -> str | None:
    """The key in the header `Authorization`; None without one."""
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    # The name of a scheme is case-insensitive (RFC 9110).
    return token if scheme.lower() == "bearer" and token else None


async def _authenticate(
    request: Request, background_tasks: BackgroundTasks, *, is_required: bool
) -> None:
    """Identify and count the caller. Raises `Unauthorized`, `TooManyRequests`, `DatabaseUnavailable`,
    `CrossSiteRequest`.
    """
    token, access = _read_token(request), _access_control(request)
    key = (
        await _find_session_caller(request)
        if token is None
        else await identify_token(request, token)
    )
    if key is None:
        if is_required:
            raise Unauthorized(headers=CHALLENGE)
        return
    # Identifies the browser session, so that its event streams end when it logs out. The token
    # itself is not kept.
    digest = hash_token(request.cookies[sessions.COOKIE]) if token is None else None
    request.state.caller = Caller(
        key_id=key.id, role=key.role, type=key.type, session=digest, only=key.only
    )
    if access.requests is not None:
        _count_request(access.requests, request, key.id, background_tasks)
    if access.keys.is_use_due(key.id):
        background_tasks.add_task(access.keys.record_use, key.id)


async def identify_token(request: Request, token: str) -> CallerIdentity:
    """The usable key of a token. Raises `Unauthorized`, `TooManyRequests`.

    An address that sent too many invalid keys is refused for a while. During that time only tokens
    that cannot be guesses are looked up: valid callers behind the same proxy are not locked out,
    and guessing keys stays hopeless.
    """
    access = _access_control(request)
    # On the event loop, without a thread: most requests come with a key that was used a moment ago.
    cached = access.keys.get_cached(token)
    if cached is not None:
        return cached
    address = request.client.host if request.client else None
    wait_s = access.failures.retry_after_s(address)
    # A limited request occupies neither a thread nor a connection.
    key = (
        await run_in_threadpool(access.keys.find_key, token)
        if not wait_s or access.keys.is_not_guessed(token)
        else None
    )
    if key is not None:
        return key
    # The address is blocked: the failure is not counted again, so that it ends in any case.
    if wait_s:
        raise TooManyRequests(
            f"too many API keys from your address were not valid; wait {wait_s} s, then send a"
            " valid one",
            headers={"Retry-After": str(wait_s)},
        )
    access.failures.record_failure(address)
    raise Unauthorized(
        "this API key is not valid: unknown, mistyped, expired or revoked;"
        " send another one, or ask an administrator for one",
        headers=CHALLENGE,
    )


def named_by_proxy(request: Request) -> str | None:
    """The person whom a trusted proxy names in MOSAICO_LOGIN_HEADER; None without one, `UNCLEAR` if it does not
    name one person.

    From any other client the header says nothing: everybody could send it.
    """
    resources: Resources = request.app.state.resources
    header = resources.login.header
    if header is None or not is_from_proxy(request.scope):
        return None
    values = [value for value in request.headers.getlist(header) if value.strip()]
    if not values:
        return None
    # A proxy that adds its header to one of the client names two people: nobody knows which is real.
    return read_named(values[0]) if len(values) == 1 else UNCLEAR


async def _find_session_caller(request: Request) -> CallerIdentity | None:
    """The key or person of the session in the cookie; None without a session. Raises `CrossSiteRequest`."""
    token = request.cookies.get(sessions.COOKIE)
    # Programs that change something send a key: a cookie would also be sent by other web sites.
    is_program = request.scope["path"].startswith("/api/")
    if token is None or (is_program and request.method not in SAFE_METHODS):
        return None
    require_same_origin(request)
    resources: Resources = request.app.state.resources

    def find() -> CallerIdentity | None:
        with resources.db.read_statement() as session:
            return sessions.find_session_owner(
                session, token, resources.clock(), named_by_proxy=named_by_proxy(request)
            )

    return await run_in_threadpool(find)


def _count_request(
    limiter: RequestLimiter, request: Request, key_id: str, background_tasks: BackgroundTasks
) -> None:
    """Source: draft-ietf-httpapi-ratelimit-headers-10."""
    status = limiter.count_request(key_id)
    remaining, resets_s = status.remaining, status.resets_s
    add_header(request.scope, "RateLimit-Policy", f'"minute";q={status.limit};w={MINUTE_S}')
    add_header(request.scope, "RateLimit", f'"minute";r={remaining};t={resets_s}')
    if status.exceeded:
        raise TooManyRequests(
            f"this API key has sent {status.limit} requests within a minute; wait "
            f"{resets_s} s, or ask the operator to raise MOSAICO_RATE_LIMIT",
            headers={"Retry-After": str(resets_s)},
        )
    if limiter.is_sync_due(key_id):
        background_tasks.add_task(limiter.sync, key_id)


def _access_control(request: Request) -> AccessControl:
    state = request.app.state
    control = getattr(state, "access_control", None)
    if not isinstance(control, AccessControl):
        resources: Resources = state.resources
        per_minute = int(resources.options.get(RATE_LIMIT, "0"))
        control = state.access_control = AccessControl(
            keys=KeyFinder(resources.db, resources.clock),
            failures=FailureLimiter(),
            requests=RequestLimiter(resources.db, per_minute) if per_minute else None,
        )
    return control
