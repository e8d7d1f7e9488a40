"""OpenAI's Chat Completions API and the many servers that speak it, through its SDK.

Source: POST /v1/chat/completions.
"""

import json
from functools import partial
from typing import Any, Final

import openai

from app.llm.answers import JSON, read_arguments, read_usage, text_of
from app.llm.calling import SdkErrors
from app.llm.conversation import (
    Block,
    ChatMessage,
    Llm,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    TurnSettings,
)
from app.llm.sdk import ProviderAccess, SdkLlm, TurnRequest

ERRORS: Final = SdkErrors(
    status=openai.APIStatusError, connection=openai.APIConnectionError, any=openai.OpenAIError
)
_STOPS: Final[dict[Any, StopReason]] = {
    "length": StopReason.TRUNCATED,
    "tool_calls": StopReason.TOOL_USE,
}


def open_chat(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Chat Completions API, or a server that speaks it."""
    client = openai.AsyncOpenAI(**access.options())
    # The old name is what compatible servers know; OpenAI's newer models refuse it.
    limit_name = "max_tokens" if access.base_url else "max_completion_tokens"
    return SdkLlm(
        provider=Provider.OPENAI.value,
        model=model,
        settings=settings,
        ask=client.chat.completions.with_raw_response.create,
        errors=ERRORS,
        write=partial(write_request, limit_name),
        read=read_completion,
        close=client.close,
    )


def write_request(limit_name: str, asked: TurnRequest) -> dict[str, Any]:
    """The body of a request; `limit_name` is what a server calls the limit of output tokens."""
    request: dict[str, Any] = {
        "model": asked.model,
        "messages": [
            *([{"role": "system", "content": asked.system}] if asked.system else ()),
            *(each for message in asked.messages for each in wire_messages(message)),
        ],
    }
    if asked.tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
            for tool in asked.tools
        ]
    if asked.settings.max_output_tokens is not None:
        request[limit_name] = asked.settings.max_output_tokens
    if asked.settings.temperature is not None:
        request["temperature"] = asked.settings.temperature
    return request


def wire_messages(message: ChatMessage) -> list[dict[str, Any]]:
    """A message as the API takes it: one for each result of a tool."""
    if message.role is MessageRole.TOOL_RESULT:
        return [
            {"role": "tool", "tool_call_id": block.tool_use_id, "content": block.content}
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    if message.role is MessageRole.USER:
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
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(choice.get("finish_reason"), StopReason.END),
        usage=read_usage(answer.get("usage"), "prompt_tokens", "completion_tokens"),
    )
