"""Calls of a provider's SDK: which failures are tried again, and when.

The SDKs' own retries are off: they know neither quotas nor our limits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from app.core.errors import AppError
from app.core.http.client import redact_credentials
from app.core.http.network_policy import RefusedAddress
from app.core.http.retry import parse_retry_after
from app.llm.conversation import LlmError

T = TypeVar("T")

CONNECT_S: Final = 15.0
ATTEMPT_TIMEOUT_S: Final = 300.0
WAITS_S: Final = (2.0, 4.0, 8.0, 16.0)
LONGEST_WAIT_S: Final = 120.0
SHOWN: Final = 300  # characters of what a server says

_FINAL_STATUS: Final = frozenset({401, 402, 403})
_FINAL_WORDS: Final = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "exceeded your current quota",
)
_AGAIN: Final = frozenset({408, 409, 429})
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_NOT_FOUND: Final = 404


class StatusError(Protocol):
    """What both SDKs raise for an answer that is an error."""

    status_code: int
    message: str

    @property
    def response(self) -> "HasHeaders": ...


class HasHeaders(Protocol):
    """An answer with its headers."""

    @property
    def headers(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkErrors:
    """The exceptions of one SDK: an answer that is an error, no answer, anything else."""

    status: type[Exception]
    connection: type[Exception]
    any: type[Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """One failed call; `wait_s` is what the server asks for, None when it asks for nothing."""

    reason: str
    again: bool
    final: bool = False
    wait_s: float | None = None


@dataclass(slots=True)
class RetryStatus:
    """How the provider answers one attempt; `failing` is why the call under way had to be tried
    again, None while all is well.
    """

    retry_reason: str | None = None


_CONTACT: Final[ContextVar[RetryStatus]] = ContextVar("contact")


@contextmanager
def track_retries() -> Iterator[RetryStatus]:
    """What the calls of this block, and of nothing beside it, meet."""
    contact = RetryStatus()
    token = _CONTACT.set(contact)
    try:
        yield contact
    finally:
        _CONTACT.reset(token)


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    errors: SdkErrors,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """The answer of a call, tried up to five times, 300 s each. Raises LlmFailure."""
    contact = _CONTACT.get(RetryStatus())
    for wait_s in (*WAITS_S, None):
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                answer = await call()
        except TimeoutError:
            failed = Failed(reason=f"no answer within {ATTEMPT_TIMEOUT_S:g} s", again=True)
        except (errors.any, AppError) as error:
            failed = failure_of(error, errors)
        else:
            contact.retry_reason = None
            return answer
        if not failed.again or wait_s is None:
            raise LlmError(failed.reason, final=failed.final)
        contact.retry_reason = failed.reason
        await sleep(wait_s if failed.wait_s is None else min(failed.wait_s, LONGEST_WAIT_S))
    raise AssertionError("the last wait is None")


def failure_of(error: Exception, errors: SdkErrors) -> Failed:
    """What an exception of an SDK calls for."""
    # Our own guard says the same every time; some SDKs wrap what it raises.
    guard = error if isinstance(error, AppError) else error.__cause__
    if isinstance(guard, AppError):
        refused = isinstance(guard, RefusedAddress)
        return Failed(reason=guard.detail[:SHOWN], again=False, final=refused)
    said = _masked(" ".join(f"{error} {getattr(error, 'body', None) or ''}".split()), error)[:SHOWN]
    if isinstance(error, errors.status):
        return _of_status(error, said)  # type: ignore[arg-type]
    if isinstance(error, errors.connection):
        cause = error.__cause__
        return Failed(reason=f"no answer: {cause or said}"[:SHOWN], again=True)
    return Failed(reason=f"the answer cannot be read: {said}", again=True)


def _masked(said: str, error: Exception) -> str:
    """What a server said, without the key, should it repeat that."""
    request = getattr(error, "request", None)
    return redact_credentials(said, request) if request is not None else said


def _of_status(error: StatusError, said: str) -> Failed:
    status = error.status_code
    spent = status in (400, _TOO_MANY) and any(word in said.lower() for word in _FINAL_WORDS)
    if status in _FINAL_STATUS or spent:
        return Failed(reason=f"{status}: {said}", again=False, final=True)
    if status == _NOT_FOUND:
        said = f"{said or 'not found'} (is the model's name right, and the address?)"
        return Failed(reason=f"{status}: {said}", again=False, final=True)
    return Failed(
        reason=f"{status}: {said}",
        again=status in _AGAIN or status >= _SERVER_ERROR,
        wait_s=parse_retry_after(error.response.headers.get("retry-after")),
    )
