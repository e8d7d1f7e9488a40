"""Servers that answer as providers document, and refuse what they document to refuse.

Each plays one task in two turns: a call of `bash`, then an answer. Sources: "Thought Signatures"
(Gemini), "Thinking Mode" (DeepSeek), "Reasoning Tokens" (OpenRouter), the docstrings of the SDK of
OpenAI for the Responses API, and "Troubleshooting thinking" and "Migrating to API version
2026-10-21" (Anthropic).
"""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.support.model_server import Plan, RawReply, ReceivedRequest

JSON = dict[str, Any]

SIGNATURE: Final = "EqQBCkgIBhABGAIiQL0="
# The spaces and the order of the keys are those of the model.
ARGUMENTS: Final = '{"timeout_ms":  null, "commands": "echo hello"}'
REASONING_DETAILS: Final[list[JSON]] = [
    {"type": "reasoning.summary", "summary": "Say hello.", "index": 0},
    {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "r1", "index": 1},
]
THINKING_BLOCKS: Final[list[JSON]] = [
    {"type": "thinking", "thinking": "Say hello.", "signature": SIGNATURE},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
]
REASONING_ITEM: Final[JSON] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Say hello."}],
    "encrypted_content": "Z0FBQUFB",
}
COMMENTARY_ITEM: Final[JSON] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I say hello.", "annotations": []}],
}
CALL_ITEM: Final[JSON] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "bash",
    "arguments": ARGUMENTS,
    "status": "completed",
}


def refuse(message: str, *, status: int = 400, **fields: Any) -> RawReply:
    """The error of an API."""
    error = {"message": message, "type": "invalid_request_error", **fields}
    return RawReply(status=status, body=json.dumps({"error": error}).encode())


def answer(document: JSON) -> RawReply:
    return RawReply(status=200, body=json.dumps(document).encode())


def chat_document(message: JSON, finish_reason: str, usage: JSON | None = None) -> JSON:
    """A response of Chat Completions."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", **message},
            }
        ],
        "usage": usage or {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def chat_call(**fields: Any) -> JSON:
    """A tool call of Chat Completions."""
    function = {"name": "bash", "arguments": ARGUMENTS}
    return {"id": "call_1", "type": "function", "function": function, **fields}


def _chat_plan(first: JSON, problem: Callable[[JSON], str | None]) -> Plan:
    """A server of Chat Completions that checks the message of its first turn in the second one."""

    def plan(request: ReceivedRequest) -> RawReply:
        messages = request.body["messages"]
        sent = [message for message in messages if message["role"] == "assistant"]
        if not sent:
            return answer(chat_document(first, "tool_calls"))
        text = problem(sent[0])
        if text is not None:
            return refuse(text)
        return answer(chat_document({"content": "Done."}, "stop"))

    return plan


def gemini() -> Plan:
    """Gemini 3 behind the API of OpenAI: the signature of a call belongs to the call."""
    signature = {"google": {"thought_signature": SIGNATURE}}

    def problem(message: JSON) -> str | None:
        call = message["tool_calls"][0]
        if call.get("extra_content") == signature:
            return None
        return "Function call is missing a thought_signature in functionCall parts."

    call = chat_call(extra_content=signature)
    return _chat_plan({"content": None, "tool_calls": [call]}, problem)


def deepseek() -> Plan:
    """DeepSeek V4, and Kimi with other words: a turn with tools needs its thoughts."""
    thought = "I say hello."

    def problem(message: JSON) -> str | None:
        if message.get("reasoning_content") == thought:
            return None
        return "The reasoning_content in the thinking mode must be passed back to the API."

    first = {"content": "", "reasoning_content": thought, "tool_calls": [chat_call()]}
    return _chat_plan(first, problem)


def open_router() -> Plan:
    """OpenRouter with a model of Google: the whole array, in order."""

    def problem(message: JSON) -> str | None:
        if message.get("reasoning_details") == REASONING_DETAILS:
            return None
        return "Gemini models require OpenRouter reasoning details to be preserved in each request."

    first = {
        "content": None,
        "refusal": None,
        "reasoning": "Say hello.",
        "reasoning_details": REASONING_DETAILS,
        "tool_calls": [chat_call(index=0)],
    }
    return _chat_plan(first, problem)


def groq() -> Plan:
    """Groq: fields of reasoning in the history are errors."""

    def problem(message: JSON) -> str | None:
        if message.keys() & {"reasoning", "reasoning_content", "annotations", "refusal"}:
            return "property 'reasoning' is unsupported"
        return None

    return _chat_plan(
        {"content": None, "reasoning": "Hello.", "tool_calls": [chat_call()]}, problem
    )


def response_document(output: list[JSON], usage: JSON | None = None, **fields: Any) -> JSON:
    """A response of the Responses API."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.6-terra",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
        "usage": usage
        or {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
        **fields,
    }


def gpt() -> Plan:
    """GPT-5.6: tools with reasoning only in the Responses API, where nothing is stored."""

    def plan(request: ReceivedRequest) -> RawReply:
        body = request.body
        if request.path.endswith("/chat/completions"):
            return refuse(
                f"Function tools with reasoning_effort are not supported for {body['model']} in"
                " /v1/chat/completions. To use function tools, use /v1/responses or set"
                " reasoning_effort to 'none'.",
                param="reasoning_effort",
                code=None,
            )
        if "temperature" in body:
            return refuse("Unsupported parameter: 'temperature'", param="temperature")
        items = body["input"]
        if not any(item.get("type") == "function_call_output" for item in items):
            reasoning = dict(REASONING_ITEM)
            if "reasoning.encrypted_content" not in body.get("include", []):
                reasoning["encrypted_content"] = None
            return answer(response_document([reasoning, COMMENTARY_ITEM, CALL_ITEM]))
        expected = [REASONING_ITEM, COMMENTARY_ITEM, CALL_ITEM]
        if REASONING_ITEM not in items and any(item.get("id") == "rs_1" for item in items):
            return refuse(
                "Item with id 'rs_1' not found. Items are not persisted when store is set to false",
                status=404,
            )
        if items[1:4] != expected:
            return refuse("Item 'msg_1' was provided without its required 'reasoning' item")
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        final = {**COMMENTARY_ITEM, "id": "msg_2", "phase": "final_answer", "content": [text]}
        return answer(response_document([final]))

    return plan


def message_document(
    content: list[JSON], stop_reason: str, usage: JSON | None = None, **fields: Any
) -> JSON:
    """A response of the Messages API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }


def claude() -> Plan:
    """Claude 5: adaptive thinking only, no sampling, thoughts sent back before the call."""
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "bash",
        "input": {"commands": "echo hello"},
        "caller": {"type": "direct"},
    }
    first = [*THINKING_BLOCKS, call]

    def plan(request: ReceivedRequest) -> RawReply:
        body = request.body
        headers = {name.lower(): value for name, value in request.headers.items()}
        sampling = {"temperature", "top_p", "top_k"} & body.keys()
        if sampling and headers["anthropic-version"] == "2026-10-21":
            return refuse(f"{sampling.pop()}: Extra inputs are not permitted")
        if body.get("thinking", {}).get("type") == "enabled":
            return refuse('"thinking.type.enabled" is not supported for this model.')
        sent = [message for message in body["messages"] if message["role"] == "assistant"]
        if not sent:
            return answer(message_document(first, "tool_use"))
        if sent[0]["content"] != first:
            return refuse("Expected thinking or redacted_thinking, but found tool_use")
        return answer(message_document([{"type": "text", "text": "Done."}], "end_turn"))

    return plan
