"""What running a benchmark comes to: one model of results that every report is made of."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from app.harness.mcp.config import TaskType
from app.harness.results import AttemptOutcome, ConversationEnding, JudgeUsage, sum_if_known
from app.llm.conversation import ChatMessage


class AttemptKey(NamedTuple):
    """Which attempt it is: a task of a file, tried by a model (none asked: empty) for the nth time."""

    file: str
    scenario: str
    task: str
    model: str
    trial: int


class ErrorKind(StrEnum):
    """What went wrong with an attempt."""

    SERVER_START = (
        "server_start"  # does not start, cannot be reached, takes longer than its timeout
    )
    SERVER_DIED = "server_died"  # ends, floods, or speaks no JSON-RPC while it is used
    TOOL = "tool"  # a direct call was answered with an error
    PROVIDER = "provider"  # the model gave no answer
    TIMEOUT = "timeout"  # the attempt took longer than its timeout
    JUDGE = "judge"  # the judge gave no score, or an evaluator failed
    RUN_LIMIT = "run_limit"  # the whole run had used what it may before this was done
    INTERRUPTED = "interrupted"  # somebody ended the run


OUTCOMES = {
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
    """Why an attempt came to no answer; `detail` names the server, tool or provider."""

    kind: ErrorKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """One request to the model under test.

    Tokens are None when the provider does not tell them: unknown, not zero. `cumulative_input` is
    the input of this and all earlier calls of the attempt.
    """

    input_tokens: int | None
    output_tokens: int | None
    latency_ms: float
    cumulative_input: int | None
    tool_calls_made: int


class ContentKind(StrEnum):
    """What a part of a tool's result is."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"
    RESOURCE_LINK = "resource_link"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A part of a tool's result; of what is no text only type and size are kept."""

    kind: ContentKind
    text: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolCall:
    """One call of a tool of a server. `text` is what the model was given of the result."""

    server: str
    tool: str
    arguments: dict[str, Any]
    text: str
    is_error: bool
    duration_ms: float
    content: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one evaluator says of an answer.

    `passed` is None for a score that has no threshold; `score` is on a scale from 0 to 1.
    """

    type: str
    passed: bool | None
    reason: str
    expected: str | None = None
    actual: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One attempt at one task: what was said and called, what was judged, what it took.

    `response` is what was evaluated: the last answer, or the text of the error when one was
    expected. `content_hash` tells whether two attempts were asked the same.
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
    response: str | None = None
    evaluations: tuple[Evaluation, ...] = ()
    llm_calls: tuple[LlmCall, ...] = ()
    tool_calls: tuple[McpToolCall, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    duration_ms: float = 0.0
    cost_usd: float | None = None
    judge: JudgeUsage | None = None

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.file, self.scenario, self.task, self.model, self.trial)

    @property
    def natural_stop(self) -> bool:
        """Whether the model ended the conversation by itself."""
        return self.ending is ConversationEnding.NATURAL

    @property
    def passed(self) -> bool | None:
        """Whether all that was to be met is met; None when nothing was to be met or it erred."""
        verdicts = [each.passed for each in self.evaluations if each.passed is not None]
        if self.outcome is not AttemptOutcome.SCORED or not verdicts:
            return None
        return all(verdicts)

    def failures(self) -> list[str]:
        """The evaluations that were not met, each with its reason."""
        return [
            f"{evaluation.type} {evaluation.expected or ''}: {evaluation.reason}"
            for evaluation in self.evaluations
            if evaluation.passed is False
        ]

    def failure_reason(self) -> str:
        """Why the attempt did not pass: its error, else the unmet evaluations; empty when it did."""
        if self.error is not None:
            return f"{self.error.kind.replace('_', ' ')}: {self.error.detail}"
        return "; ".join(self.failures())

    @property
    def input_tokens(self) -> int | None:
        """Tokens read over all calls; None when a call did not tell its own."""
        return sum_if_known(call.input_tokens for call in self.llm_calls)

    @property
    def output_tokens(self) -> int | None:
        """Tokens written over all calls; None when a call did not tell its own."""
        return sum_if_known(call.output_tokens for call in self.llm_calls)

    @property
    def base_context(self) -> int | None:
        """The input of the first call: system message, schemas of the tools, first prompt."""
        return self.llm_calls[0].input_tokens if self.llm_calls else None

    @property
    def context_growth_avg(self) -> float | None:
        """The mean growth of the input from call to call; 0 for one call, None if untold."""
        inputs = [call.input_tokens for call in self.llm_calls]
        known = [count for count in inputs if count is not None]
        if not known or len(known) < len(inputs):
            return None
        return (known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """A tool as its server listed it; `tokens` is what its name, text and schema take."""

    name: str
    description: str
    input_schema: dict[str, Any]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A server as it introduced itself at its first start; part of what makes runs comparable."""

    file: str
    name: str
    version: str | None
    instructions: str | None
    tools: tuple[ToolFacts, ...]
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    start_ms: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(tool.tokens for tool in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpReport:
    """A whole run, the file that everything else is derived from.

    `planned` counts the attempts that were to be made; a run that was ended early has fewer
    results and says so in `interrupted`.
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
    """An attempt begins."""

    key: AttemptKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt came to its end; whoever listens keeps the result."""

    result: TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeen:
    """A server started for the first time, or came back with other tools than before."""

    facts: ServerFacts
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A line of the cycle of requests and answers, for whoever looks for a fault."""

    key: AttemptKey
    line: str


Event: TypeAlias = AttemptBegan | AttemptEnded | ServerSeen | Traced
Listener: TypeAlias = Callable[[Event], None]
