"""A model whose request in flight is known when an attempt times out.

A timeout that strikes while the provider is awaited is an error of the provider, not of the agent:
counted as a failed attempt, an outage would read as a drop of quality.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from mosaico.harness.budget import Budget, turn_within_budget
from mosaico.harness.results import ProviderRetries
from mosaico.harness.transcript import TranscriptRequest
from mosaico.llm.conversation import ChatMessage, Llm, Tool, Turn, user_message
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.retry import RetryStatus, RetryWait, track_retries


class WatchedLlm:
    """The model of one attempt; remembers its unanswered request and the retries of every request.

    `requests` describes the answered ones, in order.
    """

    def __init__(self, llm: Llm) -> None:
        self.model = llm.model
        self._llm = llm
        self.requests: list[TranscriptRequest] = []
        self._requests = 0
        self._sent_at: float | None = None
        self._retries = RetryStatus()
        self._failures: Counter[str] = Counter()
        self._waited_s = 0.0

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the model. Raises: LlmError."""
        self._requests += 1
        self._sent_at = time.monotonic()
        try:
            with track_retries() as self._retries:
                turn = await self._llm.turn(system, messages, tools)
        finally:
            self._failures.update(self._retries.failures)
            self._waited_s += self._retries.waited_s
        usage, retries = turn.usage, self._retries
        self.requests.append(
            TranscriptRequest(
                input_tokens=usage.input_tokens if usage else None,
                output_tokens=usage.output_tokens if usage else None,
                cached_tokens=usage.cached_tokens or None if usage else None,
                cache_write_tokens=usage.cache_write_tokens or None if usage else None,
                latency_ms=1000 * (time.monotonic() - self._sent_at),
                waited_ms=1000 * retries.waited_s,
                retries=retries.failures.total(),
            )
        )
        # Not reset by an exception: a cancelled request is the one that the timeout waited for.
        self._sent_at = None
        return turn

    def current_wait(self) -> RetryWait | None:
        """The wait before a retry that is in progress."""
        return self._retries.wait

    def retries(self) -> ProviderRetries:
        """The failed requests of the attempt, those of a request without an answer included."""
        return ProviderRetries(failures=dict(self._failures), waited_ms=1000 * self._waited_s)

    def timeout_error(self, timeout_s: float) -> LlmError | None:
        """The error of an attempt that timed out; None when it was not waiting for the model."""
        if self._sent_at is None:
            return None
        waited_s = time.monotonic() - self._sent_at
        if self._retries.failures:
            reason = (
                f"timed out after {self._retries.describe()} within {timeout_s:g} s"
                f" (last: {self._retries.last_reason})"
            )
        else:
            reason = (
                f"timed out after {timeout_s:g} s: no response to request {self._requests}"
                f" for {waited_s:.1f} s"
            )
        return LlmError(reason, kind=LlmErrorKind.TIMEOUT)


async def turn_within(llm: Llm, system: str, prompt: str, timeout_s: float, budget: Budget) -> Turn:
    """One answer to one prompt, counted in the budget.

    Raises: LlmError, also when `timeout_s` seconds have passed; RunBudgetExhausted.
    """
    watched = WatchedLlm(llm)
    try:
        async with asyncio.timeout(timeout_s):
            return await turn_within_budget(watched, budget, system, [user_message(prompt)], [])
    except TimeoutError:
        error = watched.timeout_error(timeout_s)
        raise error or LlmError("timed out", kind=LlmErrorKind.TIMEOUT) from None
