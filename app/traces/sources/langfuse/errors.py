"""What can go wrong with a Langfuse server, and what each user is told about it.

CollectionFailed
├── LangfuseAuth            the keys are missing, wrong, or of an organisation
├── DatasetNotFound
├── RunNotFound
├── LangfuseRateLimited     told to wait for longer than a run waits
├── LangfuseUnavailable     no answer, or an error of the server, in every attempt
├── BadResponse             an answer that is not the one that was asked for
├── ResponseTooLarge
├── RedirectRefused
└── NoTraces
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
_ORIGIN_TIMED_OUT: Final = 524  # of a proxy in front of the server


class LangfuseAuthError(CredentialsRefused):
    """Langfuse refuses the keys of the agent; give it the public and the secret key of one
    project, and the address of the server that made them.
    """

    code = "LANGFUSE_AUTH"


class DatasetNotFound(CollectionFailed):
    """Langfuse has no dataset of this name in the project of the keys; correct `datasetRef`, or
    give the agent the keys of the project that holds it.
    """

    code = "DATASET_NOT_FOUND"


class RunNotFound(CollectionFailed):
    """The dataset has no such run; correct `runName`, or leave it out to read the newest run."""

    code = "RUN_NOT_FOUND"


class LangfuseRateLimited(CollectionFailed):
    """Langfuse asks to wait for longer than a run waits; start fewer runs at a time, or raise the
    rate limit of the Langfuse project.
    """

    code = "LANGFUSE_RATE_LIMITED"


class LangfuseUnavailable(CollectionFailed):
    """Langfuse did not answer in any of several attempts; check that the server runs and that its
    address is right, then retry the run.
    """

    code = "LANGFUSE_UNAVAILABLE"


class BadResponse(CollectionFailed):
    """Langfuse answered with something else than was asked for; check that the address is that of
    a Langfuse server of version 3 or newer.
    """

    code = "BAD_RESPONSE"


class ResponseTooLarge(CollectionFailed):
    """One answer of Langfuse is larger than this service reads; shorten the inputs and outputs of
    the traces.
    """

    code = "RESPONSE_TOO_LARGE"


class RedirectRefused(CollectionFailed):
    """Langfuse answered with a redirect, which is never followed, since the keys would follow it;
    give the agent the address that the server has now.
    """

    code = "REDIRECT_REFUSED"


class NoTraces(CollectionFailed):
    """The run holds no trace; check that it is the right run, and that it has ended."""

    code = "NO_TRACES"


class NotFoundError(Exception):
    """404: what was asked for is not there, or this API is not; `detail` is the server's word."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class PageTooLarge(Exception):
    """The server cannot answer so much at once; `instead` is raised when less is not possible."""

    def __init__(self, final_error: CollectionFailed) -> None:
        super().__init__(str(final_error))
        self.final_error = final_error


class FailureKind(Enum):
    """What a failed request calls for."""

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
    """A request that brought no document; `retry_after_s` is what the server asks for."""

    kind: FailureKind
    detail: str
    status: int | None = None
    retry_after_s: float | None = None


def classify_response(response: httpx.Response) -> RequestFailure:
    """What an answer other than 2xx means."""
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
        where = httpx.URL(response.headers.get("location", "")).host
        return RequestFailure(
            kind=FailureKind.REDIRECT, detail=where[:MAX_DETAIL_CHARS], status=status
        )
    return RequestFailure(
        kind=_kind_of_status(status), detail=_error_message(response), status=status
    )


def classify_transport_error(error: httpx.HTTPError | OversizedResponse) -> RequestFailure:
    """What a request means that brought no whole answer."""
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
    """The server's own words; none of a page that is meant for a browser, and none of the keys."""
    text = redact_credentials(response.text, response.request)
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if "<" in text[:MAX_DETAIL_CHARS] else text[:MAX_DETAIL_CHARS].strip()
    message = content.get("message") if isinstance(content, dict) else content
    return str(message)[:MAX_DETAIL_CHARS]
