"""Whether a failed request is sent again, when, or smaller: decisions, no clock and no sleep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.errors import (
    BadResponse,
    FailureKind,
    LangfuseAuthError,
    LangfuseRateLimited,
    LangfuseUnavailable,
    RedirectRefused,
    RequestFailure,
    ResponseTooLarge,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfusePolicy:
    """How long and how often a collection waits; times in seconds.

    `request_s` bounds one request from its first byte to its last, `rate_limit_s` the waits of
    one request together. With these numbers a server may be away for half a minute: the waits
    before `retries` attempts are 2, 4, 8, 16 and 32 seconds, or up to half of that less. A run that had activity within `settling_s` is looked at every `poll_s`
    until it was the same `stable_polls` times, at most for `settle_deadline_s`.
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


COLLECTION_POLICY: Final = LangfusePolicy()


@dataclass(frozen=True, slots=True)
class RetryAfterWait:
    """Ask again after so many seconds; `shared` when nobody may ask that server before."""

    seconds: float
    for_all_clients: bool = False


@dataclass(frozen=True, slots=True)
class ReducePageSize:
    """Waiting mends nothing: ask for less, or raise `instead`."""

    final_error: CollectionFailed


@dataclass(frozen=True, slots=True)
class RaiseNotFound:
    """Whoever asked knows what it means that the thing is not there."""


@dataclass(frozen=True, slots=True)
class RaiseFinalError:
    """Asking again mends nothing."""

    error: CollectionFailed


RetryDecision: TypeAlias = RetryAfterWait | ReducePageSize | RaiseNotFound | RaiseFinalError

# Waits grow no further after so many attempts: 2^10 seconds are beyond any cap.
_DOUBLINGS: Final = 10


def decide_retry(
    failure: RequestFailure,
    *,
    request_name: str,
    failed_attempts: int,
    waited_s: float,
    random_factor: float,
    policy: LangfusePolicy,
) -> RetryDecision:
    """What to do about a failed request.

    `asked` names the request for the user. `attempt` counts the failures of this kind before this
    one, `waited_s` the seconds that the request has waited; `chance` in [0, 1) is the jitter.
    """
    match failure.kind:
        case FailureKind.RATE_LIMITED:
            return _rate_limited(
                failure, request_name, failed_attempts, waited_s, random_factor, policy
            )
        case FailureKind.SERVER_ERROR | FailureKind.UNREACHABLE if failed_attempts < policy.retries:
            # Attempts that chance puts close together would not outlast the restart of a server.
            return RetryAfterWait(_backoff(failed_attempts, (1 + random_factor) / 2, policy))
        case FailureKind.MALFORMED if failed_attempts < policy.malformed_retries:
            return RetryAfterWait(_backoff(failed_attempts, random_factor, policy))
        case FailureKind.NOT_FOUND:
            return RaiseNotFound()
        case FailureKind.OVERLOADED | FailureKind.TOO_LARGE:
            return ReducePageSize(_final_error(failure, request_name, failed_attempts))
        case _:
            return RaiseFinalError(_final_error(failure, request_name, failed_attempts))


def _rate_limited(
    failure: RequestFailure,
    asked: str,
    attempt: int,
    waited_s: float,
    chance: float,
    patience: LangfusePolicy,
) -> RetryDecision:
    told_s = failure.retry_after_s
    wait_s = _backoff(attempt, chance, patience) if told_s is None else told_s
    if waited_s + wait_s <= patience.rate_limit_s:
        return RetryAfterWait(wait_s, for_all_clients=True)
    return RaiseFinalError(
        LangfuseRateLimited(
            f"Langfuse limits the rate of requests: after {waited_s:.0f} s of waiting it asks for"
            f" {wait_s:.0f} s more ({asked}). Start fewer runs at a time, or raise the rate limit"
            " of the Langfuse project."
        )
    )


def _backoff(attempt: int, chance: float, patience: LangfusePolicy) -> float:
    """Exponential with full jitter, so that many workers do not come back together."""
    longest = patience.first_wait_s * 2.0 ** min(attempt, _DOUBLINGS)
    return float(chance * min(longest, patience.longest_wait_s))


class _ErrorTemplate(NamedTuple):
    """The error of a kind of failure, and what the user reads."""

    error: type[CollectionFailed]
    text: str


_ERROR_TEMPLATES: Final[Mapping[FailureKind, _ErrorTemplate]] = {
    FailureKind.AUTH: _ErrorTemplate(
        LangfuseAuthError,
        "Langfuse answered {status} to {asked}{said}. Check that the agent's public and secret key"
        " belong together, that they are keys of a project and not of an organisation, and that"
        " they were made on the server in langfuseUrl.",
    ),
    FailureKind.TOO_LARGE: _ErrorTemplate(
        ResponseTooLarge,
        "the smallest answer to {asked} is larger than this service reads{said}. Shorten the inputs"
        " and outputs of the traces.",
    ),
    FailureKind.REDIRECT: _ErrorTemplate(
        RedirectRefused,
        "Langfuse redirects {asked} to another address{said}. Redirects are not followed, since"
        " the keys would follow them; set langfuseUrl to the address that the server has now.",
    ),
    FailureKind.MALFORMED: _ErrorTemplate(
        BadResponse,
        "the answer to {asked} is no JSON{said}. Check that langfuseUrl is the address of a"
        " Langfuse server, and that no proxy before it answers in its place.",
    ),
    FailureKind.REJECTED: _ErrorTemplate(
        BadResponse,
        "Langfuse answered {status} to {asked}{said}. Check that langfuseUrl is the address of a"
        " Langfuse server of version 3 or newer.",
    ),
    FailureKind.BAD_CERTIFICATE: _ErrorTemplate(
        LangfuseUnavailable,
        "the certificate of the Langfuse server is not trusted{said}. Renew it, or name its"
        " authority in SSL_CERT_FILE.",
    ),
    FailureKind.OVERLOADED: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse cannot answer {asked} in time, however little it is asked for (status"
        " {status}{said}). Give its database more resources, then retry the run.",
    ),
    FailureKind.SERVER_ERROR: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse answered {status} to {asked} in {attempts} attempts{said}. Check that the server"
        " is well, then retry the run.",
    ),
    FailureKind.UNREACHABLE: _ErrorTemplate(
        LangfuseUnavailable,
        "Langfuse did not answer {asked} in {attempts} attempts{said}. Check that the server runs"
        " and that langfuseUrl is right, then retry the run.",
    ),
}


def _final_error(failure: RequestFailure, asked: str, attempt: int) -> CollectionFailed:
    told = _ERROR_TEMPLATES[failure.kind]
    said = f": {failure.detail.rstrip('.;')}" if failure.detail else ""
    return told.error(
        told.text.format(status=failure.status, asked=asked, attempts=attempt + 1, said=said)
    )
