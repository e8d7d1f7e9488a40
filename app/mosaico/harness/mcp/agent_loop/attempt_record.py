"""The steps of an attempt so far; the record survives a timeout or an error."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mosaico.harness.mcp.types import LlmCall, McpToolCall
from mosaico.llm.conversation import ChatMessage, MessageRole

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

    def as_unanswered(self, end_time: float) -> McpToolCall:
        return McpToolCall(
            server=self.server,
            tool=self.tool,
            arguments=self.arguments,
            text=NO_ANSWER,
            is_error=True,
            duration_ms=1000 * (end_time - self.start_time),
        )


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """System message, messages, requests and tool calls of an attempt.

    `trace` receives a line per step. `expected_error` is the error that ended the attempt, when the
    evaluator expected it.
    """

    system: str = ""
    messages: list[ChatMessage] = field(default_factory=list)
    llm_calls: list[LlmCall] = field(default_factory=list)
    trace: TraceSink = discard_trace
    expected_error: str | None = None
    # In the order of the model: calls of one turn run at the same time and may end in any order.
    _calls: list[McpToolCall | _PendingCall] = field(default_factory=list)
    _closed_at: float = 0.0

    def begin_call(self, server: str, tool: str, arguments: dict[str, Any]) -> int:
        """Record the start of a call; the number identifies it in `finish_call`."""
        self._calls.append(_PendingCall(server, tool, arguments, time.monotonic()))
        return len(self._calls) - 1

    def finish_call(self, number: int, call: McpToolCall) -> None:
        """Record the response to a call without its images, or why it was rejected."""
        content = tuple(replace(part, data=None) for part in call.content)
        self._calls[number] = replace(call, content=content)
        self.trace(f"{call.tool} {call.arguments} = {call.text}")

    def awaited(self) -> str:
        """The tools whose response is missing: `hang of faults`; empty without any."""
        pending = (call for call in self._calls if isinstance(call, _PendingCall))
        return " and ".join(f"{call.tool} of {call.server}" for call in pending)

    def close_pending(self) -> None:
        """Record the end of the attempt: no response comes any more."""
        self._closed_at = time.monotonic()

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls with a response, in the order of the model."""
        return [call for call in self._calls if isinstance(call, McpToolCall)]

    def all_calls(self) -> list[McpToolCall]:
        """All calls in the order of the model; a call without a response is an error."""
        return [
            call.as_unanswered(self._closed_at) if isinstance(call, _PendingCall) else call
            for call in self._calls
        ]

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
