"""Types of an ot-bench run: attempts, calls, evaluations, reports, events."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from mosaico.harness.mcp.config import TaskType
from mosaico.harness.results import (
    AttemptOutcome,
    ConversationEnding,
    JudgeUsage,
    ProviderRetries,
    sum_if_known,
)
from mosaico.llm.conversation import ChatMessage


class AttemptKey(NamedTuple):
    """Identifies an attempt: the task of a file, the model (empty without one), and the trial."""

    file: str
    scenario: str
    task: str
    model: str
    trial: int


class ErrorKind(StrEnum):
    """The kind of error that ended an attempt."""

    CONFIGURATION = "configuration"  # the task cannot run as the file describes it
    SERVER_START = (
        "server_start"  # the server does not start, is not reachable, or exceeds its timeout
    )
    SERVER_DIED = "server_died"  # the server ends, floods its output, or sends invalid JSON-RPC
    TOOL = "tool"  # the tool call of a direct task returned an error
    PROVIDER = "provider"  # the model did not answer
    TIMEOUT = "timeout"  # the attempt exceeded its timeout
    JUDGE = "judge"  # the judge gave no valid score, or an evaluator raised
    RUN_LIMIT = "run_limit"  # the budget of the run was exhausted
    INTERRUPTED = "interrupted"  # the run was interrupted


OUTCOMES = {
    ErrorKind.CONFIGURATION: AttemptOutcome.INFRA_ERROR,
    ErrorKind.SERVER_START: AttemptOutcome.INFRA_ERROR,
    ErrorKind.SERVER_DIED: AttemptOutcome.INFRA_ERROR,
    ErrorKind.TOOL: AttemptOutcome.AGENT_ERROR,
    ErrorKind.PROVIDER: AttemptOutcome.INFRA_ERROR,
    ErrorKind.TIMEOUT: AttemptOutcome.TIMEOUT,
    ErrorKind.JUDGE: AttemptOutcome.JUDGE_ERROR,
    ErrorKind.RUN_LIMIT: AttemptOutcome.SKIPPED,
    ErrorKind.INTERRUPTED: AttemptOutcome.SKIPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError:
    """The error that ended an attempt; `detail` names the server, tool or provider."""

    kind: ErrorKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """One request to the model under test.

    Tokens are None when the provider did not report them: unknown, not zero. `cumulative_input`
    sums the input tokens of this and all earlier requests of the attempt. `latency_ms` includes
    `waited_ms`, the waits before the `retries`.
    """

    input_tokens: int | None
    output_tokens: int | None
    latency_ms: float
    cumulative_input: int | None
    tool_calls_made: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    retries: int = 0
    waited_ms: float = 0.0


class ContentKind(StrEnum):
    """The type of a part of a tool result."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"
    RESOURCE_LINK = "resource_link"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A part of a tool result: its type and, in bytes, its size.

    A recorded part has no text when the text of its call shows it, and no `data`, the image in Base64.
    """

    kind: ContentKind
    text: str | None = None
    mime_type: str | None = None
    size: int | None = None
    data: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolCall:
    """One tool call. `text` is the result as the model received it."""

    server: str
    tool: str
    arguments: dict[str, Any]
    text: str
    is_error: bool
    duration_ms: float
    content: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of one evaluator.

    `passed` is None for a score without a threshold; `score` is from 0 to 1.
    """

    type: str
    passed: bool | None
    reason: str
    expected: str | None = None
    actual: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One attempt at a task: its conversation, tool calls, evaluations and usage.

    `response` is the evaluated text: the last answer, or the error text when an error was expected.
    `ending_detail` is what the model or its provider said about the ending, such as a refusal.
    Attempts with the same `content_hash` are comparable. `system` is the system message; empty also
    where the recording has none.
    """

    file: str
    scenario: str
    task: str
    type: TaskType
    model: str
    servers: tuple[str, ...]
    trial: int
    outcome: AttemptOutcome
    content_hash: str
    tags: tuple[str, ...] = ()
    error: AttemptError | None = None
    ending: ConversationEnding | None = None
    ending_detail: str | None = None
    response: str | None = None
    evaluations: tuple[Evaluation, ...] = ()
    llm_calls: tuple[LlmCall, ...] = ()
    tool_calls: tuple[McpToolCall, ...] = ()
    system: str = ""
    messages: tuple[ChatMessage, ...] = ()
    duration_ms: float = 0.0
    cost_usd: float | None = None
    judge: JudgeUsage | None = None
    retries: ProviderRetries = field(default_factory=ProviderRetries)

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.file, self.scenario, self.task, self.model, self.trial)

    def tool_name(self, call: McpToolCall) -> str:
        """The name of a called tool, with its server when the task has several. A tool that no server has is
        recorded under the name that the model wrote.
        """
        has_server = len(self.servers) > 1 and call.server
        return f"{call.server}__{call.tool}" if has_server else call.tool

    @property
    def natural_stop(self) -> bool:
        """Return whether the model ended the conversation itself."""
        return self.ending is ConversationEnding.NATURAL

    @property
    def passed(self) -> bool | None:
        """Return whether every evaluation passed; None without evaluations or after an error.

        False when the agent failed: a crash must not look better than a wrong answer.
        """
        if self.outcome.is_agent_failure:
            return False
        verdicts = [
            evaluation.passed for evaluation in self.evaluations if evaluation.passed is not None
        ]
        if self.outcome is not AttemptOutcome.SCORED or not verdicts:
            return None
        return all(verdicts)

    def failures(self) -> list[str]:
        """The evaluations that were not met, each with its reason."""
        return [
            f"{' '.join(filter(None, (evaluation.type, evaluation.expected)))}: {evaluation.reason}"
            for evaluation in self.evaluations
            if evaluation.passed is False
        ]

    def failure_reason(self) -> str:
        """Return the reason why the attempt did not pass: its error, else the unmet evaluations;
        empty when it did.
        """
        if self.error is not None:
            return f"{self.error.kind.replace('_', ' ')}: {self.error.detail}"
        return "; ".join(self.failures())

    @property
    def input_tokens(self) -> int | None:
        """Input tokens of all requests; None when one request did not report them."""
        return sum_if_known(call.input_tokens for call in self.llm_calls)

    @property
    def output_tokens(self) -> int | None:
        """Output tokens of all requests; None when one request did not report them."""
        return sum_if_known(call.output_tokens for call in self.llm_calls)

    @property
    def cached_tokens(self) -> int:
        """Input tokens that were read from a cache, as far as they were reported."""
        return sum(call.cached_tokens for call in self.llm_calls)

    @property
    def cache_write_tokens(self) -> int:
        """Input tokens that were written to a cache, as far as they were reported."""
        return sum(call.cache_write_tokens for call in self.llm_calls)

    @property
    def base_context(self) -> int | None:
        """Input tokens of the first request: system message, tool schemas and first prompt."""
        return self.llm_calls[0].input_tokens if self.llm_calls else None

    @property
    def context_growth_avg(self) -> float | None:
        """The mean growth of the input per request; 0 for one request, None when unknown."""
        inputs = [call.input_tokens for call in self.llm_calls]
        counts = [count for count in inputs if count is not None]
        if not counts or len(counts) < len(inputs):
            return None
        return (counts[-1] - counts[0]) / (len(counts) - 1) if len(counts) > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """A tool as its server lists it; `tokens` estimates its name, description and schema."""

    name: str
    description: str
    input_schema: dict[str, Any]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts of a server at its first start; part of the comparability of runs.

    `remarks` say what of its lists is left out or changed for models.
    """

    file: str
    name: str
    version: str | None
    instructions: str | None
    tools: tuple[ToolFacts, ...]
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    start_ms: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(tool.tokens for tool in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpReport:
    """A whole run: the source of every other report.

    `planned` counts the planned attempts; an `interrupted` run has fewer results.
    """

    timestamp: str
    planned: int
    results: tuple[TaskResult, ...]
    servers: tuple[ServerFacts, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        return len(self.results) >= self.planned


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegan:
    """Event: an attempt begins."""

    key: AttemptKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """Event: an attempt has ended; the listener stores its result."""

    result: TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeen:
    """Event: a server started for the first time, or restarted with other tools."""

    facts: ServerFacts
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Event: a line of the request log, for debugging."""

    key: AttemptKey
    line: str


Event: TypeAlias = AttemptBegan | AttemptEnded | ServerSeen | Traced
Listener: TypeAlias = Callable[[Event], None]
