"""What the reader of spans decides: which texts are missing and why, and which tokens are counted once."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from mosaico.traces.otel.assembly import assemble_trace
from mosaico.traces.otel.export_body import PROTOBUF_TYPE, decode_body
from mosaico.traces.otel.spans import Span
from mosaico.traces.reported_usage import read_usage_details
from mosaico.traces.sources.langfuse.usage import parse_span
from mosaico.traces.types import Trace
from tests.support.otlp import START_NS, encode_spans, export, key_values, span

QUESTION = "Capital of Italy?"
NOT_RECORDED, NOT_UNDERSTOOD = ("content-not-recorded",), ("content-not-understood",)


def part(
    number: int,
    attributes: dict[str, Any],
    parent: int | None = None,
    name: str = "call",
    ms: int = 1,
) -> ProtoSpan:
    """A span; each number starts a millisecond later."""
    own = span(
        name,
        span_id=f"{number:x}",
        parent=None if parent is None else f"{parent:x}",
        start_ns=START_NS + number * 1_000_000,
        duration_ms=ms,
    )
    own.attributes.extend(key_values(attributes))
    return own


def assemble(*spans: ProtoSpan) -> Trace:
    decoded = decode_body(export(spans), PROTOBUF_TYPE)
    return assemble_trace([one for one in decoded if isinstance(one, Span)])


def messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def chat(
    tokens: tuple[int, int] | None = None, more: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    used = {} if tokens is None else {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}  # fmt: skip
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small", **used, **more}


TEXTS = {
    "gen_ai.input.messages": messages("user", QUESTION),
    "gen_ai.output.messages": messages("assistant", "Rome"),
}


# --- texts that are missing


def test_missing__without_any_text_nothing_was_recorded() -> None:
    names = {
        "http.route": "/chat",
        "gen_ai.response.id": "r",
        "server.address": "host",
        "my.id": "x",
    }
    trace = assemble(part(1, names), part(2, chat((3, 4)), parent=1))
    assert (trace.output, trace.tags) == (None, NOT_RECORDED)
    assert "contentNotUnderstood" not in trace.attributes


def test_missing__unknown_attributes_are_named() -> None:
    unknown = {"bot.question": QUESTION, "bot.answer": "Rome", "bot.count": 3, "bot.id": "x"}
    trace = assemble(part(1, unknown))
    assert (trace.input, trace.output, trace.tags) == (None, None, NOT_UNDERSTOOD)
    assert trace.attributes["contentNotUnderstood"] == "bot.question, bot.answer"


def test_missing__unknown_events_are_named() -> None:
    root = part(1, {})
    root.events.add(name="gen_ai.my.answer").attributes.extend(key_values({"text": "Rome"}))
    trace = assemble(root)
    assert trace.attributes["contentNotUnderstood"] == "gen_ai.my.answer"


def test_missing__unknown_answer_beside_a_known_question_is_no_empty_answer() -> None:
    trace = assemble(part(1, {"input.value": QUESTION, "bot.answer": "Rome"}))
    assert (trace.input, trace.output, trace.tags) == (QUESTION, None, NOT_UNDERSTOOD)
    silent = assemble(part(1, {"input.value": QUESTION, "customer.tier": "gold"}))
    assert (silent.output, silent.tags) == ("", ())


@pytest.mark.parametrize("mark", ["__REDACTED__", "[REDACTED]", "<REDACTED>", "<elided>"])
def test_hidden__text_stays_hidden_where_a_library_leaves_a_copy(mark: str) -> None:
    # OPENINFERENCE_HIDE_OUTPUT_TEXT leaves `output.value` readable, here and around the call.
    call = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "__REDACTED__",
        "output.value": "a secret",
    }
    trace = assemble(part(1, {"output.value": "a secret"}), part(2, call, parent=1))
    assert (trace.input, trace.output, trace.tags) == (QUESTION, None, NOT_RECORDED)
    marked = assemble(part(1, {"gen_ai.output.messages": TEXTS["gen_ai.output.messages"], "output.value": mark}))  # fmt: skip
    assert (marked.output, marked.tags) == (None, NOT_RECORDED)
    assert "secret" not in str(trace.transcript)


def test_hidden__text_of_a_call_is_not_read_from_an_agent_below_a_server() -> None:
    agent = {
        "openinference.span.kind": "AGENT",
        "input.value": QUESTION,
        "output.value": "a secret",
    }
    call = {"openinference.span.kind": "LLM", "output.value": "__REDACTED__"}
    trace = assemble(part(1, {}), part(2, agent, parent=1), part(3, call, parent=2))
    assert (trace.input, trace.output, trace.tags) == (QUESTION, None, NOT_RECORDED)


@pytest.mark.parametrize("side", ["input", "output"])
def test_missing__messages_that_were_cut_off_are_named(side: str) -> None:
    name = f"gen_ai.{side}.messages"
    trace = assemble(part(1, chat((3, 4), {**TEXTS, name: TEXTS[name][:-20]})))
    assert getattr(trace, side) is None
    assert trace.tags == NOT_UNDERSTOOD
    assert trace.attributes["contentNotUnderstood"] == f"{name} (cut off)"


@pytest.mark.parametrize("mark", ["[REDACTED]", "[Scrubbed due to 'password']"])
def test_hidden__text_inside_of_messages_is_no_answer(mark: str) -> None:
    call = {**TEXTS, "gen_ai.output.messages": messages("assistant", mark)}
    trace = assemble(part(1, chat((3, 4), call)))
    assert (trace.input, trace.output, trace.tags) == (QUESTION, None, NOT_RECORDED)
    # An answer that has the mark in it is one.
    spoken = {**TEXTS, "gen_ai.output.messages": messages("assistant", f"The name is {mark}.")}
    assert assemble(part(1, chat((3, 4), spoken))).output == f"The name is {mark}."


def test_pipeline__several_questions_and_answers_are_none_of_the_pipeline() -> None:
    asked = json.dumps({"prompt": {"question": QUESTION}, "store": {"query": "a filter"}})
    answered = json.dumps({"a": {"replies": ["Rome"]}, "b": {"replies": ["Milan"]}})
    root = {"haystack.pipeline.input_data": asked, "haystack.pipeline.output_data": answered}
    call = {
        "haystack.component.type": "OpenAIGenerator",
        "haystack.component.input": json.dumps({"prompt": QUESTION}),
        "haystack.component.output": json.dumps({"replies": ["Rome"]}),
    }
    trace = assemble(part(1, root), part(2, call, parent=1))
    assert (trace.input, trace.output) == (QUESTION, "Rome")


def test_hidden__input_is_in_no_copy_and_not_in_the_transcript() -> None:
    call = {
        "openinference.span.kind": "LLM",
        "input.value": "__REDACTED__",
        "gen_ai.input.messages": messages("user", "a secret"),
        "output.value": "Rome",
    }
    trace = assemble(part(1, {"input.value": "a secret"}), part(2, call, parent=1))
    assert (trace.input, trace.output, trace.tags) == (None, "Rome", ())
    assert "secret" not in str(trace.transcript)


def test_hidden__messages_whose_parts_have_no_content_were_not_recorded() -> None:
    bare = {side: json.dumps([{"role": role, "parts": [{"type": "text"}]}]) for side, role in (("gen_ai.input.messages", "user"), ("gen_ai.output.messages", "assistant"))}  # fmt: skip
    trace = assemble(part(1, chat((3, 4), bare), name="chat"))
    assert (trace.input, trace.output, trace.tags) == (None, None, NOT_RECORDED)


@pytest.mark.parametrize(
    ("spans", "warned"),
    [
        ([part(1, {"bot.answer": "Rome"})], True),
        ([part(1, {"bot.answer": "Rome"}), part(2, chat(more=TEXTS), parent=1)], False),
        # The root comes with another export.
        ([part(2, {"bot.answer": "Rome"}, parent=1)], False),
        ([part(1, {"http.route": "/chat"})], False),
        ([part(1, {"customer.plan": "gold"})], False),
        ([part(1, chat(more={"bot.answer": "Rome"}))], True),
    ],
)
def test_warning__of_an_export_names_what_no_convention_knows(
    spans: list[ProtoSpan], warned: bool
) -> None:
    counts = encode_spans(decode_body(export(spans), PROTOBUF_TYPE)).counts
    assert counts.rejected == 0
    assert ("bot.answer" in counts.message) is warned
    assert bool(counts.message) is warned


# --- tokens that are counted once


def test_tokens__of_an_agent_alone_count_when_no_call_has_some() -> None:
    totals = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 2}  # fmt: skip
    alone = assemble(part(1, totals), part(2, chat(more=TEXTS), parent=1))
    assert (alone.input_tokens, alone.output_tokens, alone.turns) == (9, 2, 1)
    # With the tokens of a call the sum of the agent repeats them.
    both = assemble(part(1, totals), part(2, chat((4, 1), TEXTS), parent=1))
    assert (both.input_tokens, both.output_tokens) == (4, 1)


def test_tokens__of_an_agent_in_an_agent_count_once() -> None:
    totals = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 2}  # fmt: skip
    assert assemble(part(1, totals), part(2, totals, parent=1)).input_tokens == 9


def test_tokens__of_a_call_in_a_call_count_once_and_fill_what_the_outer_lacks() -> None:
    inner = part(3, chat((4, 1)), parent=2)
    assert assemble(part(1, {}), part(2, chat((4, 1), TEXTS), parent=1), inner).input_tokens == 4
    filled = assemble(part(1, {}), part(2, chat(more=TEXTS), parent=1), inner)
    assert (filled.input_tokens, filled.turns, filled.output) == (4, 1, "Rome")


def test_tokens__of_a_call_that_was_repeated_count_once_and_those_of_several_answers_all() -> None:
    outer, answer = part(1, chat((4, 1), TEXTS)), part(3, chat((4, 1), TEXTS), parent=1)
    failed = part(2, chat(), parent=1)
    failed.status.code = 2  # type: ignore[assignment]
    repeated = assemble(outer, failed, answer)
    assert (repeated.input_tokens, repeated.turns) == (4, 1)
    several = assemble(outer, answer, part(4, chat((5, 2), TEXTS), parent=1))
    assert (several.input_tokens, several.output_tokens, several.turns) == (9, 3, 2)


def test_tokens__of_a_span_without_a_kind_are_a_wrapper_or_a_call() -> None:
    unnamed = {"gen_ai.request.model": "small", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 2}  # fmt: skip
    call = assemble(part(1, {}), part(2, unnamed, parent=1))
    assert (call.input_tokens, call.turns) == (9, 1)
    calls = [part(number, chat((4, 1), TEXTS), parent=2) for number in (3, 4)]
    wrapper = assemble(part(1, {}), part(2, unnamed, parent=1), *calls)
    assert (wrapper.input_tokens, wrapper.turns) == (8, 2)


@pytest.mark.parametrize("operation", ["fetch_response", "create_agent", "list_runs", "retrieval"])
def test_tokens__that_repeat_those_of_another_call_are_not_read(operation: str) -> None:
    repeated = chat((9, 2)) | {"gen_ai.operation.name": operation}
    trace = assemble(
        part(1, {}), part(2, chat((4, 1), TEXTS), parent=1), part(3, repeated, parent=1)
    )
    assert (trace.input_tokens, trace.turns) == (4, 1)
    assert assemble(part(1, repeated)).input_tokens is None


def test_stream__that_reports_twice_is_one_call() -> None:
    request = chat(more={"gen_ai.input.messages": TEXTS["gen_ai.input.messages"]})
    end = part(3, chat((4, 1), TEXTS), parent=1, ms=0)
    trace = assemble(part(1, {}), part(2, request, parent=1), end)
    assert (trace.input_tokens, trace.turns, trace.output) == (4, 1, "Rome")
    # Two calls that take no time are two calls.
    twice = assemble(part(1, {}), part(2, chat((4, 1), TEXTS), parent=1, ms=0), end)
    assert (twice.input_tokens, twice.turns) == (8, 2)


def test_tools__one_run_that_two_libraries_report_is_one_call() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
    nested = assemble(part(1, TEXTS), part(2, tool, parent=1), part(3, tool, parent=2))
    assert [call.name for call in nested.tool_calls or ()] == ["look_up"]
    ids = [tool | {"gen_ai.tool.call.id": number} for number in ("a", "b")]
    recursive = assemble(part(1, TEXTS), part(2, ids[0], parent=1), part(3, ids[1], parent=2))
    assert len(recursive.tool_calls or ()) == 2


@pytest.mark.parametrize(
    "failure", [{"gen_ai.tool.status": "error"}, {"success": False}, {"gen_ai.tool.success": False}]
)
def test_tools__that_failed_without_a_status(failure: dict[str, Any]) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up", **failure}
    [call] = assemble(part(1, TEXTS), part(2, tool, parent=1)).tool_calls or ()
    assert call.ok is False


@pytest.mark.parametrize(
    "bad",
    ["x", "NaN", "-1", "Infinity", -1, float("nan"), float("inf"), True, 2**63 - 1, ["1"], ""],
)
def test_tokens__that_are_no_count_are_unknown_or_kept(bad: Any) -> None:
    used = {"gen_ai.usage.input_tokens": bad, "gen_ai.usage.output_tokens": 1}
    trace = assemble(part(1, chat(more=TEXTS) | used))
    assert trace.input_tokens is None
    assert (trace.output_tokens, trace.output) == (1, "Rome")


@pytest.mark.parametrize(
    ("details", "tokens"),
    [
        ({"input": 70, "input_cached_tokens": 30, "output": 40, "output_reasoning_tokens": 10, "total": 150}, (100, 50)),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 30}, "completion_tokens": 5, "total_tokens": 105}, (100, 5)),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 5}, (100, 5)),
        ({"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5, "output_tokens": 5}, (35, 5)),
        ({"input_tokens": 30, "cache_read_input_tokens": 20, "output_tokens": 5, "total_tokens": 35}, (30, 5)),
        ({"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}, (7, 3)),
    ],
)  # fmt: skip
def test_usage_details__are_read_alike_by_the_receiver_and_the_langfuse_source(
    details: dict[str, Any], tokens: tuple[int, int]
) -> None:
    assert read_usage_details(details) == tokens
    generation = {"langfuse.observation.type": "generation", "langfuse.observation.usage_details": json.dumps(details)}  # fmt: skip
    received = assemble(part(1, generation))
    assert (received.input_tokens, received.output_tokens) == tokens
    row = {"id": "a", "traceId": "t", "startTime": "2026-11-22T12:00:00Z", "usageDetails": details}
    observed = parse_span(row)
    assert observed is not None
    assert (observed.input_tokens, observed.output_tokens) == tokens
