"""Whether a failed request is sent again, when, or smaller: decisions, no clock and no sleep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.errors import (
    BadResponse,
    Failure,
    Kind,
    LangfuseAuth,
    LangfuseRateLimited,
    LangfuseUnavailable,
    RedirectRefused,
    ResponseTooLarge,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often a collection waits; times in seconds.

    `request_s` bounds one request from its first byte to its last, `rate_limit_s` the waits of
    one request together. With these numbers a server may be away for half a minute: the waits
    before `retries` attempts are 2, 4, 8, 16 and 32 seconds, or up to half of that less. A run that had activity within `settling_s` is looked at every `poll_s`
    until it was the same `stable_polls` times, at most for `settle_deadline_s`.
    """

    request_s: float = 60.0
    retries: int = 5
    garbled_retries: int = 1
    first_wait_s: float = 2.0
    longest_wait_s: float = 60.0
    rate_limit_s: float = 600.0
    settling_s: float = 900.0
    poll_s: float = 5.0
    stable_polls: int = 3
    settle_deadline_s: float = 600.0


PATIENCE: Final = Patience()


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again after so many seconds; `shared` when nobody may ask that server before."""

    seconds: float
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Smaller:
    """Waiting mends nothing: ask for less, or raise `instead`."""

    instead: CollectionFailed


@dataclass(frozen=True, slots=True)
class NotFound:
    """Whoever asked knows what it means that the thing is not there."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Asking again mends nothing."""

    error: CollectionFailed


Step: TypeAlias = Wait | Smaller | NotFound | GiveUp

# Waits grow no further after so many attempts: 2^10 seconds are beyond any cap.
_DOUBLINGS: Final = 10


def next_step(
    failure: Failure,
    *,
    asked: str,
    attempt: int,
    waited_s: float,
    chance: float,
    patience: Patience,
) -> Step:
    """What to do about a failed request.

    `asked` names the request for the user. `attempt` counts the failures of this kind before this
    one, `waited_s` the seconds that the request has waited; `chance` in [0, 1) is the jitter.
    """
    match failure.kind:
        case Kind.RATE_LIMITED:
            return _rate_limited(failure, asked, attempt, waited_s, chance, patience)
        case Kind.SERVER | Kind.UNREACHABLE if attempt < patience.retries:
            # Attempts that chance puts close together would not outlast the restart of a server.
            return Wait(_backoff(attempt, (1 + chance) / 2, patience))
        case Kind.GARBLED if attempt < patience.garbled_retries:
            return Wait(_backoff(attempt, chance, patience))
        case Kind.NOT_THERE:
            return NotFound()
        case Kind.OVERLOADED | Kind.TOO_LARGE:
            return Smaller(_final(failure, asked, attempt))
        case _:
            return GiveUp(_final(failure, asked, attempt))


def _rate_limited(
    failure: Failure,
    asked: str,
    attempt: int,
    waited_s: float,
    chance: float,
    patience: Patience,
) -> Step:
    told_s = failure.retry_after_s
    wait_s = _backoff(attempt, chance, patience) if told_s is None else told_s
    if waited_s + wait_s <= patience.rate_limit_s:
        return Wait(wait_s, shared=True)
    return GiveUp(
        LangfuseRateLimited(
            f"Langfuse limits the rate of requests: after {waited_s:.0f} s of waiting it asks for"
            f" {wait_s:.0f} s more ({asked}). Start fewer runs at a time, or raise the rate limit"
            " of the Langfuse project."
        )
    )


def _backoff(attempt: int, chance: float, patience: Patience) -> float:
    """Exponential with full jitter, so that many workers do not come back together."""
    longest = patience.first_wait_s * 2.0 ** min(attempt, _DOUBLINGS)
    return float(chance * min(longest, patience.longest_wait_s))


class _Told(NamedTuple):
    """The error of a kind of failure, and what the user reads."""

    error: type[CollectionFailed]
    text: str


_TOLD: Final[Mapping[Kind, _Told]] = {
    Kind.AUTH: _Told(
        LangfuseAuth,
        "Langfuse answered {status} to {asked}{said}. Check that the agent's public and secret key"
        " belong together, that they are keys of a project and not of an organisation, and that"
        " they were made on the server in langfuseUrl.",
    ),
    Kind.TOO_LARGE: _Told(
        ResponseTooLarge,
        "the smallest answer to {asked} is larger than this service reads{said}. Shorten the inputs"
        " and outputs of the traces.",
    ),
    Kind.REDIRECTED: _Told(
        RedirectRefused,
        "Langfuse redirects {asked} to another address{said}. Redirects are not followed, since"
        " the keys would follow them; set langfuseUrl to the address that the server has now.",
    ),
    Kind.GARBLED: _Told(
        BadResponse,
        "the answer to {asked} is no JSON{said}. Check that langfuseUrl is the address of a"
        " Langfuse server, and that no proxy before it answers in its place.",
    ),
    Kind.REFUSED: _Told(
        BadResponse,
        "Langfuse answered {status} to {asked}{said}. Check that langfuseUrl is the address of a"
        " Langfuse server of version 3 or newer.",
    ),
    Kind.UNTRUSTED: _Told(
        LangfuseUnavailable,
        "the certificate of the Langfuse server is not trusted{said}. Renew it, or name its"
        " authority in SSL_CERT_FILE.",
    ),
    Kind.OVERLOADED: _Told(
        LangfuseUnavailable,
        "Langfuse cannot answer {asked} in time, however little it is asked for (status"
        " {status}{said}). Give its database more resources, then retry the run.",
    ),
    Kind.SERVER: _Told(
        LangfuseUnavailable,
        "Langfuse answered {status} to {asked} in {attempts} attempts{said}. Check that the server"
        " is well, then retry the run.",
    ),
    Kind.UNREACHABLE: _Told(
        LangfuseUnavailable,
        "Langfuse did not answer {asked} in {attempts} attempts{said}. Check that the server runs"
        " and that langfuseUrl is right, then retry the run.",
    ),
}


def _final(failure: Failure, asked: str, attempt: int) -> CollectionFailed:
    told = _TOLD[failure.kind]
    said = f": {failure.detail.rstrip('.;')}" if failure.detail else ""
    return told.error(
        told.text.format(status=failure.status, asked=asked, attempts=attempt + 1, said=said)
    )
