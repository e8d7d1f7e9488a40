"""Retries of model requests: one policy for each kind of failure, one loop for all providers.

The SDKs' own retries are off: they do not handle exhausted quotas or our time limits.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from mosaico.core.http.retry import ExponentialBackoff, Jitter, RetryPolicy
from mosaico.llm.errors import LlmError, LlmErrorKind

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRetryPolicy:
    """Time limit of one attempt, and the retry policy for each kind of failure.

    Failures under equal policies are counted together.
    """

    attempt_timeout_s: float
    transient: RetryPolicy
    rate_limited: RetryPolicy
    unreadable: RetryPolicy
    # False for a batch that the caller splits after a timeout instead.
    retry_timeouts: bool = True

    def policy_for(self, kind: LlmErrorKind) -> RetryPolicy | None:
        """The policy for a kind of failure; None when a retry cannot succeed."""
        match kind:
            case LlmErrorKind.RATE_LIMITED:
                return self.rate_limited
            case LlmErrorKind.SERVER | LlmErrorKind.UNREACHABLE:
                return self.transient
            case LlmErrorKind.TIMEOUT if self.retry_timeouts:
                return self.transient
            case LlmErrorKind.UNREADABLE:
                return self.unreadable
            case _:
                return None


ATTEMPT_TIMEOUT_S: Final = 300.0

# For the turns of an agent. The waits need no jitter because a conversation has one request at a
# time, and no total because each task has a time limit.
_TURN_POLICY: Final = RetryPolicy(
    backoff=ExponentialBackoff(first_s=2.0, longest_s=16.0),
    jitter=Jitter(1.0, 1.0),
    max_retries=4,
    max_retry_after_s=120.0,
)
TURN_RETRIES: Final = LlmRetryPolicy(
    attempt_timeout_s=ATTEMPT_TIMEOUT_S,
    transient=_TURN_POLICY,
    rate_limited=_TURN_POLICY,
    unreadable=replace(_TURN_POLICY, max_retries=0),  # a second response is paid for, too
)


# For the requests of metrics, of which many are sent at the same time.
_COMPLETION_BACKOFF: Final = ExponentialBackoff(first_s=1.0, longest_s=30.0)
COMPLETION_RETRIES: Final = LlmRetryPolicy(
    attempt_timeout_s=120.0,
    # The Retry-After of an error page often comes from a proxy: it is respected up to a limit.
    transient=RetryPolicy(backoff=_COMPLETION_BACKOFF, max_retries=4, max_retry_after_s=30.0),
    # By total time and not by number: with many requests in flight, most attempts of one of
    # them meet a limit that the others have used up.
    rate_limited=RetryPolicy(backoff=_COMPLETION_BACKOFF, max_total_wait_s=300.0),
    unreadable=RetryPolicy(backoff=_COMPLETION_BACKOFF, max_retries=1),
)


class RetryWait(NamedTuple):
    """A wait before a retry: the status that caused it, and its end in seconds since the epoch."""

    cause: str
    until: float


@dataclass(slots=True)
class RetryStatus:
    """The failed attempts of a call: how often it failed with each status, and the last reason.

    The last attempt of a call that failed is one of them. `waited_s` is the time spent waiting before
    retries, in seconds, also of a wait that was cancelled; `wait` is the one in progress.
    """

    failures: Counter[str] = field(default_factory=Counter)
    last_reason: str | None = None
    waited_s: float = 0.0
    wait: RetryWait | None = None

    def describe(self) -> str:
        """`3 × 503`, or `2 × 503 and 1 × 429`; empty without a failure."""
        return " and ".join(f"{count} × {status}" for status, count in self.failures.items())


# Of the kinds that may have no HTTP status.
_NAMES_WITHOUT_STATUS: Final = {
    LlmErrorKind.RATE_LIMITED: "rate limit",
    LlmErrorKind.SERVER: "server error",
    LlmErrorKind.UNREACHABLE: "no connection",
    LlmErrorKind.TIMEOUT: "no response",
    LlmErrorKind.UNREADABLE: "unreadable response",
}

_STATUS: Final[ContextVar[RetryStatus]] = ContextVar("llm_retry_status")


@contextmanager
def track_retries() -> Iterator[RetryStatus]:
    """The status of the call in this block; other tasks do not change it."""
    status = RetryStatus()
    token = _STATUS.set(status)
    try:
        yield status
    finally:
        _STATUS.reset(token)


async def call_with_retries(
    attempt: Callable[[], Awaitable[T]],
    policies: LlmRetryPolicy = TURN_RETRIES,
    *,
    sleep: Sleep = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
    on_rate_limit: Callable[[float], None] = lambda _: None,
) -> T:
    """The response of an attempt, which is repeated as long as its policy allows.

    `on_rate_limit` gets the seconds of each wait for a rate limit, so that other requests to the
    same server can wait as well. Raises: LlmError.
    """
    # A context variable, because the caller that shows the status is several calls above and has no
    # other link to this attempt. Without a tracker the status goes nowhere.
    status = _STATUS.get(RetryStatus())
    # Counted by policy, not in total: a server error between two rate limits must not use up the
    # retries of the rate limit.
    failures: Counter[RetryPolicy] = Counter()
    waited_s = 0.0
    while True:
        try:
            response = await attempt()
        except LlmError as error:
            cause = _status_name(error)
            status.failures[cause] += 1
            status.last_reason = error.reason
            policy = policies.policy_for(error.kind)
            if policy is None:
                raise
            wait_s = policy.next_wait_s(
                failed_attempts=failures[policy],
                chance=chance(),
                waited_s=waited_s,
                retry_after_s=error.retry_after_s,
            )
            if wait_s is None:
                raise
            if error.kind is LlmErrorKind.RATE_LIMITED:
                # Before the sleep: the other requests must stop while this one waits.
                on_rate_limit(wait_s)
        else:
            return response
        failures[policy] += 1
        waited_s += wait_s
        status.wait = RetryWait(cause, time.time() + wait_s)
        started_s = clock()
        try:
            await sleep(wait_s)
        finally:
            # Also after a cancellation: the rest of the wait did not happen.
            status.waited_s += clock() - started_s
            status.wait = None


def _status_name(error: LlmError) -> str:
    """The HTTP status of a failed attempt, or why there was none."""
    if error.status is not None:
        return str(error.status)
    return _NAMES_WITHOUT_STATUS.get(error.kind, "rejected request")
