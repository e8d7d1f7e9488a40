"""OpenAI's Responses API, through its SDK; the server does not store the conversation.

Source: POST /v1/responses with `store: false`.
"""

from typing import Any

from mosaico.llm.conversation import (
    Block,
    ChatMessage,
    Llm,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    TurnSettings,
    WireMessage,
)
from mosaico.llm.errors import LlmError
from mosaico.llm.model_families import family_of
from mosaico.llm.openai_chat import (
    ERRORS,
    arguments_text,
    data_url,
    open_openai,
    sendable_arguments,
)
from mosaico.llm.response_reader import (
    JSON,
    read_arguments,
    read_text,
    read_usage,
)
from mosaico.llm.sdk import ProviderAccess, SdkLlm, TurnRequest


def open_responses(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Responses API or a compatible server."""
    client = open_openai(access)
    return SdkLlm(
        provider=Provider.OPENAI_RESPONSES.value,
        model=model,
        settings=settings,
        send=client.responses.with_raw_response.create,
        errors=ERRORS,
        write=write_request,
        read=read_turn_items,
        close=client.close,
    )


def write_request(turn: TurnRequest) -> dict[str, Any]:
    """The body of a request."""
    request: dict[str, Any] = {
        "model": turn.model,
        "instructions": turn.system,
        "input": [item for message in turn.messages for item in wire_items(message)],
        # The conversation is sent completely with each turn, so nothing depends on what the server
        # keeps.
        "store": False,
    }
    if family_of(Provider.OPENAI_RESPONSES, turn.model).has_encrypted_reasoning:
        # Without the store only this gives the model its thoughts back. Other models refuse it.
        request["include"] = ["reasoning.encrypted_content"]
    if turn.tools:
        request["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                # Strict schemas must list every property as required, which the schemas of MCP
                # servers do not.
                "strict": False,
            }
            for tool in turn.tools
        ]
    if turn.settings.reasoning_effort is not None:
        request["reasoning"] = {"effort": turn.settings.reasoning_effort.value}
    if turn.settings.max_output_tokens is not None:
        request["max_output_tokens"] = turn.settings.max_output_tokens
    if turn.settings.temperature is not None:
        request["temperature"] = turn.settings.temperature
    return request


def wire_items(message: ChatMessage) -> list[dict[str, Any]]:
    """A message as items of the API; those of a model as it sent them."""
    sent = message.wire_items(Provider.OPENAI_RESPONSES)
    if sent is None:
        return [item for block in message.content for item in _items(message.role, block)]
    if all(_is_readable(item) for item in sent):
        return list(sent)
    # A reasoning item without its content refers to one that the server does not have, and items
    # with IDs require theirs: all reasoning and all IDs have to go.
    return [
        {name: value for name, value in item.items() if name != "id"}
        for item in sent
        if item["type"] != "reasoning"
    ]


def _is_readable(item: JSON) -> bool:
    """Return whether the server can read the item again, which it did not store."""
    return item["type"] != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _items(role: MessageRole, block: Block) -> list[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            speaker = "assistant" if role is MessageRole.ASSISTANT else "user"
            return [{"role": speaker, "content": text}]
        case ThinkingBlock():
            return []
        case ToolUseBlock():
            return [
                {
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": arguments_text(block),
                }
            ]
        case ToolResultBlock():
            return [
                {
                    "type": "function_call_output",
                    "call_id": block.tool_use_id,
                    "output": _output(block),
                }
            ]


def _output(block: ToolResultBlock) -> str | list[dict[str, Any]]:
    """The text alone, or with the images after it."""
    if not block.images:
        return block.content
    images = [
        {"type": "input_image", "detail": "auto", "image_url": data_url(image)}
        for image in block.images
    ]
    return [{"type": "input_text", "text": block.content}, *images]


def read_turn_items(response: JSON) -> Turn:
    """The turn in a response; items of other types are only sent back. Raises: LlmError."""
    status = response.get("status")
    # The API reports these with HTTP 200.
    if status in ("failed", "cancelled"):
        raise LlmError(f"the model failed: {(response.get('error') or {}).get('message', status)}")
    content: list[Block] = []
    items: list[JSON] = []
    for item in response["output"]:
        wire_item = item
        if item["type"] == "message":
            content += [TextBlock(text=read_text(text)) for text in _texts(item)]
        elif item["type"] == "reasoning":
            content.append(ThinkingBlock(text=_thought(item)))
        elif item["type"] == "function_call":
            arguments, flaw = read_arguments(item.get("arguments"))
            name, call_id = read_text(item["name"]), read_text(item["call_id"])
            use = ToolUseBlock(id=call_id, name=name, input=arguments, flaw=flaw)
            content.append(use)
            wire_item = {**item, "arguments": sendable_arguments(item, use)}
        items.append(wire_item)
    message = ChatMessage(
        role=MessageRole.ASSISTANT,
        content=tuple(content),
        wire=WireMessage(provider=Provider.OPENAI_RESPONSES, items=tuple(items)),
    )
    return Turn(
        message=message,
        stop=_stop(response, message),
        usage=read_usage(response.get("usage"), "input_tokens", "output_tokens"),
    )


def _thought(item: JSON) -> str:
    """What a reasoning item shows: its text, or its summary."""
    parts = item.get("content") or item.get("summary") or ()
    return "\n".join(read_text(part["text"]) for part in parts if part.get("text"))


def _stop(response: JSON, message: ChatMessage) -> StopReason:
    """Why the turn ended. This API has no finish reason; the status and the items show it."""
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details") or {}
        is_filtered = details.get("reason") == "content_filter"
        return StopReason.CONTENT_FILTER if is_filtered else StopReason.TRUNCATED
    parts = (part for item in response["output"] for part in item.get("content") or ())
    if any(part["type"] == "refusal" for part in parts):
        return StopReason.REFUSAL
    return StopReason.TOOL_USE if message.tool_uses() else StopReason.END


def _texts(item: JSON) -> list[Any]:
    """The texts of a message, those of a refusal included."""
    return [
        part["refusal"] if part["type"] == "refusal" else part["text"]
        for part in item["content"]
        if part["type"] in ("output_text", "refusal")
    ]
