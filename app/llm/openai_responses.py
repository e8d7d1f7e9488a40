"""OpenAI's Responses API, through its SDK; the conversation is kept here and not there.

Source: POST /v1/responses with `store: false`.
"""

from typing import Any

import openai

from app.llm.answers import JSON, read_arguments, read_usage, text_of
from app.llm.conversation import (
    Block,
    ChatMessage,
    Llm,
    LlmError,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    TurnSettings,
)
from app.llm.openai_chat import ERRORS, arguments_text
from app.llm.sdk import ProviderAccess, SdkLlm, TurnRequest


def open_responses(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Responses API, or a server that speaks it."""
    client = openai.AsyncOpenAI(**access.options())
    return SdkLlm(
        provider=Provider.OPENAI_RESPONSES.value,
        model=model,
        settings=settings,
        ask=client.responses.with_raw_response.create,
        errors=ERRORS,
        write=write_request,
        read=read_response,
        close=client.close,
    )


def write_request(asked: TurnRequest) -> dict[str, Any]:
    """The body of a request."""
    request: dict[str, Any] = {
        "model": asked.model,
        "instructions": asked.system,
        "input": [item for message in asked.messages for item in wire_items(message)],
        "store": False,
    }
    if asked.tools:
        request["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in asked.tools
        ]
    if "codex" in asked.model:
        request["reasoning"] = {"effort": "high"}
    if asked.settings.max_output_tokens is not None:
        request["max_output_tokens"] = asked.settings.max_output_tokens
    if asked.settings.temperature is not None:
        request["temperature"] = asked.settings.temperature
    return request


def wire_items(message: ChatMessage) -> list[dict[str, Any]]:
    """A message as the items that the API takes."""
    return [_item(message.role, block) for block in message.content]


def _item(role: MessageRole, block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {
                "role": "assistant" if role is MessageRole.ASSISTANT else "user",
                "content": text,
            }
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
        raise LlmError(f"the model failed: {(answer.get('error') or {}).get('message', status)}")
    content: list[Block] = []
    for item in answer["output"]:
        if item["type"] == "message":
            content += [TextBlock(text=text_of(each)) for each in _texts(item)]
        elif item["type"] == "function_call":
            value, flaw = read_arguments(item.get("arguments"))
            name, call_id = text_of(item["name"]), text_of(item["call_id"])
            content.append(ToolUseBlock(id=call_id, name=name, input=value, flaw=flaw))
    message = ChatMessage(role=MessageRole.ASSISTANT, content=tuple(content))
    stop = StopReason.TOOL_USE if message.tool_uses() else StopReason.END
    return Turn(
        message=message,
        stop=StopReason.TRUNCATED if status == "incomplete" else stop,
        usage=read_usage(answer.get("usage"), "input_tokens", "output_tokens"),
    )


def _texts(item: JSON) -> list[Any]:
    return [part["text"] for part in item["content"] if part["type"] == "output_text"]
