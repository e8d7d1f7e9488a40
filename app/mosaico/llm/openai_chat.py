"""OpenAI's Chat Completions API and compatible servers, through its SDK: turns with tools.

Source: POST /v1/chat/completions.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import openai

from mosaico.llm.conversation import (
    Block,
    ChatMessage,
    Image,
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
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.model_families import output_limit_name
from mosaico.llm.reported_error import error_in_response
from mosaico.llm.response_reader import JSON, read_arguments, read_text, read_usage
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
_OUT_OF_RESOURCES: Final = "insufficient_system_resource"  # of DeepSeek: the answer is cut
# Of a response alone: servers refuse unknown fields in a request.
_RESPONSE_FIELDS: Final = frozenset({"annotations", "audio", "refusal"})
# Reasoning is sent back as it came; these two servers answer 400 to it.
_HOSTS_WITHOUT_REASONING: Final = ("groq.com", "cerebras.ai")
_REASONING_FIELDS: Final = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def open_chat(model: str, access: ProviderAccess, settings: TurnSettings) -> Llm:
    """A model behind the Chat Completions API or a compatible server."""
    client = open_openai(access)
    return SdkLlm(
        provider=Provider.OPENAI.value,
        model=model,
        settings=settings,
        send=client.chat.completions.with_raw_response.create,
        errors=ERRORS,
        write=partial(write_request, ChatDialect.of(model, access.base_url)),
        read=read_completion,
        close=client.close,
    )


class ChatDialect(NamedTuple):
    """What a server takes: the field for the limit of output tokens, and the fields of a message that
    it refuses in the history.
    """

    limit_name: str
    refused_fields: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model: str, base_url: str | None) -> "ChatDialect":
        host = urlsplit(base_url or "").hostname or ""
        return cls(
            output_limit_name(model, is_own_server=base_url is not None),
            _REASONING_FIELDS if host.endswith(_HOSTS_WITHOUT_REASONING) else frozenset(),
        )


def write_request(dialect: ChatDialect, turn: TurnRequest) -> dict[str, Any]:
    """The body of a request."""
    request: dict[str, Any] = {
        "model": turn.model,
        "messages": [
            *([{"role": "system", "content": turn.system}] if turn.system else ()),
            *(
                {name: part[name] for name in part if name not in dialect.refused_fields}
                for message in turn.messages
                for part in wire_messages(message)
            ),
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
        request[dialect.limit_name] = turn.settings.max_output_tokens
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
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        return [
            *(
                {"role": "tool", "tool_call_id": block.tool_use_id, "content": block.content}
                for block in results
            ),
            *_image_messages([image for block in results for image in block.images]),
        ]
    if message.role is MessageRole.USER:
        return [{"role": "user", "content": message.text()}]
    sent = message.wire_items(Provider.OPENAI)
    if sent is not None:
        return [sendable_message(sent[0])]
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


def _image_messages(images: Sequence[Image]) -> list[dict[str, Any]]:
    """The images of tool results, which take text only in this API."""
    if not images:
        return []
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    intro = {"type": "text", "text": "The images of the results above:"}
    return [{"role": "user", "content": [intro, *parts]}]


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def sendable_message(message: JSON) -> JSON:
    """The message of a model as a request takes it back: all that it holds, but null only as its
    content, and without the fields that a request does not have.
    """
    fields = {
        name: value
        for name, value in message.items()
        if value is not None and name not in _RESPONSE_FIELDS
    }
    content = message.get("content")
    # null is the API's form for a message that consists of tool calls only.
    return {
        "role": "assistant",
        **fields,
        "content": content if content is not None or fields.get("tool_calls") else "",
    }


def arguments_text(use: ToolUseBlock) -> str:
    """Arguments as JSON text, which is how the API expects them."""
    return json.dumps(use.input, ensure_ascii=False)


def sendable_arguments(call: JSON, use: ToolUseBlock) -> str:
    """The arguments of a call as the model wrote them: spaces and the order of keys decide whether a
    cache is hit. Servers parse them, so broken ones are sent back as what was understood.
    """
    arguments = call.get("arguments")
    is_usable = isinstance(arguments, str) and arguments.strip() and use.flaw is None
    return str(arguments) if is_usable else arguments_text(use)


class Choice(NamedTuple):
    """The first answer of a response, and its message."""

    choice: JSON
    message: JSON


def read_choice(response: JSON) -> Choice:
    """The answer in a response. Raises: LlmError, and an error that `read_response` translates."""
    choice = response["choices"][0]
    failure = error_in_response(choice.get("error"))  # of OpenRouter, with finish_reason "error"
    if failure is not None:
        raise failure
    if choice.get("finish_reason") == _OUT_OF_RESOURCES:
        raise LlmError("the server ran out of resources", kind=LlmErrorKind.SERVER)
    return Choice(choice, choice["message"])


def read_completion(response: JSON) -> Turn:
    """The turn in a response. Raises: LlmError."""
    choice, message = read_choice(response)
    content: list[Block] = []
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str) and thought:
        content.append(ThinkingBlock(text=thought))
    if message.get("content"):
        content.append(TextBlock(text=read_text(message["content"])))
    refusal = message.get("refusal")
    if refusal:
        content.append(TextBlock(text=read_text(refusal)))
    calls: list[JSON] = []
    for call in message.get("tool_calls") or ():
        if call.get("function"):  # some compatible servers omit the type
            arguments, flaw = read_arguments(call["function"].get("arguments"))
            name = read_text(call["function"]["name"])
            use = ToolUseBlock(id=read_text(call["id"]), name=name, input=arguments, flaw=flaw)
            content.append(use)
            calls.append(
                {
                    **call,
                    "type": "function",
                    "function": {
                        **call["function"],
                        "arguments": sendable_arguments(call["function"], use),
                    },
                }
            )
    # Calls of another kind than functions get no result, and must not be sent back.
    wire = {**message, "tool_calls": calls or None}
    return Turn(
        message=ChatMessage(
            role=MessageRole.ASSISTANT,
            content=tuple(content),
            wire=WireMessage(provider=Provider.OPENAI, items=(wire,)),
        ),
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
