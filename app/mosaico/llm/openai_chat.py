"""OpenAI's Chat Completions API and compatible servers, through its SDK: turns with tools.

Source: POST /v1/chat/completions.
"""

import json
from functools import partial
from typing import Any, Final, NamedTuple

import openai

from mosaico.llm.conversation import (
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
from mosaico.llm.response_reader import JSON, read_arguments, read_text, read_usage, reported_error
from mosaico.llm.retry import ATTEMPT_TIMEOUT_S
from mosaico.llm.sdk import ProviderAccess, SdkErrors, SdkLlm, TurnRequest

ERRORS: Final = SdkErrors(
    status=openai.APIStatusError, connection=openai.APIConnectionError, any=openai.OpenAIError
)
_STOPS: Final[dict[Any, StopReason]] = {
    "length": StopReason.TRUNCATED,
    "content_filter": StopReason.CONTENT_FILTER,
    "tool_calls": StopReason.TOOL_USE,
}


def open_chat(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Chat Completions API or a compatible server."""
    client = open_openai(access)
    # Compatible servers know the old name, OpenAI's newer models only the new one.
    limit_name = "max_tokens" if access.base_url else "max_completion_tokens"
    return SdkLlm(
        provider=Provider.OPENAI.value,
        model=model,
        settings=settings,
        send=client.chat.completions.with_raw_response.create,
        errors=ERRORS,
        write=partial(write_request, limit_name),
        read=read_completion,
        close=client.close,
    )


def write_request(limit_name: str, turn: TurnRequest) -> dict[str, Any]:
    """The body of a request; `limit_name` is the field for the limit of output tokens."""
    request: dict[str, Any] = {
        "model": turn.model,
        "messages": [
            *([{"role": "system", "content": turn.system}] if turn.system else ()),
            *(part for message in turn.messages for part in wire_messages(message)),
        ],
    }
    if turn.tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
            for tool in turn.tools
        ]
    if turn.settings.max_output_tokens is not None:
        request[limit_name] = turn.settings.max_output_tokens
    if turn.settings.temperature is not None:
        request["temperature"] = turn.settings.temperature
    if turn.settings.reasoning_effort is not None:
        request["reasoning_effort"] = turn.settings.reasoning_effort.value
    if turn.settings.seed is not None:
        request["seed"] = turn.settings.seed
    return request


def wire_messages(message: ChatMessage) -> list[dict[str, Any]]:
    """A message in the format of the API, which takes one message for each tool result."""
    if message.role is MessageRole.TOOL_RESULT:
        return [
            {"role": "tool", "tool_call_id": block.tool_use_id, "content": block.content}
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    if message.role is MessageRole.USER:
        return [{"role": "user", "content": message.text()}]
    # null is the API's form for a message that consists of tool calls only.
    wire: dict[str, Any] = {"role": "assistant", "content": message.text() or None}
    if message.tool_uses():
        wire["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {"name": use.name, "arguments": arguments_text(use)},
            }
            for use in message.tool_uses()
        ]
    return [wire]


def arguments_text(use: ToolUseBlock) -> str:
    """Arguments as JSON text, which is how the API expects them."""
    return json.dumps(use.input, ensure_ascii=False)


class Choice(NamedTuple):
    """The first answer of a response, and its message."""

    choice: JSON
    message: JSON


def read_choice(response: JSON) -> Choice:
    """The answer in a response. Raises: LlmError, and an error that `read_response` translates."""
    choice = response["choices"][0]
    failure = reported_error(choice.get("error"))  # of OpenRouter, with finish_reason "error"
    if failure is not None:
        raise failure
    return Choice(choice, choice["message"])


def read_completion(response: JSON) -> Turn:
    """The turn in a response. Raises: LlmError."""
    choice, message = read_choice(response)
    content: list[Block] = []
    if message.get("content"):
        content.append(TextBlock(text=read_text(message["content"])))
    refusal = message.get("refusal")
    if refusal:
        content.append(TextBlock(text=read_text(refusal)))
    for call in message.get("tool_calls") or ():
        if call.get("function"):  # some compatible servers omit the type
            arguments, flaw = read_arguments(call["function"].get("arguments"))
            name = read_text(call["function"]["name"])
            content.append(
                ToolUseBlock(id=read_text(call["id"]), name=name, input=arguments, flaw=flaw)
            )
    return Turn(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(content)),
        stop=StopReason.REFUSAL
        if refusal
        else _STOPS.get(choice.get("finish_reason"), StopReason.END),
        usage=read_usage(response.get("usage"), "prompt_tokens", "completion_tokens"),
    )


def open_openai(access: ProviderAccess, timeout_s: float = ATTEMPT_TIMEOUT_S) -> openai.AsyncOpenAI:
    """A client without credentials of the environment, unless it calls OpenAI itself.

    The SDK reads `OPENAI_ORG_ID`, `OPENAI_PROJECT_ID` and `OPENAI_ADMIN_KEY`, and would send them to
    any base URL.
    """
    client = openai.AsyncOpenAI(**access.options(timeout_s))
    if access.base_url is not None:
        # Not as arguments: the SDK replaces None by the variable.
        client.organization = client.project = client.admin_api_key = None
    return client
