"""Parsing of NDJSON lines, and its error messages."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import Invalid
from mosaico.harness.transcript import Transcript, TranscriptMessage, TranscriptToolCall
from mosaico.traces.files.ndjson import format_trace_line, iter_traces, parse_trace, trace_document
from mosaico.traces.types import ToolCall, Trace, TraceOutcome

FULL = {
    "traceId": "t-1",
    "itemId": "q-1",
    "trial": 2,
    "outcome": "agent_error",
    "input": "Which?",
    "expectedOutput": "This",
    "output": "",
    "error": "it broke",
    "tags": ["easy", "é"],
    "attributes": {"session": "s-1", "topic": "trains", "release": None},
    "url": "https://example.org/t-1",
    "inputTokens": 7,
    "outputTokens": 0,
    "costUsd": 0.25,
    "latencyMs": 12,
    "toolCalls": [{"name": "search", "arguments": {"q": "x"}, "ok": True, "latencyMs": 3}],
    "turns": 4,
    "scores": {"Answer Relevance": 1, "Tone": 0.5, "Absent": None},
    "seedMetrics": {"whatever": ["is", "not", "known"]},
}


def test_parse_trace__reads_every_key_and_ignores_unknown_keys() -> None:
    assert parse_trace(FULL) == Trace(
        trace_id="t-1",
        item_id="q-1",
        trial=2,
        outcome=TraceOutcome.AGENT_ERROR,
        input="Which?",
        expected_output="This",
        output="",
        error="it broke",
        tags=("easy", "é"),
        attributes={"session": "s-1", "topic": "trains"},
        url="https://example.org/t-1",
        input_tokens=7,
        output_tokens=0,
        cost_usd=0.25,
        latency_ms=12.0,
        tool_calls=(ToolCall(name="search", arguments={"q": "x"}, ok=True, latency_ms=3.0),),
        turns=4,
        scores={"Answer Relevance": 1.0, "Tone": 0.5},
    )


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        # An agent that answers nothing scores 0, as with an empty text;
        # without the key the output is unknown.
        ({"output": None}, ""),
        ({"output": ""}, ""),
        ({}, None),
        ({"output": None, "outcome": "agent_error"}, None),
    ],
)
def test_parse_trace__null_is_an_answer_and_a_missing_key_is_none(
    fields: dict[str, Any], output: str | None
) -> None:
    assert parse_trace({"traceId": "t", **fields}).output == output


def test_parse_trace__transcript_is_written_and_read_again() -> None:
    steps = (
        TranscriptMessage(role="user", text="Which?"),
        TranscriptToolCall(tool="search", arguments={"q": "x"}, output="This", duration_ms=3.0),
    )
    trace = Trace(trace_id="t", item_id="t", transcript=Transcript(steps=steps))
    [parsed_trace] = iter_traces([format_trace_line(trace)])
    assert parsed_trace.transcript == trace.transcript


@pytest.mark.parametrize("document", ["text", {}, {"steps": [{"kind": "wish"}]}, {"version": 2}])
def test_parse_trace__invalid_transcript_is_rejected(document: object) -> None:
    with pytest.raises(Invalid, match="transcript must be a transcript as the API returns it"):
        parse_trace({"traceId": "t", "transcript": document})


@pytest.mark.parametrize("key", ["expectedAny", "expectedAll"])
def test_parse_trace__several_expected_answers_are_written_and_read_again(key: str) -> None:
    trace = parse_trace({"traceId": "t", key: ["a", "b"]})
    assert trace.expected_output == "a"
    assert trace_document(trace)[key] == ["a", "b"]
    assert parse_trace(trace_document(trace)) == trace
    with pytest.raises(Invalid, match=rf"{key}\[1\] must be a text"):
        parse_trace({"traceId": "t", key: ["a", 7]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"traceId": None}, "traceId is missing"),
        ({"traceId": 7}, "traceId must be a text"),
        ({"traceId": "."}, "traceId is '.', which no address can contain"),
        ({"traceId": ".."}, "traceId is '..', which no address can contain"),
        ({"traceId": " "}, "traceId has 1 characters or is blank"),
        ({"traceId": "x" * 257}, "use 1 to 256 characters"),
        ({"itemId": ""}, "itemId has 0 characters"),
        ({"turns": -1}, "turns must be a whole number from 0 to 2147483647"),
        # The first number that the column, an int4, cannot store.
        ({"turns": 2**31}, "turns must be a whole number"),
        ({"output": {"a": 1}}, "output must be a text .* not an object"),
        ({"expectedOutput": 3}, "expectedOutput must be a text .* not 3"),
        ({"input": ["x"]}, "input must be a text .* not a list"),
        ({"output": "a\x00b"}, "output contains the character NUL"),
        ({"output": "a\ud800"}, "output contains a lone surrogate at character 1"),
        ({"trial": -1}, "trial must be a whole number from 0 to 32767, not -1"),
        ({"trial": True}, "trial must be a whole number .* not a boolean"),
        ({"trial": 1.0}, "trial must be a whole number"),
        ({"inputTokens": 2**63}, "inputTokens must be a whole number"),
        ({"costUsd": "0.1"}, "costUsd must be a number, not '0.1'"),
        ({"costUsd": -0.1}, "costUsd must be a number of at least 0"),
        ({"latencyMs": float("nan")}, "latencyMs must be a finite number"),
        # `float(10**400)` raises OverflowError, unlike 1e400, which is infinite.
        ({"latencyMs": 10**400}, "latencyMs must be a finite number"),
        ({"outcome": "great"}, "outcome must be one of scored, agent_error, .* not 'great'"),
        ({"outcome": 1}, "outcome must be one of"),
        ({"outcome": []}, "outcome must be one of"),
        ({"tags": "easy"}, "tags must be a list, not 'easy'"),
        ({"tags": [1]}, r"tags\[0\] must be a text"),
        ({"toolCalls": [{}]}, r"toolCalls\[0\] must be an object with a \"name\""),
        ({"toolCalls": [{"name": "a", "ok": 1}]}, r"toolCalls\[0\].ok must be true or false"),
        (
            {"toolCalls": [{"name": "a", "latencyMs": "fast"}]},
            r"toolCalls\[0\].latencyMs must be a number",
        ),
        ({"toolCalls": [{"name": "a", "arguments": 1}]}, "arguments must be an object"),
        ({"scores": [1]}, "scores must be an object of numbers, not a list"),
        ({"scores": {"A": True}}, r"scores\['A'\] must be a number, not a boolean"),
        ({"scores": {"A": float("inf")}}, "must be a finite number"),
    ],
)
def test_parse_trace__wrong_type_raises_with_the_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_trace(FULL | changes)


@pytest.mark.parametrize("value", [None, [], "t", 7])
def test_parse_trace__value_that_is_not_an_object_raises(value: object) -> None:
    with pytest.raises(Invalid, match="a trace must be an object"):
        parse_trace(value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3, column [0-9]+: not valid JSON"),
        (b"\xff", "line 3: .*not UTF-8"),
        (b'{"traceId": "a"', "line 3, column [0-9]+: not valid JSON"),
        (b'{"traceId": "a", "costUsd": NaN}', "line 3: "),
        (b'{"traceId": "a", "traceId": "b"}', "line 3: "),
        (b'{"traceId": "a\\u0000"}', "line 3: "),
        (b'{"traceId": "a\\ud800"}', "line 3: "),
        (b'{"traceId": "a", "x": 123456789012345678901234567890}', "line 3: "),
        (b"[" * 100_000, "line 3: "),
        (b'{"traceId": "first"}', "line 3: traceId 'first' is already on line 1"),
        (b'{"output": "x"}', "line 3: traceId is missing"),
    ],
)
def test_iter_traces__errors_name_the_line(line: bytes, message: str) -> None:
    # A blank line counts as a line: editors show the same number.
    lines = [b'{"traceId": "first"}\n', b"\n", line]
    with pytest.raises(Invalid, match=message):
        list(iter_traces(lines))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(sorted(FULL)),
)
def test_parse_trace__any_value_is_parsed_or_rejected(value: object, key: str) -> None:
    with contextlib.suppress(Invalid):
        assert isinstance(parse_trace(FULL | {key: value}), Trace)


def test_iter_traces__reads_the_demo_traces() -> None:
    for path in sorted((Path(__file__).parents[3] / "demo" / "traces").glob("*.jsonl")):
        with path.open("rb") as lines:
            assert len(list(iter_traces(lines))) >= 200


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"role": "assistant", "content": "Oslo"}, "Oslo"),
        ([{"role": "user", "content": "?"}, {"role": "assistant", "content": "Oslo"}], "Oslo"),
        ({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Oslo"}}]}, "Oslo"),
        ({"answer": "Oslo"}, "Oslo"),
        ({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}, ""),
    ],
)
def test_parse_trace__reads_texts_like_a_file(output: object, text: str) -> None:
    assert parse_trace({"traceId": "t", "output": output}).output == text


@pytest.mark.parametrize("output", [{"city": "Oslo"}, [1, 2], {}, []])
def test_parse_trace__another_value_is_no_text(output: object) -> None:
    with pytest.raises(Invalid, match="output must be a text"):
        parse_trace({"traceId": "t", "output": output})
