"""Whether a failed request to a model is sent again, and when: a decision without a clock."""

from dataclasses import dataclass
from typing import Final

from app.llm.failures import Failure, Kind

_DOUBLINGS: Final = 10  # of the wait; further ones are beyond any cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often one request is waited for; times in seconds.

    `request_s` bounds one attempt from its first byte to its last, `rate_limit_s` all waits that
    the server asks for together.
    """

    request_s: float = 120.0
    retries: int = 4
    garbled_retries: int = 1
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    rate_limit_s: float = 300.0


def wait_before_retry(
    failure: Failure,
    *,
    attempt: int,
    waited_s: float,
    chance: float,
    patience: Patience,
    divisible: bool = False,
) -> float | None:
    """Seconds until the request is sent again; None when waiting mends nothing or took too long.

    `attempt` counts the failures of this kind before this one, `waited_s` the seconds waited so
    far; `chance` in [0, 1) is the jitter, so that those who failed together do not come back so.
    A `divisible` request that brought nothing in all its time is better asked in parts.
    """
    longest = patience.first_wait_s * 2.0 ** min(attempt, _DOUBLINGS)
    backoff_s = chance * min(longest, patience.longest_wait_s)
    match failure.kind:
        case Kind.RATE_LIMITED:
            wait_s = backoff_s if failure.retry_after_s is None else failure.retry_after_s
            return wait_s if waited_s + wait_s <= patience.rate_limit_s else None
        case Kind.SILENT if divisible:
            return None
        case Kind.SERVER | Kind.UNREACHABLE | Kind.SILENT if attempt < patience.retries:
            return backoff_s
        case Kind.GARBLED if attempt < patience.garbled_retries:
            return backoff_s
        case _:
            return None
