"""What can go wrong with a server of models, and what users are told about it.

Errors of all requests, which end the step that asks:

    LlmNotConfigured     no address of a server, or no model
    LlmAuth              the key is wrong
    LlmQuota             the account has nothing left
    LlmNotFound          no such model, or no such API at this address
    LlmRedirected
    LlmUnavailable       nobody answers; the step is tried again later

`NoAnswer` is the failure of one request; others may succeed.
"""

import json
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

import httpx

from app.core.errors import Invalid, Unavailable
from app.core.http.client import redact_credentials
from app.core.http.retry import parse_retry_after
from app.core.http.transport import OversizedResponse, is_untrusted_certificate

SHOWN_CHARS: Final = 200


class LlmNotConfigured(Invalid):
    """A metric asks a model, and no server of models is configured; set MOSAICO_LLM_BASE_URL and a
    model, or take the metric out of the benchmark.
    """

    code = "LLM_NOT_CONFIGURED"


class LlmAuthError(Invalid):
    """The server of models refuses the key; correct MOSAICO_LLM_API_KEY."""

    code = "LLM_AUTH"


class LlmQuotaExceeded(Invalid):
    """The account at the server of models has nothing left to spend; top it up, then retry the
    run: what was answered is not asked again.
    """

    code = "LLM_QUOTA"


class LlmNotFoundError(Invalid):
    """The server has no such model or no such API; correct the model's name or
    MOSAICO_LLM_BASE_URL.
    """

    code = "LLM_NOT_FOUND"


class LlmRedirected(Invalid):
    """The server of models redirects, which is never followed, since the key would follow; set
    MOSAICO_LLM_BASE_URL to the address that it has now.
    """

    code = "LLM_REDIRECTED"


class LlmUnavailable(Unavailable):
    """The server of models does not answer; check that it runs and that MOSAICO_LLM_BASE_URL is
    right, then retry the run: what was answered is not asked again.
    """

    code = "LLM_UNAVAILABLE"


class Kind(Enum):
    """What a failed request calls for."""

    AUTH = auto()
    QUOTA = auto()
    NOT_THERE = auto()
    REDIRECTED = auto()
    RATE_LIMITED = auto()
    SERVER = auto()
    UNREACHABLE = auto()
    SILENT = auto()
    GARBLED = auto()
    REFUSED = auto()


PASSING: Final = frozenset({Kind.RATE_LIMITED, Kind.SERVER, Kind.UNREACHABLE, Kind.SILENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that brought no answer; `retry_after_s` is what the server asks for."""

    kind: Kind
    detail: str
    status: int | None = None
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.status, self.detail) if part)


class NoAnswer(Exception):
    """One request brought no answer, in as many attempts as its failure deserves."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def failure_of_answer(response: httpx.Response) -> Failure:
    """What an answer other than 2xx means."""
    status, words = response.status_code, _words(response)
    return Failure(
        kind=_kind(response, words),
        detail=words[:SHOWN_CHARS],
        status=status,
        retry_after_s=parse_retry_after(response.headers.get("retry-after")),
    )


def failure_of_error(error: httpx.HTTPError | OversizedResponse) -> Failure:
    """What a request means that brought no whole answer."""
    detail = (str(error) or type(error).__name__)[:SHOWN_CHARS]
    if isinstance(error, OversizedResponse):
        return Failure(kind=Kind.REFUSED, detail=detail)
    if isinstance(error, httpx.DecodingError):
        return Failure(kind=Kind.GARBLED, detail=detail)
    if is_untrusted_certificate(error):
        return Failure(kind=Kind.NOT_THERE, detail=detail)
    if isinstance(error, httpx.ReadTimeout):
        return Failure(kind=Kind.SILENT, detail=detail)
    return Failure(kind=Kind.UNREACHABLE, detail=detail)


def fatal_error(failure: Failure, asked: str) -> Invalid | None:
    """The error that every other request would meet as well; None for a failure of this one.

    `asked` names the request for the user.
    """
    said = f"The server of models answered {asked} with {failure}"
    match failure.kind:
        case Kind.AUTH:
            return LlmAuthError(f"{said}. Correct MOSAICO_LLM_API_KEY.")
        case Kind.QUOTA:
            return LlmQuotaExceeded(f"{said}. Top the account up, then retry the run.")
        case Kind.NOT_THERE:
            return LlmNotFoundError(f"{said}. Correct the model's name or MOSAICO_LLM_BASE_URL.")
        case Kind.REDIRECTED:
            return LlmRedirected(f"{said}. Set MOSAICO_LLM_BASE_URL to the address it has now.")
        case _:
            return None


def _kind(response: httpx.Response, words: str) -> Kind:
    status = response.status_code
    if status == HTTPStatus.PAYMENT_REQUIRED or "insufficient_quota" in words:
        return Kind.QUOTA
    if response.is_redirect:
        return Kind.REDIRECTED
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Kind.SERVER
    kinds = {
        HTTPStatus.UNAUTHORIZED: Kind.AUTH,
        HTTPStatus.FORBIDDEN: Kind.AUTH,
        HTTPStatus.NOT_FOUND: Kind.NOT_THERE,
        HTTPStatus.TOO_MANY_REQUESTS: Kind.RATE_LIMITED,
    }
    return kinds.get(HTTPStatus(status) if status in kinds else HTTPStatus.OK, Kind.REFUSED)


def _words(response: httpx.Response) -> str:
    """The server's own words with their code; none of a page that is meant for a browser, and none
    of the key.
    """
    text = redact_credentials(response.text, response.request).strip()
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text[:SHOWN_CHARS]
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return str(error)
    parts = (error.get(name) for name in ("message", "code", "type", "param"))
    return "; ".join(dict.fromkeys(str(part) for part in parts if part))
