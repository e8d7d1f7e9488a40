"""The dialects of the instrumentation libraries: the same work gives the same trace in each of them."""

import json
from itertools import groupby
from typing import Any, Final, NamedTuple

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from mosaico.traces.otel.assembly import assemble_trace
from mosaico.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE, decode_body
from mosaico.traces.otel.spans import Span
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.otlp import RECORDED, START_NS, export, key_values, needs_recorded, span

ARGUMENTS: Final = '{"country": "Italy"}'
QUESTION: Final = "Capital of Italy?"


def parts(role: str, **part: Any) -> str:
    return json.dumps([{"role": role, "parts": [part]}])


# What each dialect writes on the call of a model that asks for a tool, on the tool, and on the call that
# answers.
DIALECTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "GenAI conventions": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "alias",
            "gen_ai.response.model": "small",
            "gen_ai.conversation.id": "s-1",
            "gen_ai.input.messages": parts("user", type="text", content=QUESTION),
            "gen_ai.output.messages": parts(
                "assistant", type="tool_call", id="c", name="look_up", arguments=ARGUMENTS
            ),
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 2,
            "operation.cost": 0.25,
        },
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.call.id": "c",
            "gen_ai.tool.call.arguments": ARGUMENTS,
        },
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": "small",
            "gen_ai.input.messages": parts("tool", type="tool_call_response", id="c", response="x"),
            "gen_ai.output.messages": parts("assistant", type="text", content="Rome"),
            "gen_ai.usage.input_tokens": 20,
            "gen_ai.usage.output_tokens": 3,
            "operation.cost": 0.5,
        },
    ),
    "traceloop of old": (
        {
            "llm.request.type": "chat",
            "gen_ai.response.model": "small",
            "session.id": "s-1",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": QUESTION,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.id": "c",
            "gen_ai.completion.0.tool_calls.0.name": "look_up",
            "gen_ai.completion.0.tool_calls.0.arguments": ARGUMENTS,
            "gen_ai.usage.prompt_tokens": 10,
            "gen_ai.usage.completion_tokens": 2,
            "gen_ai.usage.cost": 0.25,
        },
        {
            "traceloop.span.kind": "tool",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.call.id": "c",
            "traceloop.entity.input": ARGUMENTS,
        },
        {
            "llm.request.type": "chat",
            "gen_ai.response.model": "small",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "Rome",
            "gen_ai.usage.prompt_tokens": 20,
            "gen_ai.usage.completion_tokens": 3,
            "gen_ai.usage.cost": 0.5,
        },
    ),
    "OpenInference": (
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "small",
            "session.id": "s-1",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": QUESTION,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look_up",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ARGUMENTS,
            "llm.token_count.prompt": 10,
            "llm.token_count.completion": 2,
            "llm.cost.total": 0.25,
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "look_up",
            "tool_call.id": "c",
            "input.value": ARGUMENTS,
        },
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "small",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Rome",
            "llm.token_count.prompt": 20,
            "llm.token_count.completion": 3,
            "llm.cost.total": 0.5,
        },
    ),
    "Langfuse": (
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "small",
            "langfuse.session.id": "s-1",
            "langfuse.observation.input": json.dumps([{"role": "user", "content": QUESTION}]),
            "langfuse.observation.output": json.dumps(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c", "function": {"name": "look_up", "arguments": ARGUMENTS}}
                    ],
                }
            ),
            "langfuse.observation.usage_details": '{"prompt_tokens": 10, "completion_tokens": 2}',
            "langfuse.observation.cost_details": '{"total": 0.25}',
        },
        {
            "langfuse.observation.type": "tool",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.call.id": "c",
            "langfuse.observation.input": ARGUMENTS,
        },
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "small",
            "langfuse.observation.output": json.dumps({"role": "assistant", "content": "Rome"}),
            "langfuse.observation.usage_details": '{"input": 20, "output": 3}',
            "langfuse.observation.cost_details": '{"total": 0.5}',
        },
    ),
}


def child(number: int, attributes: dict[str, Any]) -> ProtoSpan:
    """A span below the root; a second span starts a millisecond later."""
    part = span("call", span_id=f"c{number}", parent="1", start_ns=START_NS + number * 1_000_000)
    part.attributes.extend(key_values(attributes))
    return part


