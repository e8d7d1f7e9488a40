"""Conversation of an agent with a model that may use tools, independent of the provider.

The module of each provider translates it to and from its wire format.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, Protocol


class Provider(StrEnum):
    """A wire format, also of compatible servers."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENAI_RESPONSES = "openai-responses"
    SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """A text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """What the model showed of a thought; empty for an encrypted one."""

    text: str
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseBlock:
    """A tool call of the model; `flaw` is the reason why its arguments could not be read."""

    id: str
    name: str
    input: dict[str, Any]
    flaw: str | None = None
    type: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image in Base64."""

    media_type: str
    data: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBlock:
    """The result of a tool call: its text, and the images that the model gets beside it."""

    tool_use_id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    type: Literal["tool_result"] = "tool_result"


Block = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock


class MessageRole(StrEnum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMessage:
    """A message of a model as its provider sent it: one chat message, or content blocks, or items.

    It holds signatures and encrypted thoughts that only the provider can read. It is opaque, and is
    sent back as it is: the APIs refuse a turn whose signatures are missing or changed.
    """

    provider: Provider
    items: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a conversation; `wire` is that of a model as its provider sent it."""

    role: MessageRole
    content: tuple[Block, ...]
    wire: WireMessage | None = None

    def text(self) -> str:
        """The text blocks of the message."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def tool_uses(self) -> list[ToolUseBlock]:
        return [block for block in self.content if isinstance(block, ToolUseBlock)]

    def wire_items(self, provider: Provider) -> tuple[dict[str, Any], ...] | None:
        """What this provider sent; None for a message of a user, a tool or another provider."""
        if self.wire is None or self.wire.provider is not provider:
            return None
        return self.wire.items


def without_images(message: ChatMessage) -> ChatMessage:
    """The message to store: its texts describe its images."""
    return replace(
        message,
        content=tuple(
            replace(block, images=()) if isinstance(block, ToolResultBlock) else block
            for block in message.content
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the model can call; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class StopReason(StrEnum):
    """The reason why a model ended its turn. Each of them can come with tool calls."""

    END = "end"
    TOOL_USE = "tool_use"
    # A tool call in a turn that ended so may be incomplete: the output limit or the context window
    # was reached, the model refused, or a filter of its provider cut the answer.
    TRUNCATED = "truncated"
    CONTEXT_WINDOW = "model_context_window_exceeded"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one request.

    Of the input tokens, `cached_tokens` were read from the cache of the provider and
    `cache_write_tokens` were written to it; 0 when it does not report them.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


def known_usage(input_tokens: int | None, output_tokens: int | None) -> Usage | None:
    """The usage; None when the provider did not report all of it."""
    if input_tokens is None or output_tokens is None:
        return None
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a model; `usage` is None when the server does not report it."""

    message: ChatMessage
    stop: StopReason
    usage: Usage | None


class ReasoningEffort(StrEnum):
    """The reasoning effort of a model; the accepted values depend on the model."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class ThinkingMode(StrEnum):
    """Whether a model of Anthropic thinks; with ADAPTIVE it decides itself how long."""

    ADAPTIVE = "adaptive"
    DISABLED = "disabled"


class PromptCache(StrEnum):
    """How long the provider keeps the beginning of a conversation that Anthropic is asked to cache."""

    FIVE_MINUTES = "5m"
    ONE_HOUR = "1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """Parameters of a turn; None means the default of the server.

    `thinking_tokens` is the budget of tokens for thinking before an answer. `prompt_cache` changes
    the cost and not the answer.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    thinking: ThinkingMode | None = None
    thinking_tokens: int | None = None
    seed: int | None = None
    prompt_cache: PromptCache | None = None

    @classmethod
    def of(cls, options: object) -> "TurnSettings":
        """The settings that an object has under the same names."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)})

    def conditions(self) -> dict[str, Any]:
        """The settings that the answers depend on. A `thinking` that is not set is left out, so that
        they equal those of runs that were recorded before it existed.
        """
        conditions = asdict(self)
        del conditions["prompt_cache"]
        if self.thinking is None:
            del conditions["thinking"]
        return conditions


class Llm(Protocol):
    """A model of a provider."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the model. Raises: LlmError."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def user_message(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=(TextBlock(text=text),))
