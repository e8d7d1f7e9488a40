"""OpenAI's Responses API, through its SDK; the conversation is kept here and not there.

Source: POST /v1/responses with `store: false`.
"""

from collections.abc import Sequence
from typing import Any

import httpx2

from app.harness.llm.answers import JSON, read_answer, read_arguments, read_usage, text_of
from app.harness.llm.calling import call_with_retries
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
)
from app.harness.llm.openai_chat import ERRORS, arguments_text, open_client


class OpenAIResponses:
    """A model behind the Responses API."""

    provider = "openai-responses"

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
        self._client = open_client(api_key, base_url, http)

    async def turn(self, system: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self._request(system, messages, tools)
        ask = self._client.responses.with_raw_response.create
        answer = await call_with_retries(lambda: ask(**request), ERRORS)
        return read_answer(answer.content, read_response)

    async def close(self) -> None:
        await self._client.close()

    def _request(
        self, system: str, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "instructions": system,
            "input": [item for message in messages for item in wire_items(message)],
            "store": False,
        }
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,
                }
                for tool in tools
            ]
        if "codex" in self.model:
            request["reasoning"] = {"effort": "high"}
        if self._settings.max_output_tokens is not None:
            request["max_output_tokens"] = self._settings.max_output_tokens
        if self._settings.temperature is not None:
            request["temperature"] = self._settings.temperature
        return request


def wire_items(message: Message) -> list[dict[str, Any]]:
    """A message as the items that the API takes."""
    return [_item(message.role, block) for block in message.content]


def _item(role: Role, block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"role": "assistant" if role is Role.ASSISTANT else "user", "content": text}
        case ToolUseBlock():
            return {
                "type": "function_call",
                "call_id": block.id,
                "name": block.name,
                "arguments": arguments_text(block),
            }
        case ToolResultBlock():
            return {
                "type": "function_call_output",
                "call_id": block.tool_use_id,
                "output": block.content,
            }


def read_response(answer: JSON) -> Turn:
    """An answer of the API as a turn; reasoning is passed over. Raises LlmFailure."""
    status = answer.get("status")
    if status in ("failed", "cancelled"):
        raise LlmFailure(f"the model failed: {(answer.get('error') or {}).get('message', status)}")
    content: list[Block] = []
    for item in answer["output"]:
        if item["type"] == "message":
            content += [TextBlock(text=text_of(each)) for each in _texts(item)]
        elif item["type"] == "function_call":
            value, flaw = read_arguments(item.get("arguments"))
            name, call_id = text_of(item["name"]), text_of(item["call_id"])
            content.append(ToolUseBlock(id=call_id, name=name, input=value, flaw=flaw))
    message = Message(role=Role.ASSISTANT, content=tuple(content))
    stop = Stop.TOOL_USE if message.tool_uses() else Stop.END
    return Turn(
        message=message,
        stop=Stop.TRUNCATED if status == "incomplete" else stop,
        usage=read_usage(answer.get("usage"), "input_tokens", "output_tokens"),
    )


def _texts(item: JSON) -> list[Any]:
    return [part["text"] for part in item["content"] if part["type"] == "output_text"]