def assemble(*spans: ProtoSpan) -> Trace:
    decoded = decode_body(export(spans), PROTOBUF_TYPE)
    return assemble_trace([part for part in decoded if isinstance(part, Span)])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect__gives_the_same_trace(dialect: str) -> None:
    children = [child(number, own) for number, own in enumerate(DIALECTS[dialect], start=1)]
    trace = assemble(span("agent", span_id="1", duration_ms=7.0), *children)
    assert (trace.outcome, trace.error, trace.latency_ms) == (TraceOutcome.SCORED, None, 7.0)
    assert (trace.input, trace.output) == (QUESTION, "Rome")
    assert (trace.input_tokens, trace.output_tokens, trace.cost_usd) == (30, 5, 0.75)
    assert trace.turns == 2
    assert trace.tool_calls == (
        ToolCall(name="look_up", arguments={"country": "Italy"}, ok=True, latency_ms=1.0),
    )
    assert trace.attributes == {"name": "agent", "model": "small", "session": "s-1"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect__stream_without_usage_leaves_tokens_and_cost_unknown(dialect: str) -> None:
    asking, tool, answering = DIALECTS[dialect]
    silent = {name: text for name, text in answering.items() if not _is_usage(name)}
    children = [child(number, own) for number, own in enumerate((asking, tool, silent), start=1)]
    trace = assemble(span("agent", span_id="1"), *children)
    assert (trace.input_tokens, trace.output_tokens, trace.cost_usd) == (None, None, None)
    assert (trace.output, trace.turns) == ("Rome", 2)


def _is_usage(name: str) -> bool:
    return any(word in name for word in ("usage", "token_count", "cost"))


def test_error__of_a_call_that_the_agent_handled_is_none_of_the_trace() -> None:
    failed = span("call", span_id="c1", parent="1", failed="429")
    failed.attributes.extend(key_values(DIALECTS["GenAI conventions"][0]))
    answer = child(2, DIALECTS["GenAI conventions"][2])
    handled = assemble(span("agent", span_id="1"), failed, answer)
    assert (handled.outcome, handled.output) == (TraceOutcome.SCORED, "Rome")
    ended = assemble(span("agent", span_id="1", failed="it broke"), failed)
    assert (ended.outcome, ended.error) == (TraceOutcome.AGENT_ERROR, "it broke")


@pytest.mark.parametrize(
    ("message", "error_type", "outcome"),
    [
        ("too many", "openai.RateLimitError", TraceOutcome.INFRA_ERROR),
        ("it took too long", "openai.APITimeoutError", TraceOutcome.INFRA_ERROR),
        ("it took too long", "httpx.ReadTimeout", TraceOutcome.INFRA_ERROR),
        ("upstream", "InternalServerError", TraceOutcome.INFRA_ERROR),
        # pydantic-ai raises an exception of its own for every status.
        ("status_code: 429, model_name: small", "ModelHTTPError", TraceOutcome.INFRA_ERROR),
        ("status_code: 400, model_name: small", "ModelHTTPError", TraceOutcome.AGENT_ERROR),
        ("Traceback:\n  line 503, in run\nKeyError: 'x'", "KeyError", TraceOutcome.AGENT_ERROR),
    ],
)
def test_error__of_a_model_server_is_none_of_the_agent(
    message: str, error_type: str, outcome: TraceOutcome
) -> None:
    assert assemble(span(failed=message, error__type=error_type)).outcome is outcome


def test_output__that_is_hidden_is_no_empty_answer() -> None:
    hidden = assemble(span(input__value=QUESTION, output__value="__REDACTED__"))
    assert (hidden.input, hidden.output, hidden.tags) == (QUESTION, None, ("content-not-recorded",))
    silent = assemble(span(input__value=QUESTION))
    assert (silent.output, silent.tags) == ("", ())


class RecordedTrace(NamedTuple):
    """What a library recorded of an agent that asks about the weather and then streams a greeting."""

    output: str
    tokens: tuple[int | None, int | None]
    turns: int
    ok: bool | None
    session: str | None


GREETING: Final = "Answer: Stream a greeting "
RECORDINGS: Final = {
    "traceloop_0.62.4": RecordedTrace(GREETING, (126, 51), 4, None, "sess-1"),
    # Its stream reports no tokens.
    "traceloop_0.40.14": RecordedTrace(GREETING, (None, None), 4, None, "sess-1"),
    "openai_v2_SPAN_ONLY": RecordedTrace(GREETING, (126, 51), 4, None, "sess-1"),
    "openinference_openai": RecordedTrace(GREETING, (126, 51), 4, None, "sess-1"),
    "openinference_langchain": RecordedTrace("It is 18 C in Paris.", (84, 34), 2, True, "sess-1"),
    "pydantic_ai": RecordedTrace(
        GREETING, (126, 51), 4, True, "01a2034d-c5ed-73cb-8c85-9e4205023a6b"
    ),
    "langfuse": RecordedTrace("It is 18 C in Paris.", (129, 55), 5, True, "sess-1"),
}


def recorded_traces(name: str) -> list[Trace]:
    kind = JSON_TYPE if name.endswith(".json") else PROTOBUF_TYPE
    decoded = decode_body((RECORDED / name).read_bytes(), kind)
    spans = sorted((p for p in decoded if isinstance(p, Span)), key=lambda p: p.trace_id)
    return [assemble_trace(list(group)) for _, group in groupby(spans, lambda p: p.trace_id)]


@needs_recorded
@pytest.mark.parametrize("name", RECORDINGS)
def test_recording__of_each_library_is_read(name: str) -> None:
    [trace] = [t for t in recorded_traces(f"{name}.traces.pb") if "Paris" in (t.input or "")]
    expected = RECORDINGS[name]
    assert (trace.output, trace.turns) == (expected.output, expected.turns)
    assert (trace.input_tokens, trace.output_tokens) == expected.tokens
    [call] = trace.tool_calls or ()
    assert (call.name, call.arguments, call.ok) == ("get_weather", {"city": "Paris"}, expected.ok)
    assert trace.attributes.get("session") == expected.session
    assert trace.attributes["model"] == "gpt-4o-mini-2024-07-18"


@needs_recorded
def test_recording__of_an_exporter_in_javascript_and_of_an_experiment() -> None:
    [failed] = recorded_traces("js_exporter.traces.json")
    assert (failed.outcome, failed.error) == (TraceOutcome.AGENT_ERROR, "boom")
    # A hex ID, which the JSON parser of protobuf would read as base64.
    assert len(bytes.fromhex(failed.trace_id)) == 16
    items = recorded_traces("langfuse_experiment.traces.pb")
    answers = {(trace.input, trace.output, trace.expected_output) for trace in items}
    assert answers == {("What is 1+1?", "2", "2"), ("What is 2+2?", "4", "4")}
