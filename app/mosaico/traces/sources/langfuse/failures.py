"""Failures of the Langfuse source: its errors, what a failed request means, and what is done about it.

A failed request is sent again, asked for in smaller pages, or ends in one of these errors. The
decisions are pure: no clock, no sleep, no network.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

import httpx

from mosaico.core.http.client import redact_credentials
from mosaico.core.http.retry import (
    EQUAL_JITTER,
    FULL_JITTER,
    ExponentialBackoff,
    RetryPolicy,
    parse_retry_after,
)
from mosaico.core.http.transport import OversizedResponse, is_untrusted_certificate
from mosaico.traces.registry import CollectionFailed, CredentialsRefused

MAX_DETAIL_CHARS: Final = 200
_ORIGIN_TIMED_OUT: Final = 524  # sent by Cloudflare in front of the server


class LangfuseAuthError(CredentialsRefused):
    """Langfuse rejected the keys of the agent; set the public and the secret key of one project,
    and the address of the server that issued them.
    """

    code = "LANGFUSE_AUTH"


class SourceDatasetNotFound(CollectionFailed):
    """The source has no dataset with this name; correct `datasetRef`. For Langfuse, the keys of the agent
    must be those of the project that holds the dataset.
    """

    code = "DATASET_NOT_FOUND"


class SourceRunNotFound(CollectionFailed):
    """The dataset has no run with this name; correct `runName`, or omit it to read the newest run."""

    code = "RUN_NOT_FOUND"


class LangfuseRateLimited(CollectionFailed):
    """Langfuse requests a longer wait than a run allows; start fewer runs at a time, or raise the
    rate limit of the Langfuse project.
    """


class LangfuseUnavailable(CollectionFailed):
    """Langfuse did not respond in any attempt; check that the server runs and that its address is
    correct, then retry the run.
    """


class BadResponse(CollectionFailed):
    """The source returned an unexpected response; check that the address is that of a Langfuse server
    of version 3 or newer.
    """


class ResponseTooLarge(CollectionFailed):
    """A response of Langfuse exceeds the size limit; shorten the inputs and outputs of the traces."""


class RedirectRefused(CollectionFailed):
    """Langfuse returned a redirect. Redirects are not followed, because the keys would be sent to the
    new address; set `langfuseUrl` to the current address of the server.
    """


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
    """Kind of a failed request; `decide_retry` decides by it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfusePolicy:
    """Timeouts, retries and polling of a collection; all times in seconds.

    `request_s` limits one request from its first to its last byte, `rate_limit_s` the total wait of
    one request for the rate limit. With the defaults an outage of 30 s is outlasted: the waits
    before the 5 retries are 2, 4, 8, 16 and 32 seconds, each reduced by up to half.

    A run with activity in the last `active_run_s` is polled every `poll_s` until it is unchanged
    in `stable_polls` polls, for at most `stable_deadline_s`. A run that lacks items is polled for at
    most `settle_limit_s`. A run whose scores are incomplete is read every `score_poll_s` until none has arrived
    for `score_quiet_s`, for at most `score_limit_s`, and not if it ended before that.
    """

    request_s: float = 60.0
    retries: int = 5
    malformed_retries: int = 1
    first_wait_s: float = 2.0
    longest_wait_s: float = 60.0
    rate_limit_s: float = 600.0
    active_run_s: float = 900.0
    poll_s: float = 5.0
    stable_polls: int = 3
    stable_deadline_s: float = 600.0
    settle_limit_s: float = 3600.0
    score_poll_s: float = 15.0
    score_quiet_s: float = 120.0
    score_limit_s: float = 900.0

    @property
    def _backoff(self) -> ExponentialBackoff:
        return ExponentialBackoff(first_s=self.first_wait_s, longest_s=self.longest_wait_s)

    def retry_policy(self, kind: FailureKind) -> RetryPolicy | None:
        """The retry policy for a kind of failure; None when a repetition cannot succeed."""
        match kind:
            case FailureKind.RATE_LIMITED:
                # Full jitter, so that many workers do not return together.
                return RetryPolicy(
                    backoff=self._backoff, jitter=FULL_JITTER, max_total_wait_s=self.rate_limit_s
                )
            case FailureKind.SERVER_ERROR | FailureKind.UNREACHABLE:
                # Equal jitter: with full jitter, all attempts can fall into one short outage.
                return RetryPolicy(
                    backoff=self._backoff, jitter=EQUAL_JITTER, max_retries=self.retries
                )
            case FailureKind.MALFORMED:
                return RetryPolicy(
                    backoff=self._backoff, jitter=FULL_JITTER, max_retries=self.malformed_retries
                )
            case _:
                return None


COLLECTION_POLICY: Final = LangfusePolicy()


@dataclass(frozen=True, slots=True)
class RetryAfterWait:
    """Send the request again after `seconds`; `for_all_clients` makes every client wait."""

    seconds: float
    for_all_clients: bool = False


@dataclass(frozen=True, slots=True)
class ReducePageSize:
    """A wait does not help: request a smaller page, or raise `final_error`."""

    final_error: CollectionFailed


