"""Anthropic's Messages API, through its SDK.

Source: POST /v1/messages, version 2023-06-01.
"""

from dataclasses import replace
from typing import Any, Final

import anthropic

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
    Usage,
)
from app.llm.sdk import ProviderAccess, SdkLlm, TurnRequest

MAX_OUTPUT_TOKENS: Final = 16_000  # the API wants a number; beyond 21,333 the SDK wants streams

_ERRORS: Final = SdkErrors(
    status=anthropic.APIStatusError,
    connection=anthropic.APIConnectionError,
    any=anthropic.AnthropicError,
)
_STOPS: Final[dict[Any, StopReason]] = {
    "max_tokens": StopReason.TRUNCATED,
    "tool_use": StopReason.TOOL_USE,
}


def open_messages(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Messages API, or a server that speaks it."""
    client = anthropic.AsyncAnthropic(**access.options())
    return SdkLlm(
        provider=Provider.ANTHROPIC.value,
        model=model,
        settings=settings,
        ask=client.messages.with_raw_response.create,
        errors=_ERRORS,
        write=write_request,
        read=read_message,
        close=client.close,
    )


def write_request(asked: TurnRequest) -> dict[str, Any]:
    """The body of a request."""
    request: dict[str, Any] = {
        "model": asked.model,
        "max_tokens": asked.settings.max_output_tokens or MAX_OUTPUT_TOKENS,
        "system": asked.system,
        "messages": [wire_message(message) for message in asked.messages],
    }
    if asked.tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in asked.tools
        ]
    if asked.settings.temperature is not None:
        request["temperature"] = asked.settings.temperature
    return request


def wire_message(message: ChatMessage) -> dict[str, Any]:
    """A message as the API takes it; results of tools are said by the user."""
    role = "assistant" if message.role is MessageRole.ASSISTANT else "user"
    return {"role": role, "content": [each for block in message.content for each in _wire(block)]}


def _wire(block: Block) -> list[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            return (
                [{"type": "text", "text": text}] if text.strip() else []
            )  # blank ones are refused
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
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(content)),
        stop=_STOPS.get(answer.get("stop_reason"), StopReason.END),
        usage=_usage(answer.get("usage")),
    )


def _usage(told: Any) -> Usage | None:
    """What was read from a cache was read all the same."""
    found = read_usage(told, "input_tokens", "output_tokens")
    if found is None:
        return None
    cached = sum(told.get(f"cache_{how}_input_tokens") or 0 for how in ("creation", "read"))
    return replace(found, input_tokens=found.input_tokens + cached)
