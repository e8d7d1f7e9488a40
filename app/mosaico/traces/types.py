"""The trace: the common form in which every source delivers what an agent did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from mosaico.harness.transcript import Transcript

# The number of items of a complete run; None: those of the dataset.
ExpectedItems: TypeAlias = Annotated[int, Field(ge=1)] | Literal["any"] | None


# The limits of their columns.
MAX_ID_CHARS: Final = 256
MAX_TRIAL: Final = 2**15 - 1
# Of the value of an attribute, where it is used as a tag.
MAX_TAG_VALUE_CHARS: Final = 256


class TraceOutcome(StrEnum):
    """The outcome of a trace.

    `scored`: the agent answered. `agent_error` and `timeout`: the agent failed, and quality
    metrics get their worst value. `infra_error` and `judge_error`: the agent is not responsible;
    metrics are skipped, and the run counts the trace as an error.
    """

    SCORED = "scored"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    JUDGE_ERROR = "judge_error"
    TIMEOUT = "timeout"

    @property
    def is_agent_failure(self) -> bool:
        return self in _AGENT_FAILURES

    @property
    def is_missing(self) -> bool:
        return self in _MISSING


# Looked up once: access to enum members is slow, and these are read several times for each trace.
_AGENT_FAILURES: Final = frozenset({TraceOutcome.AGENT_ERROR, TraceOutcome.TIMEOUT})
_MISSING: Final = frozenset({TraceOutcome.INFRA_ERROR, TraceOutcome.JUDGE_ERROR})

# By stored value: a look-up takes a tenth of the time of `TraceOutcome(value)`.
OUTCOMES: Final[Mapping[str, TraceOutcome]] = {str(outcome): outcome for outcome in TraceOutcome}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call of the agent; `ok` is None when the source does not report the outcome."""

    name: str
    arguments: Mapping[str, Any] | None = None
    ok: bool | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One attempt (`trial`) of an agent at one item of a dataset.

    Texts are None when the source recorded none. An `output` of "" is the answer of an agent that was
    asked and said nothing: quality metrics get their worst value. `expected_any` are several right answers, of which one
    is enough, `expected_all` several that an answer must fit: metrics take the best or the worst of their values. The first of
    them is the `expected_output`. Tokens, cost,
    latency, tool calls and `turns` (model responses) are those of the agent without evaluators;
    None when the source does not report them, and for a cost also when no price is known.
    `attributes` are further properties by name: `session`, `user`, `release`, `version`,
    `environment`, `name`, and the metadata of the trace and its item. `scores` are the scores that the source delivers. `transcript` shows the work of the agent; it is
    None when the source has none.
    """

    trace_id: str
    item_id: str
    trial: int = 0
    outcome: TraceOutcome = TraceOutcome.SCORED
    input: str | None = None
    expected_output: str | None = None
    expected_any: tuple[str, ...] = ()
    expected_all: tuple[str, ...] = ()
    output: str | None = None
    error: str | None = None
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    turns: int | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    # Not compared: what is measured does not depend on it.
    transcript: Transcript | None = field(default=None, repr=False, compare=False)

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The tags, and each attribute as the tag `name:value`: what clusters, categories and filtered
        metrics use. A long value is cut, as a comparison holds the tags of all traces.
        """
        attributes = self.attributes.items()
        return (
            *self.tags,
            *(f"{name}:{value[:MAX_TAG_VALUE_CHARS]}" for name, value in attributes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetItem:
    """One item of a dataset: the input of the agent, and the expected answer if there is one, or several as in a
    trace.
    """

    id: str
    input: str
    expected_output: str | None = None
    expected_any: tuple[str, ...] = ()
    expected_all: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
