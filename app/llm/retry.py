"""Whether a failed request to a model is sent again, and when: a decision without a clock."""

from dataclasses import dataclass

from app.core.http.retry import ExponentialBackoff, RetryPolicy
from app.llm.failures import Failure, Kind


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
    backoff = ExponentialBackoff(first_s=patience.first_wait_s, longest_s=patience.longest_wait_s)
    match failure.kind:
        case Kind.RATE_LIMITED:
            policy = RetryPolicy(backoff=backoff, max_total_wait_s=patience.rate_limit_s)
        case Kind.SERVER | Kind.UNREACHABLE:
            policy = RetryPolicy(backoff=backoff, max_retries=patience.retries)
        case Kind.SILENT if not divisible:
            policy = RetryPolicy(backoff=backoff, max_retries=patience.retries)
        case Kind.GARBLED:
            policy = RetryPolicy(backoff=backoff, max_retries=patience.garbled_retries)
        case _:
            return None
    return policy.next_wait_s(
        failed_attempts=attempt,
        chance=chance,
        waited_s=waited_s,
        # Other failures keep to the backoff: their Retry-After often comes from a proxy.
        retry_after_s=failure.retry_after_s if failure.kind is Kind.RATE_LIMITED else None,
    )
