"""Anthropic's Messages API, through its SDK.

Source: POST /v1/messages, version 2023-06-01.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import anthropic
import httpx2

from app.harness.llm.answers import JSON, read_answer, read_arguments, read_usage, text_of
from app.harness.llm.calling import CONNECT_S, TOTAL_S, SdkErrors, call_with_retries
from app.harness.llm.conversation import (
    Block,
    Message,
    Role,
    Stop,
    TextBlock,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    TurnSettings,
    Usage,
)
from app.harness.outbound import certificates

MAX_OUTPUT_TOKENS: Final = 16_000  # the API wants a number; beyond 21,333 the SDK wants streams

_ERRORS: Final = SdkErrors(
    status=anthropic.APIStatusError,
    connection=anthropic.APIConnectionError,
    any=anthropic.AnthropicError,
)
_STOPS: Final[dict[Any, Stop]] = {"max_tokens": Stop.TRUNCATED, "tool_use": Stop.TOOL_USE}


class AnthropicMessages:
    """A model behind the Messages API, or a server that speaks it."""

    provider = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str | None = None,
        settings: TurnSettings | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.model = model
        self._settings = settings or TurnSettings()
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=httpx2.Timeout(TOTAL_S, connect=CONNECT_S),
            # A redirect would take the key along.
            http_client=http
            or anthropic.DefaultAsyncHttpxClient(follow_redirects=False, verify=certificates()),
        )

    async def turn(self, system: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self._request(system, messages, tools)
        ask = self._client.messages.with_raw_response.create
        answer = await call_with_retries(lambda: ask(**request), _ERRORS)
        return read_answer(answer.http_response.content, read_message)

    async def close(self) -> None:
        await self._client.close()

    def _request(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._settings.max_output_tokens or MAX_OUTPUT_TOKENS,
            "system": system,
            "messages": [wire_message(message) for message in messages],
        }
        if tools:
            request["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in tools
            ]
        if self._settings.temperature is not None:
            request["temperature"] = self._settings.temperature
        return request


def wire_message(message: Message) -> dict[str, Any]:
    """A message as the API takes it; results of tools are said by the user."""
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    return {"role": role, "content": [each for block in message.content for each in _wire(block)]}


def _wire(block: Block) -> list[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            return [{"type": "text", "text": text}] if text else []  # empty ones are refused
        case ToolUseBlock():
            return [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}]
        case ToolResultBlock():
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": block.tool_use_id,
                    "content": block.content,
                    "is_error": block.is_error,
                }
            ]


def read_message(answer: JSON) -> Turn:
    """An answer of the API as a turn; blocks of other kinds are passed over."""
    content: list[Block] = []
    for block in answer["content"]:
        if block["type"] == "text":
            content.append(TextBlock(text=text_of(block["text"])))
        elif block["type"] == "tool_use":
            value, flaw = read_arguments(block.get("input"))
            content.append(
                ToolUseBlock(
                    id=text_of(block["id"]), name=text_of(block["name"]), input=value, flaw=flaw
                )
            )
    return Turn(
        message=Message(role=Role.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(answer.get("stop_reason"), Stop.END),
        usage=_usage(answer.get("usage")),
    )


def _usage(told: Any) -> Usage | None:
    """What was read from a cache was read all the same."""
    found = read_usage(told, "input_tokens", "output_tokens")
    if found is None:
        return None
    cached = sum(told.get(f"cache_{how}_input_tokens") or 0 for how in ("creation", "read"))
    return replace(found, input_tokens=found.input_tokens + cached)