@dataclass(frozen=True, slots=True)
class RaiseNotFound:
    """Only the caller knows what a missing resource means."""


@dataclass(frozen=True, slots=True)
class RaiseFinalError:
    """No repetition helps."""

    error: CollectionFailed


RetryDecision: TypeAlias = RetryAfterWait | ReducePageSize | RaiseNotFound | RaiseFinalError


def decide_retry(
    failure: RequestFailure,
    *,
    request_name: str,
    failed_attempts: int,
    waited_s: float,
    random_factor: float,
    policy: LangfusePolicy,
) -> RetryDecision:
    """Decide what to do about a failed request.

    `request_name` names the request for the user. `failed_attempts` counts the earlier failures of
    this kind, `waited_s` is the total wait of the request so far, and `random_factor` in [0, 1) is
    the random number of the jitter.
    """
    # First, because it has no final error: a 404 can mean a missing run or an API that the server
    # lacks.
    if failure.kind is FailureKind.NOT_FOUND:
        return RaiseNotFound()
    final_error = _final_error(failure, request_name, failed_attempts, waited_s)
    if failure.kind in (FailureKind.OVERLOADED, FailureKind.TOO_LARGE):
        return ReducePageSize(final_error)
    retry_policy = policy.retry_policy(failure.kind)
    if retry_policy is None:
        return RaiseFinalError(final_error)
    rate_limited = failure.kind is FailureKind.RATE_LIMITED
    wait_s = retry_policy.next_wait_s(
        failed_attempts=failed_attempts,
        chance=random_factor,
        waited_s=waited_s,
        # The header of an error page often comes from a proxy.
        retry_after_s=failure.retry_after_s if rate_limited else None,
    )
    if wait_s is None:
        return RaiseFinalError(final_error)
    # The rate limit belongs to the key, so every client of the key must wait.
    return RetryAfterWait(wait_s, for_all_clients=rate_limited)


class _ErrorTemplate(NamedTuple):
    """The final error of a kind of failure, and its message for the user."""

    error: type[CollectionFailed]
    text: str


_ERROR_TEMPLATES: Final[Mapping[FailureKind, _ErrorTemplate]] = {
    FailureKind.RATE_LIMITED: _ErrorTemplate(
        LangfuseRateLimited,
        "Langfuse limits the rate of requests: {request} is still rejected after a wait of"
        " {waited_s:.0f} s{detail}. Start fewer runs at a time, or raise the rate limit of the"
        " Langfuse project.",
    ),
    FailureKind.AUTH: _ErrorTemplate(
        LangfuseAuthError,
        "Langfuse answered {status} to {request}{detail}. Check that the agent's public and secret"
        " key belong together, that they are keys of a project and not of an organization, and"
        " that they were issued by the server in langfuseUrl.",
    ),
    FailureKind.TOO_LARGE: _ErrorTemplate(
        ResponseTooLarge,
        "the smallest response to {request} exceeds the size limit{detail}. Shorten the inputs and"
        " outputs of the traces.",
    ),
    FailureKind.REDIRECT: _ErrorTemplate(
        RedirectRefused,
        "Langfuse redirects {request} to another address{detail}. Redirects are not followed,"
        " because the keys would be sent there; set langfuseUrl to the current address of the"
        " server.",
    ),
    FailureKind.MALFORMED: _ErrorTemplate(
        BadResponse,
        "the response to {request} is not valid JSON{detail}. Check that langfuseUrl is the address"
        " of a Langfuse server, and that no proxy answers in its place.",
    ),
    FailureKind.REJECTED: _ErrorTemplate(
        BadResponse,
        "Langfuse answered {status} to {request}{detail}. Check that langfuseUrl is the address of"
        " a Langfuse server of version 3 or newer.",
    ),
    FailureKind.BAD_CERTIFICATE: _ErrorTemplate(
        LangfuseUnavailable,
        "the certificate of the Langfuse server is not trusted{detail}. Renew it, or set"
        " SSL_CERT_FILE to a file with the certificate of its authority.",
    ),
    FailureKind.OVERLOADED: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse cannot answer even the smallest {request} in time (status {status}{detail})."
        " Give its database more resources, then retry the run.",
    ),
    FailureKind.SERVER_ERROR: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse answered {status} to {request} in {attempts} attempts{detail}. Check the logs of"
        " the server, then retry the run.",
    ),
    FailureKind.UNREACHABLE: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse did not respond to {request} in {attempts} attempts{detail}. Check that the"
        " server runs and that langfuseUrl is correct, then retry the run.",
    ),
}


def _final_error(
    failure: RequestFailure, request_name: str, failed_attempts: int, waited_s: float
) -> CollectionFailed:
    template = _ERROR_TEMPLATES[failure.kind]
    message = template.text.format(
        status=failure.status,
        request=request_name,
        attempts=failed_attempts + 1,
        waited_s=waited_s,
        detail=f": {failure.detail.rstrip('.;')}" if failure.detail else "",
    )
    return template.error(message)
