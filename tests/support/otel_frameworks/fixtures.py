"""Spans of many frameworks, each with the result that was worked out by hand.

`RECORDED` were exported by the named versions, with a model server on this machine, and shortened. `WRITTEN` follow the sources of the
named versions. In all of them an agent is asked for the weather in Rome.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from tests.support.otlp import START_NS, any_value, key_values
from tests.support.service import JSON

FOLDER: Final = Path(__file__).parent / "recorded"
QUESTION: Final = "Weather in Rome?"
ANSWER: Final = "It is sunny in Rome."
ARGUMENTS: Final = {"city": "Rome"}
CALL_TEXT: Final = '{"city": "Rome"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The trace of a fixture; None is unknown. `cached` says where its cached tokens were before: in the count of the
    input, or beside it.
    """

    input: str | None = QUESTION
    output: str | None = ANSWER
    tokens: tuple[int | None, int | None] = (None, None)
    cached: Literal["inside", "added"] | None = None
    cost: float | None = None
    tools: tuple[str, ...] | None = ()
    session: str | None = None
    turns: int | None = 1
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """An export of one trace: `spans` have the form of the files in `recorded`."""

    framework: str
    version: str
    spans: Sequence[JSON]
    expected: Expected
    origin: Literal["recorded", "recorded, filled by a script", "written"] = "written"
    note: str = ""

    @property
    def id(self) -> str:
        return f"{self.framework} {self.version} {self.note}".strip()


@dataclass(slots=True)
class _Writer:
    """Writes spans below each other."""

    scope: str
    version: str = ""
    spans: list[JSON] = field(default_factory=list)

    def add(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: int | None = None,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
        scope: str | None = None,
        ms: int = 1,
    ) -> int:
        number = len(self.spans) + 1
        start = number * 10_000
        self.spans.append(
            {
                "id": number,
                "parent": parent,
                "name": name,
                "scope": [self.scope if scope is None else scope, self.version],
                "us": [start, start + ms * 1000],
                "attributes": dict(attributes),
                "events": [[event, dict(body)] for event, body in events],
            }
        )
        return number


