"""Anthropic's Messages API, through its SDK.

Source: POST /v1/messages, version 2023-06-01.
"""

from collections.abc import Sequence
from typing import Any, Final

import anthropic
import httpx2

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

MAX_OUTPUT_TOKENS: Final = 16_000  # the API wants a number; beyond 21,333 the SDK wants streams

_ERRORS: Final = SdkErrors(
    status=anthropic.APIStatusError,
    connection=anthropic.APIConnectionError,
    any=anthropic.AnthropicError,
)
_STOPS: Final = {"max_tokens": Stop.TRUNCATED, "tool_use": Stop.TOOL_USE}


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
    ) -> None:
        self.model = model
        self._settings = settings or TurnSettings()
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=httpx2.Timeout(TOTAL_S, connect=CONNECT_S),
            # A redirect would take the key along.
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
        )

    async def turn(self, system: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self._request(system, messages, tools)
        answer = await call_with_retries(lambda: self._client.messages.create(**request), _ERRORS)
        return read_message(answer)

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


def read_message(answer: anthropic.types.Message) -> Turn:
    """An answer of the API as a turn; blocks of other kinds are passed over."""
    content: list[Block] = []
    for block in answer.content or ():
        if block.type == "text":
            content.append(TextBlock(text=block.text))
        elif block.type == "tool_use":
            given = block.input
            fits = isinstance(given, dict)
            content.append(
                ToolUseBlock(
                    id=block.id,
                    name=block.name,
                    input=dict(given) if fits else {},
                    flaw=None if fits else "the arguments are not a JSON object",
                )
            )
    return Turn(
        message=Message(role=Role.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(answer.stop_reason or "", Stop.END),
        usage=_usage(answer),
    )


def _usage(answer: anthropic.types.Message) -> Usage | None:
    """Compatible servers may leave it out, whatever the SDK's types say."""
    told: Any = answer.usage
    if told is None or told.input_tokens is None or told.output_tokens is None:
        return None
    cached = (told.cache_creation_input_tokens or 0) + (told.cache_read_input_tokens or 0)
    return Usage(input_tokens=told.input_tokens + cached, output_tokens=told.output_tokens)
