"""The rows in the order of precedence, and the exceptions from them: what `span_reader` follows.

To add a framework: a row in the file of its family, its place in `CONVENTIONS`, and a fixture in
`tests/support/otel_frameworks`. What a library writes under its own names comes before the conventions that it also follows,
and values of any kind come last. Within a row the first place that is filled counts. Facts by version: docs/otel-mapping.md.
"""

from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from typing import Final, NamedTuple

from mosaico.traces.messages import REDACTED
from mosaico.traces.otel.convention_row import Convention
from mosaico.traces.otel.framework_rows import (
    AI_SDK,
    CLAUDE_CODE,
    CREWAI,
    GENKIT,
    GOOGLE_ADK,
    HAYSTACK,
    LIVEKIT,
    LLAMA_INDEX,
    PYDANTIC_AI,
    SPRING_AI,
    VOLTAGENT,
)
from mosaico.traces.otel.library_rows import (
    GENAI,
    LOGFIRE,
    OPENINFERENCE,
    TRACELOOP,
    VALUES,
)
from mosaico.traces.otel.places import Place, attributes
from mosaico.traces.otel.platform_rows import (
    BRAINTRUST,
    DIFY,
    LAMINAR,
    LANGFUSE,
    LANGSMITH,
    LITELLM,
    MLFLOW,
)

CONVENTIONS: Final = (
    *(LANGFUSE, GENKIT, AI_SDK, GOOGLE_ADK, PYDANTIC_AI, MLFLOW, LANGSMITH, CLAUDE_CODE, HAYSTACK),
    *(BRAINTRUST, CREWAI, LLAMA_INDEX, LIVEKIT, VOLTAGENT, OPENINFERENCE, SPRING_AI, DIFY, LAMINAR),
    *(LITELLM, GENAI, TRACELOOP, LOGFIRE, VALUES),
)


class ExclusiveInput(NamedTuple):
    """A writer whose input tokens lack those of the cache: its scope, and where set the provider, the first version
    that counts them in, and an attribute that its spans have or lack.
    """

    scope: str
    provider: str = ""
    before: str = ""
    has: str = ""
    lacks: str = ""


# The same attributes mean the opposite in other libraries. Facts: sources of the libraries, November 2026.
EXCLUSIVE_INPUTS: Final = (
    ExclusiveInput("openlit", provider="anthropic"),
    ExclusiveInput("opentelemetry.instrumentation.botocore"),
    ExclusiveInput("opentelemetry.instrumentation.bedrock"),
    ExclusiveInput("opentelemetry.instrumentation.llamaindex", provider="anthropic"),
    ExclusiveInput("openinference.instrumentation.anthropic", before="0.1.14"),
    # The AI SDK before version 6, whose users can name the scope.
    ExclusiveInput(
        "",
        provider="anthropic",
        has="ai.operationId",
        lacks="ai.usage.inputTokenDetails.noCacheTokens",
    ),
    ExclusiveInput("", has="cache_read_tokens"),  # Claude Code
)

# Spans with these names of tools are runs of tools, if nothing else says their kind.
TOOL_MARKS: Final = attributes("gen_ai.tool.name", "tool.name")
# Operations that repeat the tokens of other calls.
NEVER_BILLED: Final = frozenset({"create_agent", "fetch_response", "get_thread_run", "retrieval"})
# The root of the AI SDK before version 6 has the tokens of its last step alone, under the older names.
LAST_STEP_ONLY: Final = ("ai.operationId", "ai.generateText", "ai.usage.inputTokens")
# What says that a tool failed where the status of the span does not.
FAILED_TOOL: Final = (
    ("gen_ai.tool.status", "error"),
    ("gen_ai.tool.success", False),
    ("lk.function_tool.is_error", True),
    ("success", False),
)
FAILED_SPAN: Final = (("langfuse.observation.level", "ERROR"), ("genkit:state", "error"))
# What stands in place of a text that a switch of the library hides.
HIDDEN_MARKS: Final = frozenset({REDACTED, "[REDACTED]", "<REDACTED>", "<elided>"})


def _places_of(name: str) -> tuple[Place, ...]:
    return tuple(chain.from_iterable(getattr(row, name) for row in CONVENTIONS))


# The places of each field in all conventions, in the order of precedence.
PLACES: Final[Mapping[str, tuple[Place, ...]]] = {
    column.name: _places_of(column.name) for column in fields(Convention) if column.name != "kinds"
}
KINDS: Final = tuple(chain.from_iterable(row.kinds.items() for row in CONVENTIONS))


def attribute_names(*field_names: str) -> list[str]:
    """The names of the attributes of some fields."""
    return [place.name for name in field_names for place in PLACES[name] if not place.is_event]
