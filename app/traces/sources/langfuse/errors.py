"""Errors of the Langfuse source, and the classification of failed requests.

CollectionFailed
├── LangfuseAuthError       the keys are missing, wrong, or of an organization
├── DatasetNotFound
├── SourceRunNotFound
├── LangfuseRateLimited     the server asks for a longer wait than a run allows
├── LangfuseUnavailable     no response, or a server error, in every attempt
├── BadResponse             a response of an unexpected form
├── ResponseTooLarge
├── RedirectRefused
└── SourceRunEmpty
"""

import json
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

import httpx

from app.core.http.client import redact_credentials
from app.core.http.retry import parse_retry_after
from app.core.http.transport import OversizedResponse, is_untrusted_certificate
from app.traces.registry import CollectionFailed, CredentialsRefused

MAX_DETAIL_CHARS: Final = 200
_ORIGIN_TIMED_OUT: Final = 524  # sent by Cloudflare in front of the server


class LangfuseAuthError(CredentialsRefused):
    """Langfuse rejected the keys of the agent; set the public and the secret key of one project,
    and the address of the server that issued them.
    """

    code = "LANGFUSE_AUTH"


class DatasetNotFound(CollectionFailed):
    """The Langfuse project of the keys has no dataset with this name; correct `datasetRef`, or set
    the agent's keys to those of the project that holds the dataset.
    """

    code = "DATASET_NOT_FOUND"


class SourceRunNotFound(CollectionFailed):
    """The dataset has no run with this name; correct `runName`, or omit it to read the newest run."""

    code = "RUN_NOT_FOUND"


class LangfuseRateLimited(CollectionFailed):
    """Langfuse requests a longer wait than a run allows; start fewer runs at a time, or raise the
    rate limit of the Langfuse project.
    """

    code = "LANGFUSE_RATE_LIMITED"


class LangfuseUnavailable(CollectionFailed):
    """Langfuse did not respond in any attempt; check that the server runs and that its address is
    correct, then retry the run.
    """

    code = "LANGFUSE_UNAVAILABLE"


class BadResponse(CollectionFailed):
    """Langfuse returned an unexpected response; check that the address is that of a Langfuse server
    of version 3 or newer.
    """

    code = "BAD_RESPONSE"


class ResponseTooLarge(CollectionFailed):
    """A response of Langfuse exceeds the size limit; shorten the inputs and outputs of the traces."""

    code = "RESPONSE_TOO_LARGE"


class RedirectRefused(CollectionFailed):
    """Langfuse returned a redirect. Redirects are not followed, because the keys would be sent to the
    new address; set `langfuseUrl` to the current address of the server.
    """

    code = "REDIRECT_REFUSED"


class SourceRunEmpty(CollectionFailed):
    """The run has no traces; check that it is the intended run, and that it has finished."""

    code = "NO_TRACES"


class NotFoundError(Exception):
    """404: the resource or the whole API does not exist; `detail` is the message of the server."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class PageTooLarge(Exception):
    """The server cannot return a page of this size.

    The caller requests a smaller page, and raises `final_error` when there is no smaller page.
    """

    def __init__(self, final_error: CollectionFailed) -> None:
        super().__init__(str(final_error))
        self.final_error = final_error


class FailureKind(Enum):
    """Kind of a failed request; `retry` decides by it."""

    AUTH = auto()
    NOT_FOUND = auto()
    RATE_LIMITED = auto()
    OVERLOADED = auto()
    TOO_LARGE = auto()
    SERVER_ERROR = auto()
    UNREACHABLE = auto()
    BAD_CERTIFICATE = auto()
    MALFORMED = auto()
    REDIRECT = auto()
    REJECTED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailure:
    """A request without a usable response; `retry_after_s` is the wait that the server requests."""

    kind: FailureKind
    detail: str
    status: int | None = None
    retry_after_s: float | None = None


def classify_response(response: httpx.Response) -> RequestFailure:
    """Classify a response with a status other than 2xx."""
    status = response.status_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        wait_s = parse_retry_after(response.headers.get("retry-after"))
        return RequestFailure(
            kind=FailureKind.RATE_LIMITED,
            detail=_error_message(response),
            status=status,
            retry_after_s=wait_s,
        )
    if response.is_redirect or response.has_redirect_location:
        target = httpx.URL(response.headers.get("location", "")).host
        return RequestFailure(
            kind=FailureKind.REDIRECT, detail=target[:MAX_DETAIL_CHARS], status=status
        )
    return RequestFailure(
        kind=_kind_of_status(status), detail=_error_message(response), status=status
    )


def classify_transport_error(error: httpx.HTTPError | OversizedResponse) -> RequestFailure:
    """Classify a request that ended without a complete response."""
    detail = (str(error) or type(error).__name__)[:MAX_DETAIL_CHARS]
    if isinstance(error, OversizedResponse):
        return RequestFailure(kind=FailureKind.TOO_LARGE, detail=detail)
    if is_untrusted_certificate(error):
        return RequestFailure(kind=FailureKind.BAD_CERTIFICATE, detail=detail)
    if isinstance(error, httpx.DecodingError):
        return RequestFailure(kind=FailureKind.MALFORMED, detail=detail)
    return RequestFailure(kind=FailureKind.UNREACHABLE, detail=detail)


def _kind_of_status(status: int) -> FailureKind:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return FailureKind.AUTH
    if status == HTTPStatus.NOT_FOUND:
        return FailureKind.NOT_FOUND
    # Langfuse answers 422 when its store runs out of resources; waiting does not help.
    if status in (
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        _ORIGIN_TIMED_OUT,
    ):
        return FailureKind.OVERLOADED
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
        return FailureKind.SERVER_ERROR
    return FailureKind.REJECTED


def _error_message(response: httpx.Response) -> str:
    """The message of the server, without the keys; empty for an HTML page of a proxy."""
    text = redact_credentials(response.text, response.request)
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if "<" in text[:MAX_DETAIL_CHARS] else text[:MAX_DETAIL_CHARS].strip()
    message = content.get("message") if isinstance(content, dict) else content
    return str(message)[:MAX_DETAIL_CHARS]
