"""What was done on a task so far; it outlives a timeout and a failure."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.harness.llm.conversation import Message, Role
from app.harness.mcp.types import LlmCall, ToolCall

Trace = Callable[[str], None]


def untraced(_: str) -> None:
    """Nobody looks on."""


@dataclass(slots=True, kw_only=True)
class Work:
    """Said, asked and called. `trace` is told each step; `awaited` is who was to answer last.

    `failure` is why the attempt ended, where that was expected of it.
    """

    messages: list[Message] = field(default_factory=list)
    llm_calls: list[LlmCall] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    trace: Trace = untraced
    awaited: str | None = None
    failure: str | None = None

    def answer(self) -> str | None:
        """The last that the model said; of a direct task what its tool answered."""
        for message in reversed(self.messages):
            if message.role is Role.ASSISTANT:
                return message.text()
        if self.messages or not self.tool_calls:
            return None
        return self.tool_calls[-1].text

    def last_error(self) -> str | None:
        """Why the attempt failed, else what the last call of a tool said that was an error."""
        return self.failure or next(
            (call.text for call in reversed(self.tool_calls) if call.is_error), None
        )
