"""OpenAI's Chat Completions API and the many servers that speak it, through its SDK.

Source: POST /v1/chat/completions.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import httpx2
import openai
from openai.types.chat import ChatCompletion

from app.harness.llm.arguments import read_arguments
from app.harness.llm.calling import CONNECT_S, TOTAL_S, SdkErrors, call_with_retries
from app.harness.llm.conversation import (
    Block,
    LlmFailure,
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

ERRORS: Final = SdkErrors(
    status=openai.APIStatusError, connection=openai.APIConnectionError, any=openai.OpenAIError
)
_STOPS: Final = {"length": Stop.TRUNCATED, "tool_calls": Stop.TOOL_USE}


def open_client(api_key: str, base_url: str | None) -> openai.AsyncOpenAI:
    """The SDK's client without retries and redirects, which would take the key along."""
    return openai.AsyncOpenAI(
        api_key=api_key,
        base_url=base_url,
        max_retries=0,
        timeout=httpx2.Timeout(TOTAL_S, connect=CONNECT_S),
        http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
    )


class OpenAIChat:
    """A model behind the Chat Completions API, or a server that speaks it."""

    provider = "openai"

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
        # The old name is what compatible servers know; OpenAI's newer models refuse it.
        self._limit_name = "max_tokens" if base_url else "max_completion_tokens"
        self._client = open_client(api_key, base_url)

    async def turn(self, system: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self._request(system, messages, tools)
        answer = await call_with_retries(
            lambda: self._client.chat.completions.create(**request), ERRORS
        )
        return read_completion(answer)

    async def close(self) -> None:
        await self._client.close()

    def _request(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": system},
                *(each for message in messages for each in wire_messages(message)),
            ],
        }
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema,
                    },
                }
                for tool in tools
            ]
        if self._settings.max_output_tokens is not None:
            request[self._limit_name] = self._settings.max_output_tokens
        if self._settings.temperature is not None:
            request["temperature"] = self._settings.temperature
        return request


def wire_messages(message: Message) -> list[dict[str, Any]]:
    """A message as the API takes it: one for each result of a tool."""
    if message.role is Role.TOOL_RESULT:
        return [
            {"role": "tool", "tool_call_id": block.tool_use_id, "content": block.content}
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    if message.role is Role.USER:
        return [{"role": "user", "content": message.text()}]
    said: dict[str, Any] = {"role": "assistant", "content": message.text() or None}
    if message.tool_uses():
        said["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {"name": use.name, "arguments": arguments_text(use)},
            }
            for use in message.tool_uses()
        ]
    return [said]


def arguments_text(use: ToolUseBlock) -> str:
    """Arguments as the JSON text that the API wants back."""
    return json.dumps(use.input, ensure_ascii=False)


def read_completion(answer: ChatCompletion) -> Turn:
    """An answer of the API as a turn. Raises LlmFailure when it holds none."""
    if not answer.choices:
        raise LlmFailure("the answer holds no choice")
    choice = answer.choices[0]
    content: list[Block] = []
    if choice.message.content:
        content.append(TextBlock(text=choice.message.content))
    for call in choice.message.tool_calls or ():
        function: Any = getattr(call, "function", None)
        if function is not None:  # compatible servers leave the type out
            arguments = read_arguments(function.arguments)
            content.append(
                ToolUseBlock(
                    id=call.id, name=function.name, input=arguments.value, flaw=arguments.flaw
                )
            )
    return Turn(
        message=Message(role=Role.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(choice.finish_reason, Stop.END),
        usage=_usage(answer),
    )


def _usage(answer: ChatCompletion) -> Usage | None:
    told: Any = answer.usage
    if told is None or told.prompt_tokens is None or told.completion_tokens is None:
        return None
    return Usage(input_tokens=told.prompt_tokens, output_tokens=told.completion_tokens)
