"""What was done on a task so far; it outlives a timeout and a failure."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from app.harness.mcp.types import LlmCall, McpToolCall
from app.llm.conversation import ChatMessage, MessageRole

TraceSink = Callable[[str], None]

NO_ANSWER: Final = "(no answer)"


def discard_trace(_: str) -> None:
    """Nobody looks on."""


class _PendingCall(NamedTuple):
    """A call that is not answered yet; `began` is of the monotonic clock."""

    server: str
    tool: str
    arguments: dict[str, Any]
    start_time: float

    def as_unanswered(self) -> McpToolCall:
        return McpToolCall(
            server=self.server,
            tool=self.tool,
            arguments=self.arguments,
            text=NO_ANSWER,
            is_error=True,
            duration_ms=1000 * (time.monotonic() - self.start_time),
        )


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """Said, asked and called. `trace` is told each step; `awaited` is who was to answer last.

    `failure` is why the attempt ended, where that was expected of it.
    """

    messages: list[ChatMessage] = field(default_factory=list)
    llm_calls: list[LlmCall] = field(default_factory=list)
    tool_calls: list[McpToolCall] = field(default_factory=list)
    trace: TraceSink = discard_trace
    last_awaited: str | None = None
    expected_error: str | None = None
    _pending: _PendingCall | None = None
    _unanswered: list[McpToolCall] = field(default_factory=list)

    def begin_call(self, server: str, tool: str, arguments: dict[str, Any]) -> None:
        """A call begins."""
        self.last_awaited = f"{tool} of {server}"
        self._pending = _PendingCall(server, tool, arguments, time.monotonic())

    def finish_call(self, call: McpToolCall) -> None:
        """A call was answered, or refused before it reached a server."""
        self.tool_calls.append(call)
        self._pending = None
        self.trace(f"{call.tool} {call.arguments} = {call.text}")

    def close_pending(self) -> None:
        """Nobody waits any more."""
        if self._pending is not None:
            self._unanswered = [self._pending.as_unanswered()]

    def all_calls(self) -> list[McpToolCall]:
        """Every call in its order, the one that never was answered as an error."""
        return self.tool_calls + self._unanswered

    def answer(self) -> str | None:
        """The last that the model said; of a direct task what its tool answered."""
        for message in reversed(self.messages):
            if message.role is MessageRole.ASSISTANT:
                return message.text()
        if self.messages or not self.tool_calls:
            return None
        return self.tool_calls[-1].text

    def last_error(self) -> str | None:
        """Why the attempt failed, else what the last call of a tool said that was an error."""
        return self.expected_error or next(
            (call.text for call in reversed(self.tool_calls) if call.is_error), None
        )
