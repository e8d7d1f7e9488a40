"""The form of a row of the table: where one convention writes each field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mosaico.traces.otel.places import Place, Where, attribute, read_number


class SpanKind(StrEnum):
    """The kind of operation that a span records."""

    MODEL = "model"
    EMBEDDING = "embedding"
    TOOL = "tool"
    EVALUATOR = "evaluator"
    OTHER = "other"
    # Nothing says its kind, and it has a model and tokens: a call of the model, or a wrapper with its sums.
    LIKELY_MODEL = "likely model"


# The place of a kind that only the name of a span tells.
SPAN_NAME: Final = Place("", lambda span: span.name, Where.SPAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Where one convention writes each field.

    `kinds` are the values of an attribute that say the kind of a span. `usage` are documents with all tokens of a call. `input_tokens` may or may not contain the tokens of caches;
    `EXCLUSIVE_INPUTS` says which. `reasoning_on_top` are output tokens that the output count lacks.
    """

    kinds: Mapping[Place, Mapping[str, SpanKind]] = field(default_factory=dict)
    input: tuple[Place, ...] = ()
    output: tuple[Place, ...] = ()
    usage: tuple[Place, ...] = ()
    input_tokens: tuple[Place, ...] = ()
    output_tokens: tuple[Place, ...] = ()
    reasoning_on_top: tuple[Place, ...] = ()
    cache_read: tuple[Place, ...] = ()
    cache_write: tuple[Place, ...] = ()
    total_tokens: tuple[Place, ...] = ()
    cost: tuple[Place, ...] = ()
    model: tuple[Place, ...] = ()
    provider: tuple[Place, ...] = ()
    session: tuple[Place, ...] = ()
    user: tuple[Place, ...] = ()
    tool_name: tuple[Place, ...] = ()
    tool_call_id: tuple[Place, ...] = ()
    tool_arguments: tuple[Place, ...] = ()
    tool_result: tuple[Place, ...] = ()


def kinds(
    *, model: str = "", embedding: str = "", tool: str = "", evaluator: str = "", other: str = ""
) -> Mapping[str, SpanKind]:
    """The kinds by the words that say them, which spaces separate."""
    words = {
        SpanKind.MODEL: model,
        SpanKind.EMBEDDING: embedding,
        SpanKind.TOOL: tool,
        SpanKind.EVALUATOR: evaluator,
        SpanKind.OTHER: other,
    }
    return {word: kind for kind, text in words.items() for word in text.split()}


def numbers(*names: str) -> tuple[Place, ...]:
    """Attributes that hold numbers."""
    return tuple(attribute(name, read_number) for name in names)
