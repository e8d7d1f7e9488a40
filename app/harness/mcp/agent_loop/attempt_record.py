"""The steps of an attempt so far; the record survives a timeout or an error."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from app.harness.mcp.types import LlmCall, McpToolCall
from app.llm.conversation import ChatMessage, MessageRole

TraceSink = Callable[[str], None]

NO_ANSWER: Final = "(no answer)"


def discard_trace(_: str) -> None:
    """Ignore the line."""


class _PendingCall(NamedTuple):
    """A call without a response yet; `start_time` is of the monotonic clock."""

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
    """Messages, requests and tool calls of an attempt.

    `trace` receives a line per step. `last_awaited` names the model or tool of the last request.
    `expected_error` is the error that ended the attempt, when the evaluator expected it.
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
        """Record the start of a call."""
        self.last_awaited = f"{tool} of {server}"
        self._pending = _PendingCall(server, tool, arguments, time.monotonic())

    def finish_call(self, call: McpToolCall) -> None:
        """Record a call that has a response or was rejected."""
        self.tool_calls.append(call)
        self._pending = None
        self.trace(f"{call.tool} {call.arguments} = {call.text}")

    def close_pending(self) -> None:
        """Record the pending call, if any, as unanswered."""
        if self._pending is not None:
            self._unanswered = [self._pending.as_unanswered()]

    def all_calls(self) -> list[McpToolCall]:
        """All calls in order; the unanswered call, if any, is an error."""
        return self.tool_calls + self._unanswered

    def answer(self) -> str | None:
        """The last answer of the model, or the tool result of a direct task."""
        for message in reversed(self.messages):
            if message.role is MessageRole.ASSISTANT:
                return message.text()
        if self.messages or not self.tool_calls:
            return None
        return self.tool_calls[-1].text

    def last_error(self) -> str | None:
        """The expected error of the attempt, else the text of the last failed tool call."""
        return self.expected_error or next(
            (call.text for call in reversed(self.tool_calls) if call.is_error), None
        )
