"""A conversation with a model that may use tools: what both harnesses say and hear.

Each provider's file translates to its own wire format and back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Something said."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseBlock:
    """A tool that the model asks for; `flaw` says why its arguments could not be read."""

    id: str
    name: str
    input: dict[str, Any]
    flaw: str | None = None
    type: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBlock:
    """What the tool answered."""

    tool_use_id: str
    content: str
    is_error: bool = False
    type: Literal["tool_result"] = "tool_result"


Block = TextBlock | ToolUseBlock | ToolResultBlock


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a conversation."""

    role: MessageRole
    content: tuple[Block, ...]

    def text(self) -> str:
        """All that was said in it, without tools."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def tool_uses(self) -> list[ToolUseBlock]:
        return [block for block in self.content if isinstance(block, ToolUseBlock)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that a model may use; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class StopReason(StrEnum):
    """Why a model stopped talking. Tools may be asked for with any of them."""

    END = "end"
    TOOL_USE = "tool_use"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one turn."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a model answered; `usage` is None when the server does not tell it."""

    message: ChatMessage
    stop: StopReason
    usage: Usage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """How a model is asked; None leaves it to the server."""

    max_output_tokens: int | None = None
    temperature: float | None = None


class Provider(StrEnum):
    """A wire format; compatible servers of others speak one of them, too."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENAI_RESPONSES = "openai-responses"
    SCRIPTED = "scripted"


class Llm(Protocol):
    """A model of a provider."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...


def user_message(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=(TextBlock(text=text),))
