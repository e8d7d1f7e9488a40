"""Anthropic's Messages API, through its SDK.

Source: POST /v1/messages, version 2026-10-21.
"""

import os
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anthropic

from mosaico.llm.conversation import (
    Block,
    ChatMessage,
    Llm,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingMode,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    TurnSettings,
    Usage,
    WireMessage,
)
from mosaico.llm.response_reader import (
    JSON,
    read_arguments,
    read_text,
    read_token_count,
    read_usage,
    with_cached_tokens,
)
from mosaico.llm.sdk import ProviderAccess, SdkErrors, SdkLlm, TurnRequest

# Required by the API. Above 21,333 the SDK requires streaming; thinking counts as output.
MAX_OUTPUT_TOKENS: Final = 16_000
MAX_OUTPUT_WITH_THINKING: Final = 21_333

_ERRORS: Final = SdkErrors(
    status=anthropic.APIStatusError,
    connection=anthropic.APIConnectionError,
    any=anthropic.AnthropicError,
)
_PROTOCOL_HEADERS: Final = {"accept", "anthropic-version", "content-type", "user-agent"}
# Only the reasons that change what the caller does; all others end the turn.
_STOPS: Final[dict[Any, StopReason]] = {
    "max_tokens": StopReason.TRUNCATED,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW,
    "refusal": StopReason.REFUSAL,
    "tool_use": StopReason.TOOL_USE,
}


def open_messages(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Messages API or a compatible server."""
    client = anthropic.AsyncAnthropic(**access.options())
    removed = {} if access.base_url is None else _headers_of_the_environment(client)
    return SdkLlm(
        provider=Provider.ANTHROPIC.value,
        model=model,
        settings=settings,
        send=partial(client.messages.with_raw_response.create, extra_headers=removed),
        errors=_ERRORS,
        write=write_request,
        read=read_message,
        close=client.close,
    )


def _headers_of_the_environment(
    client: anthropic.AsyncAnthropic,
) -> dict[str, str | anthropic.Omit]:
    """Return the headers that override the SDK's headers from ANTHROPIC_CUSTOM_HEADERS, which may
    be credentials for another server; those that authenticate get the value of the client again.
    """
    own_values = {name.lower(): value for name, value in client.auth_headers.items()}
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines()
    names = {line.partition(":")[0].strip() for line in lines if ":" in line}
    return {
        name: own_values.get(name.lower(), anthropic.omit)
        for name in names
        if name.lower() not in _PROTOCOL_HEADERS
    }


def write_request(turn: TurnRequest) -> dict[str, Any]:
    """The body of a request."""
    settings = turn.settings
    request: dict[str, Any] = {
        "model": turn.model,
        "max_tokens": max_output_tokens(settings),
        "system": turn.system,
        "messages": [wire_message(message) for message in turn.messages],
    }
    if turn.tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in turn.tools
        ]
    if settings.thinking is not None:
        request["thinking"] = {"type": settings.thinking.value}
    if settings.thinking_tokens is not None:
        request["thinking"] = {"type": "enabled", "budget_tokens": settings.thinking_tokens}
    if settings.reasoning_effort is not None:
        request["output_config"] = {"effort": settings.reasoning_effort.value}
    if settings.prompt_cache is not None:
        mark = {"type": "ephemeral", "ttl": settings.prompt_cache.value}
        # The first mark is common to all tasks: tools and system message. The second one moves to the
        # end of the conversation, so that each request reads what the previous one wrote.
        if turn.system:
            request["system"] = [{"type": "text", "text": turn.system, "cache_control": mark}]
        request["cache_control"] = mark
    return request


def max_output_tokens(settings: TurnSettings) -> int:
    """The limit of output tokens of a request, which the API requires."""
    thinks = settings.thinking_tokens is not None or settings.thinking is ThinkingMode.ADAPTIVE
    return settings.max_output_tokens or (MAX_OUTPUT_WITH_THINKING if thinks else MAX_OUTPUT_TOKENS)


def wire_message(message: ChatMessage) -> dict[str, Any]:
    """A message in the format of the API, where the user sends the results of tools."""
    role = "assistant" if message.role is MessageRole.ASSISTANT else "user"
    content = message.wire_items(Provider.ANTHROPIC)
    if content is None:
        content = tuple(part for block in message.content for part in _wire(block))
    return {"role": role, "content": [block for block in content if not _is_blank(block)]}


def _is_blank(block: dict[str, Any]) -> bool:
    """Return whether it is a blank text block, which the API sends and refuses."""
    return block["type"] == "text" and not block["text"].strip()


def _wire(block: Block) -> list[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            return [{"type": "text", "text": text}]
        case ThinkingBlock():
            # Only the provider that signed a thought accepts it, and gets what it sent.
            return []
        case ToolUseBlock():
            return [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}]
        case ToolResultBlock():
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": block.tool_use_id,
                    "content": _result_content(block),
                    "is_error": block.is_error,
                }
            ]


def _result_content(block: ToolResultBlock) -> str | list[dict[str, Any]]:
    """The text alone, or with the images after it."""
    if not block.images:
        return block.content
    images = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
        }
        for image in block.images
    ]
    return [{"type": "text", "text": block.content}, *images]


def read_message(response: JSON) -> Turn:
    """The turn in a response; blocks of other types are only sent back."""
    content: list[Block] = []
    blocks: list[JSON] = []
    for block in response["content"]:
        wire_block = block
        if block["type"] == "text":
            content.append(TextBlock(text=read_text(block["text"])))
        elif block["type"] in ("thinking", "redacted_thinking"):
            text = read_text(block.get("thinking") or "")
            content.append(ThinkingBlock(text=text))
        elif block["type"] == "tool_use":
            arguments, flaw = read_arguments(block.get("input"))
            content.append(
                ToolUseBlock(
                    id=read_text(block["id"]),
                    name=read_text(block["name"]),
                    input=arguments,
                    flaw=flaw,
                )
            )
            if flaw is not None:  # the API takes objects only
                wire_block = {**block, "input": arguments}
        blocks.append(wire_block)
    explanation = _refusal_text(response.get("stop_details"))
    if explanation:
        content.append(TextBlock(text=explanation))
    return Turn(
        message=ChatMessage(
            role=MessageRole.ASSISTANT,
            content=tuple(content),
            wire=WireMessage(provider=Provider.ANTHROPIC, items=tuple(blocks)),
        ),
        stop=_STOPS.get(response.get("stop_reason"), StopReason.END),
        usage=_usage(response.get("usage")),
    )


def _refusal_text(details: Any) -> str:
    """The category and the explanation of a refusal; empty without them."""
    if not isinstance(details, dict):
        return ""
    parts = (details.get("category"), details.get("explanation"))
    return ": ".join(str(part) for part in parts if part)


def _usage(usage: Any) -> Usage | None:
    """The tokens of a turn; the API counts those of its prompt cache separately."""
    uncached = read_usage(usage, "input_tokens", "output_tokens")
    if uncached is None:
        return None
    written = read_token_count(usage, "cache_creation_input_tokens") or 0
    # Added, so that tokens are comparable among providers: the others count cached tokens as input.
    read = read_token_count(usage, "cache_read_input_tokens") or 0
    total = replace(uncached, input_tokens=uncached.input_tokens + written + read)
    return with_cached_tokens(total, read, written)
