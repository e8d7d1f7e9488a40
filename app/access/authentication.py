"""Authentication: who sends a request, decided before anything else of the request is read."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security.utils import get_authorization_scheme_param
from starlette.background import BackgroundTasks
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.key_cache import KeyCache
from app.access.queries import KeyIdentity
from app.access.rate_limits import MINUTE_S, FailureLimiter, RequestLimiter
from app.core.errors import AppError, Unauthorized
from app.core.problem_documents import TooManyRequests, on_app_error
from app.core.resources import Resources
from app.core.web.response_headers import add_header

RATE_LIMIT = "rate_limit"  # the option: requests a minute for each key, 0 for no limit
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API key that a request was sent with."""

    key_id: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControl:
    """The access state of a process; `requests` is None without a rate limit."""

    key_cache: KeyCache
    failures: FailureLimiter
    requests: RequestLimiter | None


class AuthenticationMiddleware:
    """Refuses requests without a valid API key before their path, parameters and body are checked.

    A stranger learns nothing from the checks, and the service reads no body of a stranger.
    `requires_key` selects the requests.

    Sets: `request.state.caller`, and the headers `RateLimit` and `RateLimit-Policy`.
    Responds with: 401 (the same for unknown, mistyped, expired and revoked keys), 429, 503.
    Cost: one lookup by primary key, none when the key was used within the last second.
    """

    def __init__(self, app: ASGIApp, *, requires_key: Callable[[Scope], bool]) -> None:
        self.app = app
        self.requires_key = requires_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.requires_key(scope):
            return await self.app(scope, receive, send)
        request, bookkeeping = Request(scope), BackgroundTasks()
        try:
            await _authenticate(request, bookkeeping)
        except AppError as error:
            response = await on_app_error(request, error)
            return await response(scope, receive, send)
        await self.app(scope, receive, send)
        # After the response: nobody has to wait for bookkeeping.
        return await bookkeeping()


def _read_token(request: Request) -> str:
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(headers=CHALLENGE)
    return token


async def _authenticate(request: Request, background_tasks: BackgroundTasks) -> None:
    """Identify and count the caller. Raises `Unauthorized`, `TooManyRequests`, `DatabaseUnavailable`.

    A cached key is checked on the event loop; only a database query takes a thread.
    """
    token, access = _read_token(request), _access_control(request)
    # On the event loop, without a thread: most requests come with a key that was used a moment ago.
    key = access.key_cache.get_cached(token)
    if key is None:
        key = await run_in_threadpool(_find_key, access, request, token)
    request.state.caller = Caller(key_id=key.id, role=key.role)
    if access.requests is not None:
        _count_request(access.requests, request, key.id, background_tasks)
    if access.key_cache.is_use_due(key.id):
        background_tasks.add_task(access.key_cache.record_use, key.id)


def _find_key(access: AccessControl, request: Request, token: str) -> KeyIdentity:
    """The key of a token. Raises `Unauthorized`, `TooManyRequests`.

    An address that sent too many invalid keys is refused for a while. During that time only tokens
    that cannot be guesses are looked up: valid callers behind the same proxy are not locked out,
    and guessing keys stays hopeless.
    """
    address = request.client.host if request.client else None
    wait_s = access.failures.retry_after_s(address)
    key = (
        access.key_cache.find_key(token)
        if not wait_s or access.key_cache.is_not_guessed(token)
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
            f"this API key has sent {status.limit} requests within a minute; continue in"
            f" {resets_s} s, or have MOSAICO_RATE_LIMIT raised",
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
            key_cache=KeyCache(resources.db, resources.clock),
            failures=FailureLimiter(),
            requests=RequestLimiter(resources.db, per_minute) if per_minute else None,
        )
    return control