def export_of(
    fixture: Fixture, trace: int = 1, resource: Mapping[str, Any] | None = None
) -> ExportTraceServiceRequest:
    """The export of a fixture, as the trace with this number."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.extend(key_values(resource or {}))
    for scope, group in groupby(fixture.spans, key=lambda row: row["scope"]):
        part = of_resource.scope_spans.add(spans=[_proto_span(row, trace) for row in group])
        part.scope.name, part.scope.version = scope
    return request


def _proto_span(row: JSON, trace: int) -> ProtoSpan:
    start, end = row["us"]
    part = ProtoSpan(
        trace_id=trace.to_bytes(16, "big"),
        span_id=row["id"].to_bytes(8, "big"),
        parent_span_id=row["parent"].to_bytes(8, "big") if row.get("parent") else b"",
        name=row["name"],
        start_time_unix_nano=START_NS + start * 1000,
        end_time_unix_nano=START_NS + end * 1000,
    )
    if "failed" in row:
        part.status.code, part.status.message = 2, row["failed"]  # type: ignore[assignment]
    for name, value in row["attributes"].items():
        part.attributes.add(key=name, value=any_value(value))
    for name, body in row.get("events", ()):
        event = part.events.add(name=name)
        for key, value in body.items():
            event.attributes.add(key=key, value=any_value(value))
    return part


def _recorded(
    framework: str, version: str, file: str, expected: Expected, note: str = ""
) -> Fixture:
    spans = json.loads((FOLDER / f"{file}.json").read_text())
    return Fixture(
        framework=framework,
        version=version,
        spans=spans,
        expected=expected,
        origin="recorded",
        note=note,
    )


# The model server answers with 30 and 9 tokens, then with 40 and 6; 8 tokens of each input come from the cache.
_BOTH: Final[dict[str, Any]] = {"tokens": (70, 15), "turns": 2, "tools": ("look_up",)}

RECORDED: Final = (
    _recorded("pydantic-ai", "2.68.0", "pydantic_ai_2.68.0", Expected(**_BOTH, cached="inside", session="01a22359-2dd9-77fb-936c-07eaaa442692")),
    _recorded("logfire, OpenAI", "5.4.0", "logfire_openai_5.4.0", Expected(**_BOTH, cached="inside")),
    _recorded("OpenInference, OpenAI", "0.1.66", "openinference_openai_0.1.66", Expected(**_BOTH, cached="inside")),
    _recorded("OpenInference, LangChain", "0.1.80", "openinference_langchain_0.1.80", Expected(**_BOTH, cached="inside", session="s-1")),
    # The agent of smolagents ran two steps, and asked a third time for its answer.
    _recorded("OpenInference, smolagents", "0.1.43", "openinference_smolagents_0.1.43", Expected(tokens=(90, 27), turns=3, tools=("look_up", "look_up"))),
    _recorded("traceloop, OpenAI", "0.62.4", "traceloop_openai_0.62.4", Expected(**_BOTH, cached="inside")),
    _recorded("Strands Agents", "1.62.0", "strands_1.62.0", Expected(**_BOTH, output=f"{ANSWER}\n", cached="inside")),
    _recorded("Langfuse SDK", "5.0.4", "langfuse_5.0.4", Expected(**_BOTH, cached="inside")),
    # Its own spans, filled as its integrations fill them.
    replace(_recorded("MLflow", "3.17.2", "mlflow_3.17.2", Expected(**_BOTH, cached="inside")), origin="recorded, filled by a script"),
    _recorded("Vercel AI SDK", "5.0.277", "ai_sdk_5.0.277_generate", Expected(**_BOTH, cached="inside", session="s-1"), "generateText"),
    _recorded("Vercel AI SDK", "5.0.277", "ai_sdk_5.0.277_stream", Expected(**_BOTH, cached="inside", session="s-1"), "streamText"),
)  # fmt: skip


def _parts(role: str, **part: Any) -> str:
    return json.dumps([{"role": role, "parts": [part]}])


def _message(role: str, content: Any) -> str:
    return json.dumps([{"role": role, "content": content}])


_ASKED: Final = _parts("user", type="text", content=QUESTION)
_ANSWERED: Final = _parts("assistant", type="text", content=ANSWER)
_CALLING: Final = _parts("assistant", type="tool_call", id="c", name="look_up", arguments=CALL_TEXT)
_CHAT: Final = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small"}
_USED: Final = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9}
_RUN_TOOL: Final = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "look_up",
    "gen_ai.tool.call.id": "c",
}


def _fixture(
    framework: str, version: str, writer: _Writer, expected: Expected, note: str = ""
) -> Fixture:
    return Fixture(
        framework=framework, version=version, spans=writer.spans, expected=expected, note=note
    )


def _one(
    framework: str,
    version: str,
    scope: str,
    attributes: Mapping[str, Any],
    expected: Expected,
    *,
    name: str = "chat small",
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    note: str = "",
    scope_version: str = "",
) -> Fixture:
    writer = _Writer(scope, scope_version)
    writer.add(name, attributes, events=events)
    return _fixture(framework, version, writer, expected, note)


def _ai_sdk_4() -> Fixture:
    writer = _Writer("ai")
    metadata = json.dumps(
        {"anthropic": {"cacheCreationInputTokens": 100, "cacheReadInputTokens": 20}}
    )
    root = writer.add(
        "ai.generateText",
        {
            "ai.operationId": "ai.generateText",
            "ai.prompt": json.dumps({"system": "Be brief.", "prompt": QUESTION}),
            "ai.response.text": ANSWER,
            # Those of the last step.
            "ai.usage.promptTokens": 40,
            "ai.usage.completionTokens": 6,
            "ai.telemetry.metadata.sessionId": "s-1",
        },
    )
    step: dict[str, Any] = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.provider": "anthropic.messages",
        "gen_ai.request.model": "small",
    }
    calls = json.dumps([{"toolCallType": "function", "toolCallId": "c", "toolName": "look_up", "args": CALL_TEXT}])  # fmt: skip
    writer.add(
        "ai.generateText.doGenerate",
        {
            **step,
            "ai.prompt.messages": _message("user", [{"type": "text", "text": QUESTION}]),
            "ai.response.toolCalls": calls,
            "ai.response.providerMetadata": metadata,
            "ai.usage.promptTokens": 30,
            "ai.usage.completionTokens": 9,
        },
        parent=root,
    )
    writer.add(
        "ai.toolCall",
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "look_up",
            "ai.toolCall.id": "c",
            "ai.toolCall.args": CALL_TEXT,
        },
        parent=root,
    )
    writer.add(
        "ai.generateText.doGenerate",
        {
            **step,
            "ai.response.text": ANSWER,
            # A stream of an older server says NaN: the name of the conventions counts.
            "ai.usage.promptTokens": float("nan"),
            "gen_ai.usage.input_tokens": 40,
            "ai.usage.completionTokens": 6,
        },
        parent=root,
    )
    # 30 + 100 + 20 + 40
    expected = Expected(
        tokens=(190, 15), cached="added", tools=("look_up",), session="s-1", turns=2
    )
    return _fixture("Vercel AI SDK", "4.3.19", writer, expected, "Anthropic")


def _ai_sdk_7() -> Fixture:
    writer = _Writer("gen_ai")
    totals = {"gen_ai.usage.input_tokens": 70, "gen_ai.usage.output_tokens": 15}
    root = writer.add(
        "invoke_agent small",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": _ASKED, "gen_ai.output.messages": _ANSWERED, **totals},
    )  # fmt: skip
    step = writer.add("step 1", {"gen_ai.operation.name": "agent_step"}, parent=root)
    cached = {"gen_ai.usage.cache_read.input_tokens": 8}
    writer.add("chat small", {**_CHAT, **_USED, **cached, "gen_ai.input.messages": _ASKED, "gen_ai.output.messages": _CALLING}, parent=step)  # fmt: skip
    writer.add("execute_tool look_up", {**_RUN_TOOL, "gen_ai.tool.call.arguments": CALL_TEXT}, parent=step)  # fmt: skip
    writer.add(
        "chat small",
        {**_CHAT, "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 6, "gen_ai.output.messages": _ANSWERED},
        parent=root,
    )  # fmt: skip
    expected = Expected(tokens=(70, 15), cached="inside", tools=("look_up",), turns=2)
    return _fixture("Vercel AI SDK", "7 (@ai-sdk/otel 1.0.173)", writer, expected)


def _adk_1() -> Fixture:
    writer = _Writer("gcp.vertex.agent")
    root = writer.add("invocation", {})
    agent = writer.add(
        "agent_run [weather]", {"gen_ai.operation.name": "invoke_agent"}, parent=root
    )
    contents = [{"role": "user", "parts": [{"text": QUESTION}]}]
    call = {"functionCall": {"id": "c", "name": "look_up", "args": ARGUMENTS}}
    for part, tokens, thoughts in ((call, (30, 9), 3), ({"text": ANSWER}, (40, 6), 0)):
        usage = {
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
            "gen_ai.usage.experimental.reasoning_tokens": thoughts,
        }
        outer = writer.add(
            "call_llm",
            {
                **usage,
                "gen_ai.request.model": "small",
                "gcp.vertex.agent.session_id": "s-1",
                "gcp.vertex.agent.llm_request": json.dumps({"model": "small", "contents": contents}),
                "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [part]}}),
            },
            parent=agent,
        )  # fmt: skip
        writer.add("generate_content small", {**usage, "gen_ai.operation.name": "generate_content"}, parent=outer)  # fmt: skip
    unused = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    writer.add("execute_tool look_up", {**_RUN_TOOL, **unused, "gcp.vertex.agent.tool_call_args": CALL_TEXT}, parent=agent)  # fmt: skip
    writer.add("execute_tool (merged tools)", {**_RUN_TOOL, **unused, "gen_ai.tool.name": "(merged tools)"}, parent=agent)  # fmt: skip
    # The count of the output lacks the three tokens of thoughts.
    expected = Expected(tokens=(70, 18), tools=("look_up",), session="s-1", turns=2)
    return _fixture("Google ADK", "1.39.1", writer, expected)


def _genkit() -> Fixture:
    writer = _Writer("genkit-tracer")
    flow = writer.add("weather", {"genkit:type": "flow", "genkit:metadata:subtype": "flow", "genkit:name": "weather", "genkit:input": json.dumps(QUESTION), "genkit:output": json.dumps(ANSWER)})  # fmt: skip
    request = json.dumps({"messages": [{"role": "user", "content": [{"text": QUESTION}]}]})
    asks = [{"toolRequest": {"ref": "c", "name": "look_up", "input": ARGUMENTS}}]
    for content, tokens in ((asks, (30, 9)), ([{"text": ANSWER}], (40, 6))):
        usage = {"inputTokens": tokens[0], "outputTokens": tokens[1], "totalTokens": sum(tokens), "inputCharacters": 500}  # fmt: skip
        output = {"message": {"role": "model", "content": content}, "usage": usage}
        writer.add("small", {"genkit:metadata:subtype": "model", "genkit:name": "small", "genkit:input": request, "genkit:output": json.dumps(output)}, parent=flow)  # fmt: skip
    writer.add("look_up", {"genkit:metadata:subtype": "tool", "genkit:name": "look_up", "genkit:input": CALL_TEXT, "genkit:output": '"sunny"'}, parent=flow)  # fmt: skip
    return _fixture("Genkit", "1.42.0", writer, Expected(tokens=(70, 15), tools=("look_up",), turns=2))  # fmt: skip


def _langsmith() -> Fixture:
    writer = _Writer("langsmith")
    session = {"langsmith.metadata.thread_id": "s-1", "langsmith.trace.session_id": "a project"}
    root = writer.add("agent", {"langsmith.span.kind": "chain", **session, "gen_ai.operation.name": "chain"})  # fmt: skip
    writer.add("template", {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat", "gen_ai.prompt": json.dumps({"question": QUESTION})}, parent=root)  # fmt: skip
    usage = {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39, "total_cost": 0.25, "input_token_details": {"cache_read": 8}}  # fmt: skip
    writer.add(
        "call",
        {
            "langsmith.span.kind": "llm",
            "gen_ai.operation.name": "chat",
            "gen_ai.prompt": json.dumps({"messages": [[{"role": "user", "content": QUESTION}]]}),
            "gen_ai.completion": json.dumps({"generations": [[{"text": ANSWER, "message": {"role": "assistant", "content": ANSWER}}]]}),
            "gen_ai.usage.input_token_details": "{'cache_read': 8}",
            **_USED,
            "langsmith.usage_metadata": json.dumps(usage),
        },
        parent=root,
    )  # fmt: skip
    return _fixture("LangSmith", "0.15.1", writer, Expected(tokens=(30, 9), cost=0.25, cached="inside", session="s-1"))  # fmt: skip


def _claude_agent(framework: str, version: str, scope: str, root: Mapping[str, Any], child: Mapping[str, Any] | None) -> Fixture:  # fmt: skip
    writer = _Writer(scope)
    top = writer.add("agent", root)
    if child is not None:
        writer.add("chat", child, parent=top)
    writer.add("look_up", {**_RUN_TOOL, "openinference.span.kind": "TOOL", "tool.name": "look_up", "input.value": CALL_TEXT}, parent=top)  # fmt: skip
    expected = Expected(
        tokens=(30, 9),
        cost=0.25,
        tools=("look_up",),
        session="s-1",
        turns=None if child is None else 1,
    )
    return _fixture(framework, version, writer, expected)


def _claude_code() -> Fixture:
    writer = _Writer("com.anthropic.claude_code.tracing")
    root = writer.add("claude_code.interaction", {"span.type": "claude_code.interaction", "user_prompt": QUESTION, "session.id": "s-1"})  # fmt: skip
    writer.add("claude_code.llm_request", {"span.type": "claude_code.llm_request", "model": "small", "response.model_output": ANSWER, "input_tokens": 5, "output_tokens": 9, "cache_read_tokens": 20, "cache_creation_tokens": 5}, parent=root)  # fmt: skip
    tool = writer.add("claude_code.tool", {"span.type": "claude_code.tool", "tool_name": "look_up", "tool_input": CALL_TEXT}, parent=root)  # fmt: skip
    writer.add("claude_code.tool.execution", {"span.type": "claude_code.tool.execution", "success": True}, parent=tool)  # fmt: skip
    return _fixture("Claude Code", "2 (by its mapping)", writer, Expected(tokens=(30, 9), cached="added", tools=("look_up",), session="s-1"))  # fmt: skip


def _haystack_message(role: str, part: JSON, usage: JSON | None = None) -> JSON:
    meta = {} if usage is None else {"model": "small", "usage": usage}
    return {"role": role, "meta": meta, "name": None, "content": [part]}


_HAYSTACK_ASKED: Final = _haystack_message("user", {"text": QUESTION})
_HAYSTACK_CALLS: Final = _haystack_message("assistant", {"tool_call": {"id": "c", "tool_name": "look_up", "arguments": ARGUMENTS}}, {"prompt_tokens": 30, "completion_tokens": 9})  # fmt: skip
_HAYSTACK_ANSWER: Final = _haystack_message("assistant", {"text": ANSWER}, {"prompt_tokens": 40, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 8}})  # fmt: skip


def _haystack_agent() -> JSON:
    messages = [_HAYSTACK_ASKED, _HAYSTACK_CALLS, _HAYSTACK_ANSWER]
    return {
        "haystack.agent.input": json.dumps({"messages": [_HAYSTACK_ASKED]}),
        "haystack.agent.output": json.dumps({"messages": messages, "last_message": messages[-1]}),
    }


def _haystack() -> Fixture:
    writer = _Writer("haystack")
    root = writer.add("haystack.agent.run", _haystack_agent())
    step = writer.add("haystack.agent.step", {}, parent=root)
    for reply in (_HAYSTACK_CALLS, _HAYSTACK_ANSWER):
        call = writer.add("haystack.agent.step.llm", {"haystack.agent.step.llm.input": json.dumps({"messages": [_HAYSTACK_ASKED]}), "haystack.agent.step.llm.output": json.dumps({"replies": [reply]})}, parent=step)  # fmt: skip
        # The generator inside of the step is the same call.
        writer.add("haystack.chat_generator.run", {"haystack.component.type": "OpenAIChatGenerator"}, parent=call)  # fmt: skip
    writer.add("haystack.agent.step.tool", {"haystack.tool.name": "look_up", "haystack.agent.step.tool.input": CALL_TEXT}, parent=step)  # fmt: skip
    return _fixture("Haystack", "3.4.1", writer, Expected(tokens=(70, 15), tools=("look_up",), turns=2))  # fmt: skip


def _haystack_pipeline(kind: str, asked: JSON, answered: JSON, note: str) -> Fixture:
    writer = _Writer("haystack")
    root = writer.add("haystack.pipeline.run", {"haystack.pipeline.input_data": json.dumps({"llm": asked}), "haystack.pipeline.output_data": json.dumps({"llm": answered})})  # fmt: skip
    writer.add("haystack.component.run", {"haystack.component.type": kind, "haystack.component.name": "llm", "haystack.component.input": json.dumps(asked), "haystack.component.output": json.dumps(answered)}, parent=root)  # fmt: skip
    writer.add("haystack.component.run", {"haystack.component.type": "AnswerBuilder", "haystack.component.input": json.dumps(answered)}, parent=root)  # fmt: skip
    return _fixture("Haystack", "3.4.1", writer, Expected(tokens=(40, 6)), note)


def _crewai(*, with_calls: bool) -> Fixture:
    """Its own tracing; without the calls the crew alone has the tokens."""
    writer = _Writer("crewai.telemetry")
    usage = {"total_tokens": 39, "prompt_tokens": 30, "cached_prompt_tokens": 8, "completion_tokens": 9, "successful_requests": 1}  # fmt: skip
    root = writer.add("invoke_workflow", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": "s-1", "crewai.crew.inputs": json.dumps({"question": QUESTION}), "crewai.crew.output": ANSWER, "crewai.crew.usage_metrics": json.dumps(usage)})  # fmt: skip
    task = writer.add("execute_task", {"gen_ai.operation.name": "execute_task", "crewai.task.description": "Answer.", "crewai.task.expected_output": "A sentence."}, parent=root)  # fmt: skip
    if with_calls:
        writer.add("chat small", {**_CHAT, **_USED, **_TEXTS}, parent=task)
    expected = Expected(tokens=(30, 9), cached="inside", session="s-1", turns=1 if with_calls else None, tools=() if with_calls else None)  # fmt: skip
    return _fixture("CrewAI", "1.15.30", writer, expected, "" if with_calls else "crew alone")


def _llama_message(role: str, *blocks: JSON) -> JSON:
    return {"role": role, "additional_kwargs": {}, "blocks": list(blocks)}


def _llama_index() -> Fixture:
    writer = _Writer("llamaindex.opentelemetry.tracer")
    root = writer.add("FunctionAgent.run", {})
    asked = json.dumps([_llama_message("user", {"block_type": "text", "text": QUESTION})])
    call = {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "look_up", "tool_kwargs": ARGUMENTS}  # fmt: skip
    for block, tokens in ((call, (30, 9)), ({"block_type": "text", "text": ANSWER}, (40, 6))):
        end: dict[str, Any] = {
            "messages": asked,
            "response.message.role": "assistant",
            "response.message.blocks": json.dumps([block]),
            "response.raw.model": "small",
            "response.raw.usage.prompt_tokens": tokens[0],
            "response.raw.usage.completion_tokens": tokens[1],
        }
        events = [("LLMChatStartEvent", {"messages": asked}), ("LLMChatInProgressEvent", {"messages": asked}), ("LLMChatEndEvent", end)]  # fmt: skip
        writer.add("OpenAI.achat_with_tools", {}, parent=root, events=events)
    return _fixture("LlamaIndex", "0.7.0", writer, Expected(tokens=(70, 15), tools=("look_up",), turns=2))  # fmt: skip


def _openinference(
    framework: str, version: str, asked: JSON, answered: JSON, messages: JSON | None = None
) -> Fixture:
    """A root with the arguments and the result of a function of a framework, above one call."""
    writer = _Writer("openinference.instrumentation")
    root = writer.add("run", {"openinference.span.kind": "AGENT", "input.value": json.dumps(asked), "output.value": json.dumps(answered)})  # fmt: skip
    texts = messages or {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    writer.add("call", {"openinference.span.kind": "LLM", "llm.model_name": "small", **texts, "llm.token_count.prompt": 30, "llm.token_count.completion": 9}, parent=root)  # fmt: skip
    return _fixture(f"OpenInference, {framework}", version, writer, Expected(tokens=(30, 9)))


def _client_and_server() -> Fixture:
    writer = _Writer("opentelemetry.instrumentation.openai_v2")
    call = writer.add("chat small", {**_CHAT, **_USED, "gen_ai.input.messages": _ASKED, "gen_ai.output.messages": _ANSWERED})  # fmt: skip
    writer.add("llm_request", {"gen_ai.request.id": "r", "gen_ai.response.model": "small", "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 9}, parent=call, scope="vllm.llm_engine")  # fmt: skip
    return _fixture("openai-v2 around vLLM", "2.4b0", writer, Expected(tokens=(30, 9)))


def _logfire_1() -> Fixture:
    writer = _Writer("logfire.openai")
    request = {"gen_ai.request.model": "small", "gen_ai.operation.name": "chat", "request_data": json.dumps({"messages": [{"role": "user", "content": QUESTION}]})}  # fmt: skip
    root = writer.add("agent", {}, scope="logfire")
    writer.add("Chat Completion", request, parent=root)
    writer.add(
        "streaming response",
        {**request, **_USED, "operation.cost": 0.25, "logfire.span_type": "log", "response_data": json.dumps({"combined_chunk_content": ANSWER, "chunk_count": 3})},
        parent=root,
        ms=0,
    )  # fmt: skip
    return _fixture("logfire, OpenAI", "5.4.0", writer, Expected(tokens=(30, 9), cost=0.25), "format 1, stream")  # fmt: skip


_EVENTS: Final = json.dumps(
    [
        {"event.name": "gen_ai.system.message", "content": "Be brief."},
        {"event.name": "gen_ai.user.message", "content": QUESTION},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": ANSWER}},
    ]
)  # fmt: skip
_SK_MESSAGE: Final = json.dumps({"role": "user", "content": QUESTION})
_SK_CHOICE: Final = json.dumps({"index": 0, "message": {"role": "Assistant", "content": ANSWER, "tool_calls": [{"id": "c", "function": {"name": "look_up", "arguments": ARGUMENTS}}]}})  # fmt: skip
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_CACHED: Final = {
    "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 20,
}  # fmt: skip
_TEXTS: Final = {"gen_ai.input.messages": _ASKED, "gen_ai.output.messages": _ANSWERED}

WRITTEN: Final = (
    _ai_sdk_4(),
    _one("Vercel AI SDK", "6.0.326", "ai", {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "ai.response.text": ANSWER, "ai.model.provider": "anthropic.messages", "ai.usage.inputTokens": 30, "ai.usage.outputTokens": 9, "ai.usage.inputTokenDetails.noCacheTokens": 10, "ai.usage.inputTokenDetails.cacheReadTokens": 20}, Expected(tokens=(30, 9), cached="inside", tools=None, turns=None), name="ai.generateText", note="root alone"),
    _ai_sdk_7(),
    _adk_1(),
    _one("Google ADK", "2.13.0", "gcp.vertex.agent", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "small", **_CACHED, **_TEXTS, "gen_ai.conversation.id": "s-1"}, Expected(tokens=(30, 9), cached="inside", session="s-1")),
    _genkit(),
    _langsmith(),
    _logfire_1(),
    _one("pydantic-ai", "1 (format 1)", "pydantic-ai", {**_CHAT, **_USED, "events": _EVENTS}, Expected(tokens=(30, 9))),
    # Some versions write numbers as texts.
    _one("pydantic-ai", "1.60", "pydantic-ai", {**_CHAT, **_TEXTS, "gen_ai.usage.input_tokens": "30", "gen_ai.usage.output_tokens": "9", "operation.cost": "0.25"}, Expected(tokens=(30, 9), cost=0.25), note="numbers as texts"),
    _one("Semantic Kernel .NET", "1.48", "Microsoft.SemanticKernel.Diagnostics", {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "small", "gen_ai.response.prompt_tokens": 30, "gen_ai.response.completion_tokens": 9}, Expected(tokens=(30, 9)), events=[("gen_ai.content.prompt", {"gen_ai.prompt": _message("user", QUESTION)}), ("gen_ai.content.completion", {"gen_ai.completion": _message("Assistant", ANSWER)})]),
    _one("Semantic Kernel .NET", "1.55", "Microsoft.SemanticKernel.Diagnostics", {**_CHAT, **_USED}, Expected(tokens=(30, 9), tools=("look_up",)), events=[("gen_ai.user.message", {"gen_ai.event.content": _SK_MESSAGE}), ("gen_ai.choice", {"gen_ai.event.content": _SK_CHOICE})]),
    _one("Azure AI Projects", "2.10.0", "azure.ai.projects", {"gen_ai.operation.name": "responses", "gen_ai.request.model": "small", "gen_ai.thread.id": "s-1", **_USED}, Expected(tokens=(30, 9), session="s-1"), events=[("gen_ai.input.messages", {"gen_ai.event.content": _ASKED}), ("gen_ai.output.messages", {"gen_ai.event.content": _ANSWERED})]),
    _one("Strands Agents", "1.62.0", "strands.telemetry.tracer", {**_CHAT, **_USED}, Expected(tokens=(30, 9)), events=[(_DETAILS, {"gen_ai.input.messages": _ASKED}), (_DETAILS, {"gen_ai.output.messages": _ANSWERED})], note="opt-in events"),
    _one("Strands Agents", "before 1.54", "strands.telemetry.tracer", {**_CHAT, **_TEXTS, "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read_input_tokens": 20, "gen_ai.usage.total_tokens": 59}, Expected(tokens=(50, 9), cached="added"), note="Bedrock"),
    _one("OpenLIT", "1.45.0", "openlit.otel.tracing", {**_CHAT, **_CACHED, **_TEXTS, "gen_ai.provider.name": "anthropic", "gen_ai.usage.total_tokens": 39, "gen_ai.usage.cost": 0.25, "gen_ai.tool.name": "look_up"}, Expected(tokens=(50, 9), cached="added", cost=0.25), note="Anthropic"),
    _one("OpenLIT", "1.45.0", "openlit.otel.tracing", {**_CHAT, **_CACHED, **_TEXTS, "gen_ai.provider.name": "openai"}, Expected(tokens=(30, 9), cached="inside"), note="OpenAI"),
    _one("botocore, Bedrock", "0.66b2", "opentelemetry.instrumentation.botocore.bedrock-runtime", {**_CHAT, **_CACHED}, Expected(tokens=(50, 9), cached="added", input=None, output=None, tools=None, tags=("content-not-recorded",)), note="texts in logs"),
    _one("traceloop, Bedrock", "0.62.4", "opentelemetry.instrumentation.bedrock", {**_CHAT, **_CACHED, **_TEXTS}, Expected(tokens=(50, 9), cached="added")),
    _one("traceloop, Anthropic", "0.40.14", "opentelemetry.instrumentation.anthropic", {"llm.request.type": "chat", "gen_ai.request.model": "small", "gen_ai.system": "Anthropic", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION, "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": ANSWER, "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read_input_tokens": 20, "traceloop.association.properties.session_id": "s-1"}, Expected(tokens=(30, 9), cached="inside", session="s-1")),
    _one("OpenInference, Anthropic", "0.1.13", "openinference.instrumentation.anthropic", {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "output.value": json.dumps({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}), "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.token_count.prompt_details.cache_read": 20}, Expected(tokens=(50, 9), cached="added"), scope_version="0.1.13"),
    _one("OpenInference, Anthropic", "0.1.14", "openinference.instrumentation.anthropic", {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "output.value": json.dumps({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}), "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.token_count.prompt_details.cache_read": 20}, Expected(tokens=(30, 9), cached="inside"), scope_version="0.1.14"),
    _claude_agent("OpenInference, Claude Agent SDK", "0.1.22", "openinference.instrumentation.claude_agent_sdk", {"openinference.span.kind": "AGENT", "input.value": QUESTION, "output.value": ANSWER, "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.cost.total": 0.25, "session.id": "s-1"}, None),
    _claude_agent("logfire, Claude Agent SDK", "5.4.0", "logfire.claude_agent_sdk", {"gen_ai.operation.name": "invoke_agent", **_TEXTS, **_USED, "operation.cost": 0.25, "gen_ai.conversation.id": "s-1"}, {**_CHAT, **_TEXTS, "gen_ai.usage.partial.input_tokens": 1}),
    _claude_code(),
    _haystack(),
    _client_and_server(),
    _one("LiteLLM", "1.110.2", "litellm", {"gen_ai.operation.name": "acompletion", "gen_ai.request.model": "small", "gen_ai.framework": "litellm", **_TEXTS, **_USED, "gen_ai.cost.total_cost": 0.25}, Expected(tokens=(30, 9), cost=0.25), name="litellm_request"),
    _one("Dify", "own spans", "dify", {"gen_ai.span.kind": "LLM", "gen_ai.framework": "dify", "gen_ai.input.messages": _ASKED, "gen_ai.output.messages": "[]", "gen_ai.completion": ANSWER, "gen_ai.request.model": "small", **_USED}, Expected(tokens=(30, 9))),
    _one("Mastra", "0.3.3", "@mastra/otel-exporter", {**_CHAT, "gen_ai.prompt": _message("user", QUESTION), "gen_ai.completion": json.dumps({"text": ANSWER}), **_USED, "gen_ai.usage.cached_input_tokens": 20}, Expected(tokens=(30, 9), cached="inside")),
    _one("Braintrust", "0.48.1", "braintrust", {"braintrust.span_attributes": json.dumps({"type": "llm"}), "braintrust.input_json": _message("user", QUESTION), "braintrust.output_json": _message("assistant", ANSWER), "braintrust.metadata": json.dumps({"model": "small"}), "braintrust.metrics": json.dumps({"prompt_tokens": 30, "completion_tokens": 9, "prompt_cached_tokens": 20, "tokens": 39})}, Expected(tokens=(30, 9), cached="inside")),
    _one("Langfuse SDK", "4.18.0", "langfuse-sdk", {"langfuse.observation.type": "generation", "langfuse.observation.input": _message("user", QUESTION), "langfuse.observation.output": json.dumps({"role": "assistant", "content": ANSWER}), "langfuse.observation.usage_details": json.dumps({"input": 10, "input_cached_tokens": 20, "output": 6, "output_reasoning_tokens": 3, "total": 39}), "langfuse.observation.cost_details": json.dumps({"input": 0.05, "output": 0.2}), "langfuse.session.id": "s-1"}, Expected(tokens=(30, 9), cached="added", cost=0.25, session="s-1"), note="buckets"),
    _one("Azure AI Inference", "1.0.0b9", "azure.ai.inference", {**_CHAT, **_USED, "gen_ai.system": "az.ai.inference"}, Expected(tokens=(30, 9), tools=("look_up",)), events=[("gen_ai.user.message", {"gen_ai.system": "az.ai.inference", "gen_ai.event.content": _SK_MESSAGE}), ("gen_ai.choice", {"gen_ai.system": "az.ai.inference", "gen_ai.event.content": _SK_CHOICE})]),
    _one("logfire, OpenAI", "4", "logfire.openai", {**_CHAT, **_USED, "events": json.dumps([{"event.name": "gen_ai.user.message", "content": QUESTION, "role": "user"}, {"event.name": "gen_ai.assistant.message", "content": ANSWER, "role": "assistant"}])}, Expected(tokens=(30, 9)), note="Responses API"),
    _one("Semantic Kernel .NET", "first", "Microsoft.SemanticKernel.Diagnostics", {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "small", "gen_ai.response.prompt_tokens": -1, "gen_ai.response.completion_tokens": -1}, Expected(), events=[("gen_ai.content.prompt", {"gen_ai.prompt": f'[{{"role:" system, "content:" Be brief.}}, {{"role:" user, "content:" {QUESTION}}}]'}), ("gen_ai.content.completion", {"gen_ai.completion": f'[{{"role:" Assistant, "content:" {ANSWER}}}]'})], note="JSON without quotes"),
    _one("traceloop, LangChain", "0.62.4", "opentelemetry.instrumentation.langchain", {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps({"inputs": {"question": QUESTION}, "tags": [], "metadata": {}, "kwargs": {"name": "agent"}}), "traceloop.entity.output": json.dumps({"outputs": ANSWER, "kwargs": {"tags": []}})}, Expected(tools=None, turns=None), name="agent.workflow"),
    _one("Spring AI", "1-2", "org.springframework.ai", {**_CHAT, **_USED, "spring.ai.kind": "chat_model", "spring.ai.chat.client.conversation.id": "s-1"}, Expected(input=None, output=None, tokens=(30, 9), tools=None, session="s-1", tags=("content-not-recorded",)), note="no texts on spans"),
    _haystack_pipeline("OpenAIChatGenerator", {"messages": [_HAYSTACK_ASKED]}, {"replies": [_HAYSTACK_ANSWER]}, "pipeline of a chat"),
    _haystack_pipeline("OpenAIGenerator", {"prompt": QUESTION}, {"replies": [ANSWER], "meta": [{"model": "small", "usage": {"prompt_tokens": 40, "completion_tokens": 6}}]}, "pipeline of texts"),
    _one("Haystack", "3.4.1", "haystack", _haystack_agent(), Expected(tokens=(70, 15), turns=None, tools=("look_up",)), name="haystack.agent.run", note="agent alone"),
    _crewai(with_calls=True),
    _crewai(with_calls=False),
    _one("traceloop, CrewAI", "0.62.4", "opentelemetry.instrumentation.crewai", {"gen_ai.system": "crewai", "crewai.crew.inputs": json.dumps({"question": QUESTION}), "crewai.crew.result": ANSWER, "crewai.crew.token_usage": "total_tokens=39 prompt_tokens=30 cached_prompt_tokens=8 completion_tokens=9 successful_requests=1"}, Expected(tokens=(30, 9), turns=None, tools=None), name="crewai.workflow", note="crew alone"),
    _llama_index(),
    _openinference("LlamaIndex", "4 (by its facts)", {"user_msg": QUESTION, "max_iterations": None}, {"response": _llama_message("assistant", {"block_type": "text", "text": ANSWER}), "tool_calls": [], "current_agent_name": "agent"}),
    _openinference("Google ADK", "0.1 (by its facts)", {"user_id": "u", "session_id": "s", "new_message": {"role": "user", "parts": [{"text": QUESTION}]}}, {"author": "agent", "content": {"role": "model", "parts": [{"text": ANSWER}]}, "partial": None}),
    _openinference("completions", "0.1.66", {"question": QUESTION}, {"outputs": ANSWER, "kwargs": {}}, {"llm.prompts.0.prompt.text": QUESTION, "llm.choices.0.completion.text": ANSWER}),
    _one("logfire, OpenAI Agents", "5.4.0", "logfire.openai_agents", {"gen_ai.request.model": "small", **_USED, "request_data": json.dumps({"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]})}, Expected(tokens=(30, 9)), name="Generation"),
    _one("Dify", "own spans", "dify", {"gen_ai.span.kind": "LLM", "gen_ai.request.model": "small", **_USED, "gen_ai.input.messages": "[]", "gen_ai.output.messages": "[]", "gen_ai.prompt": json.dumps([{"role": "user", "text": QUESTION}]), "gen_ai.completion": ANSWER}, Expected(tokens=(30, 9)), note="messages"),
    _one("Braintrust", "0.48.1", "braintrust", {"braintrust.span_attributes": json.dumps({"type": "llm"}), "braintrust.input_json": _message("user", QUESTION), "braintrust.output_json": _message("assistant", ANSWER), "braintrust.metrics": json.dumps({"prompt_tokens": 30, "completion_tokens": 9, "prompt_cached_tokens": 20})}, Expected(tokens=(30, 9), cached="inside"), note="without a total"),
    _one("MLflow", "3.17.2", "mlflow", {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "mlflow.spanOutputs": json.dumps({"role": "assistant", "content": ANSWER}), "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 10, "output_tokens": 9, "total_tokens": 19, "cache_read_input_tokens": 20})}, Expected(tokens=(30, 9), cached="added"), note="more cached than input tokens"),
    # Nothing names an operation.
    _one("spans without an operation", "by hand", "my.app", {"gen_ai.response.model": "small", "gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER, "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 9}, Expected(tokens=(30, 9))),
)  # fmt: skip

FIXTURES: Final = (*RECORDED, *WRITTEN)
