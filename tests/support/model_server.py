"""A local server with the APIs of Anthropic and OpenAI that replies by the plan of a test.

It speaks all three wire formats. A reply depends on the request alone: on the task (its first
message) and on the number of earlier turns of the model.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

from mosaico.harness.bash.types import AgentTrace
from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, Usage

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request: its path, what it holds, the first message, and how often the model spoke."""

    path: str
    headers: Mapping[str, str]
    body: JSON
    prompt: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """A turn to answer with. `arguments` replaces the text of the arguments of each call."""

    message: ChatMessage
    stop: StopReason
    usage: Usage | None
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """An answer that is no turn, word for word."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Plan = Callable[[ReceivedRequest], ScriptedReply | RawReply]


@dataclass(slots=True)
class ModelServer:
    """Where it listens and what it was asked; the SDKs of OpenAI want the path `/v1` at the end."""

    url: str
    requests: list[ReceivedRequest] = field(default_factory=list)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"


@contextmanager
def model_server(plan: Plan) -> Iterator[ModelServer]:
    """A server that follows a plan."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for head and body: two would wait for each other

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = _received_request(self.path, dict(self.headers), body)
            server.requests.append(request)
            answer = plan(request)
            if isinstance(answer, ScriptedReply):
                answer = RawReply(status=200, body=json.dumps(_wire(self.path, answer)).encode())
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Http(ThreadingHTTPServer):
        daemon_threads = True
        # The default of 5 makes the kernel drop connections of
        # concurrent attempts; each waits a second.
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            """A client that goes away is no news."""

    with Http(("127.0.0.1", 0), Handler) as http:
        server = ModelServer(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def recorded_plan(traces: Mapping[str, AgentTrace]) -> Plan:
    """Says what a recorded model said, by prompt; the tokens of a task come with its first turn."""
    turns = {
        prompt: [message for message in trace.messages if message.role is MessageRole.ASSISTANT]
        for prompt, trace in traces.items()
    }

    def plan(request: ReceivedRequest) -> ScriptedReply:
        message, trace = turns[request.prompt][request.turn], traces[request.prompt]
        first = request.turn == 0
        return ScriptedReply(
            message=message,
            stop=StopReason.TOOL_USE if message.tool_uses() else StopReason.END,
            usage=Usage(
                # A recording has only the sums of a task, not the tokens of each turn.
                input_tokens=(trace.total_input_tokens or 0) if first else 0,
                output_tokens=(trace.total_output_tokens or 0) if first else 0,
            ),
        )

    return plan


def _received_request(path: str, headers: Mapping[str, str], body: JSON) -> ReceivedRequest:
    if path.endswith("/responses"):
        items = body["input"]
        prompt = next(item["content"] for item in items if item.get("role") == "user")
        # One turn may call several tools; their outputs stand
        # together, so a group of them is one turn.
        kinds = [key for key, _ in groupby(item.get("type") for item in items)]
        turn = kinds.count("function_call_output")
    else:
        user_text = next(message for message in body["messages"] if message["role"] == "user")[
            "content"
        ]
        prompt = user_text if isinstance(user_text, str) else user_text[0]["text"]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
    return ReceivedRequest(path=path, headers=headers, body=body, prompt=prompt, turn=turn)


def _wire(path: str, reply: ScriptedReply) -> JSON:
    if path.endswith("/messages"):
        return _anthropic(reply)
    return _responses(reply) if path.endswith("/responses") else _chat(reply)


def _text_of(reply: ScriptedReply, arguments: JSON) -> str:
    return reply.arguments if reply.arguments is not None else json.dumps(arguments)


def _anthropic(reply: ScriptedReply) -> JSON:
    content: list[JSON] = [{"type": "text", "text": reply.message.text()}]
    for use in reply.message.tool_uses():
        tool_input: Any = reply.arguments if reply.arguments is not None else use.input
        content.append({"type": "tool_use", "id": use.id, "name": use.name, "input": tool_input})
    stops = {
        StopReason.END: "end_turn",
        StopReason.TOOL_USE: "tool_use",
        StopReason.TRUNCATED: "max_tokens",
    }
    answer: JSON = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        # The API of Anthropic has no empty text blocks, and refuses them in a request.
        "content": [block for block in content if block.get("text") != ""],
        "stop_reason": stops[reply.stop],
        "stop_sequence": None,
    }
    if reply.usage:
        answer["usage"] = {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        }
    return answer


def _chat(reply: ScriptedReply) -> JSON:
    calls = [
        {
            "id": use.id,
            "type": "function",
            "function": {"name": use.name, "arguments": _text_of(reply, use.input)},
        }
        for use in reply.message.tool_uses()
    ]
    stops = {
        StopReason.END: "stop",
        StopReason.TOOL_USE: "tool_calls",
        StopReason.TRUNCATED: "length",
    }
    message: JSON = {"role": "assistant", "content": reply.message.text() or None}
    if calls:
        message["tool_calls"] = calls
    answer: JSON = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": stops[reply.stop], "message": message}],
    }
    if reply.usage:
        answer["usage"] = {
            "prompt_tokens": reply.usage.input_tokens,
            "completion_tokens": reply.usage.output_tokens,
            "total_tokens": reply.usage.input_tokens + reply.usage.output_tokens,
        }
    return answer


def _responses(reply: ScriptedReply) -> JSON:
    # Reasoning models return such an item first, and require it with the next request.
    output: list[JSON] = [{"type": "reasoning", "id": "r", "summary": []}]
    if reply.message.text():
        part = {"type": "output_text", "text": reply.message.text(), "annotations": []}
        output.append(
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"f{use.id}",
            "call_id": use.id,
            "name": use.name,
            "arguments": _text_of(reply, use.input),
        }
        for use in reply.message.tool_uses()
    ]
    answer: JSON = {
        "id": "resp",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "incomplete" if reply.stop is StopReason.TRUNCATED else "completed",
    }
    if reply.usage:
        answer["usage"] = {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "total_tokens": reply.usage.input_tokens + reply.usage.output_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    return answer
