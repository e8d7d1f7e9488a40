"""Types of a bash evaluation: tasks, traces, scores, results, summaries.

Names and fields are those of the original evaluation (spec 013), so that its result files can be
read; fields that it did not record have defaults.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from mosaico.harness.judge import JudgeScore
from mosaico.harness.results import (
    AttemptOutcome,
    ConversationEnding,
    ProviderRetries,
    hash_content,
    sum_if_known,
)
from mosaico.harness.transcript import TranscriptRequest
from mosaico.llm.conversation import ChatMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A check that must pass, such as `exit_code:0`, and its weight."""

    check: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalTask:
    """A task of a dataset. `files` maps absolute paths to the texts that exist at the start."""

    id: str
    category: str
    description: str
    prompt: str
    expectations: tuple[Expectation, ...]
    system: str | None = None
    files: dict[str, str] = field(default_factory=dict)

    def content_hash(self) -> str:
        """Identifies what the model sees and what is checked: equal hashes mean comparable tasks."""
        content = asdict(self)
        del content["category"], content["description"]  # labels for people
        return hash_content(content)

    def max_score(self) -> float:
        return sum(expectation.weight for expectation in self.expectations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResult:
    """One call of the sandboxed bash; `timeout_ms` is the timeout that the model set.

    With `ran` false the call was not run: it is an error, and `stderr` contains the reason.
    `duration_ms` is None for such a call, and where the recording has no duration.
    """

    commands: str
    stdout: str
    stderr: str
    exit_code: int
    timeout_ms: int | None = None
    ran: bool = True
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrace:
    """The work of a model on one task.

    Tokens are None when the provider did not report them: unknown, not zero. `ending` is None in
    recordings of the original evaluation, which recorded only whether the stop was natural.
    `ending_detail` is what the model or its provider said about the ending, such as a refusal.
    `requests` describes the requests behind the messages of the model, in order. `system` is the
    system message; None where the recording has none.
    """

    messages: tuple[ChatMessage, ...]
    tool_calls: tuple[ToolCallResult, ...]
    tool_call_count: int
    turns: int
    last_tool_response: ToolCallResult | None
    natural_stop: bool
    total_input_tokens: int | None
    total_output_tokens: int | None
    duration_ms: int
    total_cached_tokens: int = 0
    total_cache_write_tokens: int = 0
    ending: ConversationEnding | None = None
    ending_detail: str | None = None
    cost_usd: float | None = None
    requests: tuple[TranscriptRequest, ...] = ()
    system: str | None = None
    retries: ProviderRetries = field(default_factory=ProviderRetries)

    def total_tokens(self) -> int | None:
        """Input and output tokens; None when the provider did not report them."""
        return sum_if_known([self.total_input_tokens, self.total_output_tokens])

    def calls_ok(self) -> int:
        return sum(call.exit_code == 0 for call in self.tool_calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """The result of one check."""

    check: str
    passed: bool
    detail: str
    weight: float
    judge_score: JudgeScore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """The results of the checks of one task; `score` is the weight of those that passed."""

    task_id: str
    results: tuple[ScoreResult, ...]
    score: float
    max_score: float

    def all_passed(self) -> bool:
        """Return whether every check passed, whatever its weight."""
        return all(result.passed for result in self.results)

    def rate(self) -> float:
        """The share of the weight that passed; 1 when no check has a weight."""
        return self.score / self.max_score if self.max_score > 0 else 1.0


class BashAttemptKey(NamedTuple):
    """Identifies an attempt within a run; an edited task is another task."""

    content_hash: str
    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """One attempt at a task. Without a score, `reason` is set and the trace may be partial."""

    task: EvalTask
    trace: AgentTrace | None = None
    score: TaskScore | None = None
    trial: int = 0
    outcome: AttemptOutcome = AttemptOutcome.SCORED
    reason: str | None = None

    @property
    def key(self) -> BashAttemptKey:
        return BashAttemptKey(self.task.content_hash(), self.trial)

    def passed(self) -> bool:
        return self.score is not None and self.score.all_passed()

    def failures(self) -> list[str]:
        """The checks that were not met, each with its detail; empty without a score."""
        checks = self.score.results if self.score is not None else ()
        return [f"{check.check}: {check.detail}" for check in checks if not check.passed]


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySummary:
    """The scored attempts of one category; `rate` is their score over the maximum score."""

    tasks: int
    passed: int
    score: float
    max_score: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSummary:
    """The figures of a run.

    `total_tasks` counts every attempt, errored ones included; scores, rates, turns and tool calls are
    those of the scored attempts. Rates are None when the divisor is 0; averages are per attempt with a trace. `total_cost_usd` sums the known costs and is None when none is known;
    `tasks_without_cost` counts the attempts that are missing in it.
    """

    total_tasks: int
    total_passed: int
    total_score: float
    total_max_score: float
    pass_rate: float | None
    overall_rate: float | None
    tasks_scored: int
    tasks_errored: int
    tasks_skipped: int
    error_reasons: dict[str, int]
    skip_reasons: dict[str, int]
    natural_stops: int
    natural_stop_rate: float | None
    total_turns: int
    total_tool_calls: int
    tool_calls_ok: int
    tool_calls_error: int
    tool_call_success_rate: float
    errors_adapted: int
    errors_repeated: int
    total_input_tokens: int
    total_output_tokens: int
    total_cached_tokens: int
    total_cache_write_tokens: int
    tasks_without_usage: int
    total_cost_usd: float | None
    tasks_without_cost: int
    judge_input_tokens: int
    judge_output_tokens: int
    judge_cost_usd: float | None
    total_duration_ms: int
    avg_turns_per_task: float
    avg_tool_calls_per_task: float
    avg_duration_ms: float
    by_category: dict[str, CategorySummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """A whole run: the source of every other report.

    `settings` records versions, limits and the system prompt.
    """

    provider: str
    model: str
    timestamp: str
    max_turns: int
    results: tuple[EvalResult, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def title(self) -> str:
        return f"{self.provider}/{self.model}"
