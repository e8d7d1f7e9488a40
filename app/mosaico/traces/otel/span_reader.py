"""Reads the content of a span in the conventions of the instrumentation libraries.

The dialects are the GenAI semantic conventions (with the older names of traceloop), OpenInference and
Langfuse. A span can mix them, and names of schemas are mostly empty: each field is read from the first
of its attributes that is present.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mosaico.traces.messages import (
    ASSISTANT_ROLES,
    REDACTED,
    USER_ROLES,
    Message,
    canonical_text,
    last_text,
    parse_arguments,
    parse_value,
    read_indexed,
    read_messages,
)
from mosaico.traces.otel.spans import Span
from mosaico.traces.reported_usage import ReportedUsage, drop_unknown_zeros
from mosaico.traces.value_text import NoText, TextRole, read_text


class SpanKind(StrEnum):
    """The kind of operation that a span records."""

    MODEL = "model"
    EMBEDDING = "embedding"
    TOOL = "tool"
    EVALUATOR = "evaluator"
    OTHER = "other"


# In this order: the first attribute of a span that names a known kind decides.
_KINDS: Final[Mapping[str, Mapping[str, SpanKind]]] = {
    "langfuse.observation.type": {
        "generation": SpanKind.MODEL,
        "embedding": SpanKind.EMBEDDING,
        "tool": SpanKind.TOOL,
        "evaluator": SpanKind.EVALUATOR,
        "agent": SpanKind.OTHER,
    },
    "openinference.span.kind": {
        "LLM": SpanKind.MODEL,
        "EMBEDDING": SpanKind.EMBEDDING,
        "TOOL": SpanKind.TOOL,
        "EVALUATOR": SpanKind.EVALUATOR,
        "AGENT": SpanKind.OTHER,
        "CHAIN": SpanKind.OTHER,
    },
    "gen_ai.operation.name": {
        "chat": SpanKind.MODEL,
        "text_completion": SpanKind.MODEL,
        "generate_content": SpanKind.MODEL,
        "embeddings": SpanKind.EMBEDDING,
        "execute_tool": SpanKind.TOOL,
        "invoke_agent": SpanKind.OTHER,
        "create_agent": SpanKind.OTHER,
    },
    "llm.request.type": {
        "chat": SpanKind.MODEL,
        "completion": SpanKind.MODEL,
        "embedding": SpanKind.EMBEDDING,
    },
    "traceloop.span.kind": {"tool": SpanKind.TOOL, "agent": SpanKind.OTHER},
}
_EVALUATION_SPAN: Final = "experiment-item-evaluation"  # of experiments of the Langfuse SDK
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name")
_MODELS: Final = (
    "langfuse.observation.model.name",
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
)
_INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    # The keys of `langfuse.observation.usage_details`.
    "prompt_tokens",
    "input_tokens",
    "input",
)
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "completion_tokens",
    "output_tokens",
    "output",
)
_LANGFUSE_USAGE: Final = "langfuse.observation.usage_details"
_LANGFUSE_COST: Final = "langfuse.observation.cost_details"
_COSTS: Final = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total")
_MESSAGES: Final = {
    "input": ("gen_ai.input.messages", "llm.input_messages.", "gen_ai.prompt."),
    "output": ("gen_ai.output.messages", "llm.output_messages.", "gen_ai.completion."),
}
_FIRST_VALUES: Final = {
    "input": ("langfuse.observation.input",),
    "output": ("langfuse.observation.output",),
}
# Attributes that can hold any value, such as the arguments of a function. Messages say more exactly
# what the user asked, so these attributes come last.
_LAST_VALUES: Final = {
    "input": (
        "input.value",
        "traceloop.entity.input",
        "pydantic_ai.all_messages",
        "langfuse.trace.input",
    ),
    "output": (
        "output.value",
        "traceloop.entity.output",
        "final_result",
        "pydantic_ai.all_messages",
        "langfuse.trace.output",
    ),
}
_ROLES: Final = {"input": USER_ROLES, "output": ASSISTANT_ROLES}
_TEXT_ROLES: Final = {"input": TextRole.QUESTION, "output": TextRole.ANSWER}
_TOOL_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "langfuse.observation.input",
    "input.value",
    "traceloop.entity.input",
)
_CALL_IDS: Final = ("gen_ai.tool.call.id", "tool_call.id")


class SpanReading(NamedTuple):
    """The content of a span; None is unknown.

    `input` and `output` are texts: of messages those of the last user and of the assistant. They are
    "" when messages are recorded and none of them has a text.
    """

    kind: SpanKind
    model: str | None
    input: str | None
    output: str | None
    input_messages: tuple[Message, ...]
    output_messages: tuple[Message, ...]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    error: str | None


class ToolReading(NamedTuple):
    """The tool that a span ran."""

    name: str
    call_id: str | None
    arguments: Mapping[str, Any] | None


def read_span(span: Span) -> SpanReading:
    """Read a span; every field is unknown in a span that no known library wrote."""
    attributes = span.attributes
    usage = _usage(attributes)
    input_messages, output_messages = _messages(span, "input"), _messages(span, "output")
    return SpanReading(
        kind=read_kind(span),
        model=_first_text(attributes, _MODELS),
        input=_text(span, "input", input_messages),
        output=_text(span, "output", output_messages),
        input_messages=input_messages,
        output_messages=output_messages,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        error=read_error(span),
    )


def hides_output(span: Span) -> bool:
    """Return whether the writer replaced the output, as OpenInference does with
    OPENINFERENCE_HIDE_OUTPUTS.
    """
    return any(span.attributes.get(name) == REDACTED for name in _LAST_VALUES["output"])


def read_kind(span: Span) -> SpanKind:
    """Return the kind of a span, by the first attribute that defines it."""
    for name, kinds in _KINDS.items():
        value = span.attributes.get(name)
        if isinstance(value, str) and (kind := kinds.get(value)) is not None:
            return kind
    if span.name == _EVALUATION_SPAN:
        return SpanKind.EVALUATOR
    if _first_text(span.attributes, _TOOL_NAMES) is not None:
        return SpanKind.TOOL
    return SpanKind.OTHER


def read_tool(span: Span) -> ToolReading:
    """The tool of a span of the kind `TOOL`."""
    values = (span.attributes.get(name) for name in _TOOL_ARGUMENTS)
    return ToolReading(
        name=_first_text(span.attributes, _TOOL_NAMES) or span.name,
        call_id=_first_text(span.attributes, _CALL_IDS),
        arguments=parse_arguments(next((value for value in values if value is not None), None)),
    )


def read_error(span: Span) -> str | None:
    """Return the reason why the work of a span failed; None when it did not fail."""
    level = span.attributes.get("langfuse.observation.level")
    if not span.failed and level != "ERROR":
        return None
    exception = find_exception(span)
    messages = (
        span.attributes.get("langfuse.observation.status_message"),
        # Before the status, which some libraries fill with a traceback.
        exception.get("exception.message"),
        span.status_message,
        find_error_type(span),
    )
    message = next((text for text in messages if isinstance(text, str) and text), None)
    # A failed trace always has an error, which the reader of a report sees.
    return message or "the span failed without a message"


def find_error_type(span: Span) -> str | None:
    """The class of the error of a span, without its module; None when it is not named."""
    for value in (
        span.attributes.get("error.type"),
        find_exception(span).get("exception.type"),
    ):
        if isinstance(value, str) and value:
            return value.rpartition(".")[2]
    return None


def find_exception(span: Span) -> Mapping[str, Any]:
    """The attributes of the last exception of a span; empty when it has none."""
    events = (event.attributes for event in reversed(span.events) if event.name == "exception")
    return next(events, {})


def _messages(span: Span, side: str) -> tuple[Message, ...]:
    """The messages of one side of a model call or an agent."""
    for name in (*_FIRST_VALUES[side], *_MESSAGES[side], *_LAST_VALUES[side]):
        if name.endswith("."):
            messages = read_messages(read_indexed(span.attributes, name))
        else:
            messages = read_messages(parse_value(span.attributes.get(name)))
        # An attribute whose messages are all empty does not hide the next attribute.
        if any(message.text or message.tool_calls for message in messages):
            return messages
    return ()


def _text(span: Span, side: str, messages: Sequence[Message]) -> str | None:
    if (text := _first_value_text(span, _FIRST_VALUES[side], side)) is not None:
        return text
    if messages and (text := last_text(messages, _ROLES[side])) is not None:
        return text
    return _first_value_text(span, _LAST_VALUES[side], side)


def _first_value_text(span: Span, names: Sequence[str], side: str) -> str | None:
    texts = (_value_text(span.attributes.get(name), side) for name in names)
    return next((text for text in texts if text is not None), None)


def _value_text(value: Any, side: str) -> str | None:
    """The text of an attribute: that of its messages or of a response, or else the value itself."""
    if value is None or value == REDACTED:
        return None
    reading = read_text(value, _TEXT_ROLES[side], is_encoded=True)
    if reading.reason is NoText.TOOL_CALLS:
        return ""
    if reading.is_unwrapped:
        return reading.text
    return None if reading.reason is NoText.HIDDEN else canonical_text(value)


def _first_text(attributes: Mapping[str, Any], names: Sequence[str]) -> str | None:
    values = (attributes.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), None)


def _usage(attributes: Mapping[str, Any]) -> ReportedUsage:
    # Langfuse has its usage in one JSON attribute, whose keys are looked up like attributes.
    amounts = {**attributes, **(parse_arguments(attributes.get(_LANGFUSE_USAGE)) or {})}
    return drop_unknown_zeros(
        _count(amounts, _INPUT_TOKENS), _count(amounts, _OUTPUT_TOKENS), _cost(attributes)
    )


def _count(amounts: Mapping[str, Any], names: Sequence[str]) -> int | None:
    number = _first_number(amounts, names)
    return None if number is None else int(number)


def _cost(attributes: Mapping[str, Any]) -> float | None:
    details = parse_arguments(attributes.get(_LANGFUSE_COST)) or {}
    total = _first_number(details, ("total",))
    if total is not None or not details:
        return total if total is not None else _first_number(attributes, _COSTS)
    # Without a total the cost is the sum of its parts, such as input and output.
    parts = [_first_number(details, (name,)) for name in details]
    known_parts = [part for part in parts if part is not None]
    return sum(known_parts) if known_parts else None


def _first_number(amounts: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """The first finite number that is not negative."""
    for name in names:
        value = amounts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A larger integer of a hostile span would raise an error in the conversion, or not fit
            # into its column.
            number = float(value) if abs(value) < 2**63 else math.inf
            if math.isfinite(number) and number >= 0:
                return number
    return None
