"""OpenAI's Chat Completions API and the many servers that speak it, through its SDK.

Source: POST /v1/chat/completions.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import httpx2
import openai

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
)
from app.harness.outbound import certificates

ERRORS: Final = SdkErrors(
    status=openai.APIStatusError, connection=openai.APIConnectionError, any=openai.OpenAIError
)
_STOPS: Final[dict[Any, Stop]] = {"length": Stop.TRUNCATED, "tool_calls": Stop.TOOL_USE}


def open_client(
    api_key: str, base_url: str | None, http: httpx2.AsyncClient | None
) -> openai.AsyncOpenAI:
    """The SDK's client without retries and redirects, which would take the key along."""
    if http is None:
        http = openai.DefaultAsyncHttpxClient(follow_redirects=False, verify=certificates())
    return openai.AsyncOpenAI(
        api_key=api_key,
        base_url=base_url,
        max_retries=0,
        timeout=httpx2.Timeout(TOTAL_S, connect=CONNECT_S),
        http_client=http,
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
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.model = model
        self._settings = settings or TurnSettings()
        # The old name is what compatible servers know; OpenAI's newer models refuse it.
        self._limit_name = "max_tokens" if base_url else "max_completion_tokens"
        self._client = open_client(api_key, base_url, http)

    async def turn(self, system: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self._request(system, messages, tools)
        ask = self._client.chat.completions.with_raw_response.create
        answer = await call_with_retries(lambda: ask(**request), ERRORS)
        return read_answer(answer.content, read_completion)

    async def close(self) -> None:
        await self._client.close()

    def _request(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [
                *([{"role": "system", "content": system}] if system else ()),
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


def read_completion(answer: JSON) -> Turn:
    """An answer of the API as a turn."""
    choice = answer["choices"][0]
    message = choice["message"]
    content: list[Block] = []
    if message.get("content"):
        content.append(TextBlock(text=text_of(message["content"])))
    for call in message.get("tool_calls") or ():
        if call.get("function"):  # the type is left out by some compatible servers
            value, flaw = read_arguments(call["function"].get("arguments"))
            name = text_of(call["function"]["name"])
            content.append(ToolUseBlock(id=text_of(call["id"]), name=name, input=value, flaw=flaw))
    return Turn(
        message=Message(role=Role.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(choice.get("finish_reason"), Stop.END),
        usage=read_usage(answer.get("usage"), "prompt_tokens", "completion_tokens"),
    )
