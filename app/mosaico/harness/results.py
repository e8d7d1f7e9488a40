"""Result types and figures that both harnesses share, and the exit code that a run deserves."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, Turn
from mosaico.llm.errors import LlmError, LlmErrorKind

MAX_DETAIL_CHARS: Final = 500  # of a refusal beside the figures of an attempt

N = TypeVar("N", int, float)


class AttemptOutcome(StrEnum):
    """The outcome of an attempt: scored, or the reason why it is not scored."""

    SCORED = "scored"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    JUDGE_ERROR = "judge_error"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"

    @property
    def is_agent_failure(self) -> bool:
        """Return whether the agent is responsible: the attempt counts as not passed."""
        return self in (AttemptOutcome.AGENT_ERROR, AttemptOutcome.TIMEOUT)

    @property
    def is_error(self) -> bool:
        """Return whether the attempt is not evidence about the agent: it is reported and not
        scored.
        """
        return self in (AttemptOutcome.INFRA_ERROR, AttemptOutcome.JUDGE_ERROR)


class ConversationEnding(StrEnum):
    """Why the conversation with a model ended; NATURAL means that the model ended it itself.

    All but ERROR are results: the attempt is scored with what the model did until then.
    """

    NATURAL = "natural"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - a limit of tokens
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    TRUNCATED = "truncated"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_WINDOW = "model_context_window_exceeded"  # the answer filled the context
    CONTEXT_LENGTH = "context_length_exceeded"  # the request no longer fits
    ERROR = "error"


class NamedEnding(NamedTuple):
    """The ending of a conversation, and what the model or its provider said about it."""

    ending: ConversationEnding
    detail: str | None = None


_ENDING_OF_STOP: Final = {
    StopReason.TRUNCATED: ConversationEnding.TRUNCATED,
    StopReason.CONTEXT_WINDOW: ConversationEnding.CONTEXT_WINDOW,
    StopReason.REFUSAL: ConversationEnding.REFUSAL,
    StopReason.CONTENT_FILTER: ConversationEnding.CONTENT_FILTER,
}
_ENDING_OF_ERROR: Final = {
    LlmErrorKind.CONTEXT_LENGTH: ConversationEnding.CONTEXT_LENGTH,
    LlmErrorKind.CONTENT_FILTER: ConversationEnding.CONTENT_FILTER,
}


def ending_of_turn(turn: Turn) -> NamedEnding | None:
    """The ending that a turn brings about, whatever else it contains; None when it brings none.

    Tool calls of such a turn may be incomplete and are not to be run.
    """
    ending = _ENDING_OF_STOP.get(turn.stop)
    if ending is None:
        return None
    is_refused = ending in (ConversationEnding.REFUSAL, ConversationEnding.CONTENT_FILTER)
    text = turn.message.text()[:MAX_DETAIL_CHARS]
    return NamedEnding(ending, text if is_refused and text else None)


def ending_of_error(error: LlmError) -> NamedEnding | None:
    """The ending for an error that the conversation itself causes; None for one of the provider."""
    ending = _ENDING_OF_ERROR.get(error.kind)
    return None if ending is None else NamedEnding(ending, error.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRetries:
    """The failed requests of an attempt or run: their number by status, and the waits after them.

    `waited_ms` is part of the duration of the attempt.
    """

    failures: dict[str, int] = field(default_factory=dict)
    waited_ms: float = 0.0

    @property
    def causes(self) -> str:
        """`3 × 503, 2 × 429`; empty without a failure."""
        return ", ".join(f"{count} × {status}" for status, count in self.failures.items())

    def describe(self) -> str:
        """`5 (3 × 503, 2 × 429)`; empty without a failure."""
        return f"{sum(self.failures.values())} ({self.causes})" if self.failures else ""


def sum_retries(parts: Iterable[ProviderRetries]) -> ProviderRetries:
    """The failed requests of several attempts together."""
    listed = list(parts)
    failures: Counter[str] = Counter()
    for part in listed:
        failures.update(part.failures)
    return ProviderRetries(
        failures=dict(failures), waited_ms=sum(part.waited_ms for part in listed)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """Tokens and cost of judge requests, apart from those of the agent; None is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


def hash_content(content: Mapping[str, Any]) -> str:
    """A short hash of what the model sees and what is checked: equal hashes mean comparable tasks."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def attempt_name(task: str, trial: int) -> str:
    """The task, with the number of its trial from the second trial on: `sum #2`."""
    return f"{task} #{trial + 1}" if trial else task


def sum_if_known(numbers: Iterable[N | None]) -> N | int | None:
    """The sum; None when a number is unknown. The sum of nothing is 0."""
    listed = list(numbers)
    known_numbers = [number for number in listed if number is not None]
    return sum(known_numbers) if len(known_numbers) == len(listed) else None


def sum_if_complete(amounts: Sequence[float | None]) -> Any:
    """The sum; None if there is no amount, or if one amount is unknown."""
    return sum_if_known(amounts) if amounts else None


def mean_if_known(numbers: Iterable[float | None]) -> float | None:
    """The mean; None when there is no number or one of them is unknown."""
    listed = list(numbers)
    total = sum_if_complete(listed)
    return None if total is None else total / len(listed)


def sum_of_known(amounts: Sequence[float | None]) -> float | None:
    """The sum of the known amounts; None when no amount is known."""
    known_amounts = [amount for amount in amounts if amount is not None]
    return sum(known_amounts) if known_amounts else None


def pass_rate(passed: int, judged: int) -> float | None:
    """The share of passed attempts; None when no attempt was judged."""
    return passed / judged if judged else None


def last_answer(messages: Sequence[ChatMessage]) -> str | None:
    """The last text of the model; None when it never answered."""
    answers = (
        message.text() for message in reversed(messages) if message.role is MessageRole.ASSISTANT
    )
    return next(answers, None)


class HarnessExit(IntEnum):
    """Exit codes of both harness programs."""

    PASSED = 0
    BELOW = 1
    INVALID = 2
    ERRORS = 3


class GateFigures(NamedTuple):
    """The figures that the gate reads; the pass rate is None when no attempt has a verdict."""

    errored: int
    missing: int
    pass_rate: float | None


def decide_exit(figures: GateFigures, min_pass_rate: float) -> HarnessExit:
    """Errors, missing attempts and a run without verdicts outrank the pass rate: nothing is shown."""
    if figures.errored or figures.missing or figures.pass_rate is None:
        return HarnessExit.ERRORS
    if figures.pass_rate < min_pass_rate:
        return HarnessExit.BELOW
    return HarnessExit.PASSED
