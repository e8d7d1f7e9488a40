"""Calls a model through the SDK of its provider: all that does not depend on the wire format."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import httpx2

from mosaico.core.errors import AppError
from mosaico.core.http.async_client import ClosingAsyncClient
from mosaico.core.http.client import redact_credentials
from mosaico.core.http.retry import parse_retry_after
from mosaico.core.http.transport import is_untrusted_certificate, tls_context
from mosaico.core.network_policy import RefusedAddress
from mosaico.llm.conversation import ChatMessage, Tool, Turn, TurnSettings
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.reported_error import describe_error, kind_of_error
from mosaico.llm.response_reader import JSON, read_turn, unreadable
from mosaico.llm.retry import ATTEMPT_TIMEOUT_S, call_with_retries

T = TypeVar("T")

# Separate from the timeout of an attempt: a server that does not accept connections will not answer
# after minutes, either.
CONNECT_TIMEOUT_S: Final = 15.0
MAX_REASON_CHARS: Final = 300


class ProviderAccess(NamedTuple):
    """A model server and the HTTP client for it.

    Without a client the network policy does not apply: on the command line the address is the
    choice of its user.
    """

    api_key: str
    base_url: str | None
    http: httpx2.AsyncClient | None

    def options(self, timeout_s: float = ATTEMPT_TIMEOUT_S) -> dict[str, Any]:
        """Arguments of both SDKs' clients.

        No retries, because `call_with_retries` decides, and no redirects, because the API key
        would follow them.
        """
        return {
            "api_key": self.api_key,
            "base_url": self.base_url,
            "max_retries": 0,
            "timeout": httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            "http_client": self.http
            or ClosingAsyncClient(follow_redirects=False, verify=tls_context()),
        }


class TurnRequest(NamedTuple):
    """The request for one turn, independent of the wire format."""

    model: str
    settings: TurnSettings
    system: str
    messages: Sequence[ChatMessage]
    tools: Sequence[Tool]


class RawResponse(Protocol):
    """A response of an SDK before it is parsed."""

    @property
    def http_response(self) -> httpx2.Response: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkErrors:
    """The exceptions of one SDK: an error status, no response, anything else."""

    status: type[Exception]
    connection: type[Exception]
    any: type[Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkLlm:
    """A model behind an SDK; `write` and `read` translate to and from its wire format."""

    provider: str
    model: str
    settings: TurnSettings
    send: Callable[..., Awaitable[RawResponse]]
    errors: SdkErrors
    write: Callable[[TurnRequest], dict[str, Any]]
    read: Callable[[JSON], Turn]
    close: Callable[[], Coroutine[Any, Any, None]]

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the model. Raises: LlmError."""
        body = self.write(TurnRequest(self.model, self.settings, system, messages, tools))

        async def attempt() -> Turn:
            response = await call_sdk(lambda: self.send(**body), self.errors, ATTEMPT_TIMEOUT_S)
            return read_turn(response.http_response.content, self.read)

        return await call_with_retries(attempt)


async def call_sdk(call: Callable[[], Awaitable[T]], errors: SdkErrors, timeout_s: float) -> T:
    """The response of one attempt. Raises: LlmError."""
    try:
        # The SDK's own timeout restarts with every byte that arrives; this one does not.
        async with asyncio.timeout(timeout_s):
            return await call()
    except TimeoutError:
        reason = f"no response within {timeout_s:g} s"
        raise LlmError(reason, kind=LlmErrorKind.TIMEOUT) from None
    except (errors.any, AppError) as error:
        raise translate_error(error, errors) from error


def translate_error(error: Exception, errors: SdkErrors) -> LlmError:
    """The error of our hierarchy for an exception of an SDK or of our HTTP client."""
    # The SDKs wrap what our HTTP client raises.
    blocked = error if isinstance(error, AppError) else error.__cause__
    if isinstance(blocked, AppError):
        refused = isinstance(blocked, RefusedAddress)
        kind = LlmErrorKind.REFUSED_ADDRESS if refused else LlmErrorKind.REJECTED
        return LlmError(blocked.detail[:MAX_REASON_CHARS], kind=kind)
    if isinstance(error, errors.status):
        # The exception types of the SDKs have this attribute in common, but no common base class.
        return error_of_response(error.response)  # type: ignore[attr-defined] # of both SDKs
    if isinstance(error, errors.connection):
        return _connection_error(error)
    return unreadable(_masked(str(error), error)[:MAX_REASON_CHARS])


def error_of_response(response: httpx2.Response) -> LlmError:
    """The error for a response with an error status."""
    status, message = response.status_code, _error_message(response)
    kind = LlmErrorKind.REDIRECTED if response.is_redirect else kind_of_error(status, message)
    if kind is LlmErrorKind.NOT_FOUND:
        # A 404 of a model server has both causes, and servers rarely say which.
        message = f"{message or 'not found'} (check the model name and the address)"
    return LlmError(
        f"{status}: {message[:MAX_REASON_CHARS]}" if message else str(status),
        kind=kind,
        status=status,
        retry_after_s=_wait_of(response.headers),
    )


def _connection_error(error: Exception) -> LlmError:
    cause = error.__cause__ or error
    reason = f"no response: {_masked(str(cause) or type(cause).__name__, error)}"[:MAX_REASON_CHARS]
    if isinstance(cause, httpx2.DecodingError):
        return unreadable(str(cause)[:MAX_REASON_CHARS])
    # Checked before the timeout: a retry would only repeat the handshake.
    if is_untrusted_certificate(error):  # the same in every attempt
        return LlmError(reason, kind=LlmErrorKind.NOT_FOUND)
    timed_out = isinstance(cause, httpx2.ReadTimeout)
    return LlmError(reason, kind=LlmErrorKind.TIMEOUT if timed_out else LlmErrorKind.UNREACHABLE)


def _error_message(response: httpx2.Response) -> str:
    """The message and the codes of the server, without the API key; empty for an HTML page."""
    # Some servers repeat the rejected key in the message, which is stored with the run and shown.
    text = redact_credentials(response.text, response.request).strip()
    try:
        return describe_error(json.loads(text))
    # RecursionError: a JSON text of thousands of brackets.
    except (ValueError, RecursionError):
        # The error page of a proxy says nothing that its status does not.
        return "" if text.startswith("<") else " ".join(text.split())


def _wait_of(headers: httpx2.Headers) -> float | None:
    """The wait that a server asks for, in seconds; both providers also send milliseconds."""
    milliseconds = headers.get("retry-after-ms", "")
    if milliseconds.isdecimal():
        return int(milliseconds) / 1000
    return parse_retry_after(headers.get("retry-after"))


def _masked(text: str, error: Exception) -> str:
    """The text without the API key, in case the server repeats it."""
    request = getattr(error, "request", None)
    return redact_credentials(" ".join(text.split()), request) if request is not None else text
