"""Texts in one form for both API versions, and as metrics compare them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.strict_json import text_of_json
from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.langfuse.json_fields import (
    clean_texts,
    normalize_raw_text,
)
from mosaico.traces.types import Trace

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
IMAGE = "@@@langfuseMedia:type=image/png|id=AbC-1|source=base64_data_uri@@@"
NO_PATHS = TraceQuery(dataset_ref=None, run_name=None)


@pytest.mark.parametrize("text", ["1", "1.0", "true", "null", '"quoted"', " {", "Paris", "é😀"])
def test_normalize_raw_text__scalar_text_is_unchanged(text: str) -> None:
    assert normalize_raw_text(text) == text


@pytest.mark.parametrize("missing", ["", None])
def test_normalize_raw_text__empty_text_is_none(missing: str | None) -> None:
    assert normalize_raw_text(missing) is None
    assert text_of_json(missing) is None


def test_normalize_raw_text__equal_objects_give_equal_texts() -> None:
    first_text, other = '{"b":2,  "a":"é"}', '{"a": "\\u00e9", "b": 2}'
    assert normalize_raw_text(first_text) == normalize_raw_text(other) == '{"a": "é", "b": 2}'
    assert text_of_json({"b": 2, "a": "é"}) == normalize_raw_text(first_text)


@pytest.mark.parametrize(
    "text",
    # The last one is deeper than the parser of Python can go.
    ["[1] see the footnote", "{name}, hello", "[NaN]", "[1e999]", "{" * 9, "[" * 200_000],
)
def test_normalize_raw_text__invalid_json_is_unchanged(text: str) -> None:
    assert normalize_raw_text(text) == text


@given(st.lists(JSON_VALUES, max_size=4) | st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_normalize_raw_text__equals_text_of_json(value: object) -> None:
    assert normalize_raw_text(json.dumps(value)) == text_of_json(value)


@pytest.mark.parametrize(
    "output",
    [
        [{"role": "user", "content": "Capital?"}, {"role": "assistant", "content": "Rome"}],
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "Rome"}]}]},
        {"role": "assistant", "content": "Rome"},
        {"choices": [{"message": {"role": "assistant", "content": "Rome"}}]},
        {"answer": "Rome"},
        {
            "object": "response",
            "output": [{"type": "message", "role": "assistant", "content": "Rome"}],
        },
    ],
)
def test_clean_texts__last_answer_of_a_chat_is_the_output(output: object) -> None:
    trace = clean_texts(Trace(trace_id="t", item_id="i", output=json.dumps(output)), NO_PATHS)
    assert trace.output == "Rome"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            [{"role": "user", "content": "Italy?"}, {"role": "assistant", "content": "Rome"}],
            "Italy?",
        ),
        ({"question": "Italy?"}, "Italy?"),
        ({"country": "Italy"}, '{"country": "Italy"}'),
    ],
)
def test_clean_texts__the_question_is_read_like_that_of_a_file(value: object, text: str) -> None:
    trace = clean_texts(Trace(trace_id="t", item_id="i", input=json.dumps(value)), NO_PATHS)
    assert trace.input == text


@pytest.mark.parametrize("output", ["Rome", '{"city": "Rome"}', "[1, 2]", '[{"role": "user"}]'])
def test_clean_texts__other_texts_are_unchanged(output: str) -> None:
    trace = Trace(trace_id="t", item_id="i", input=output, output=output, expected_output=output)
    assert clean_texts(trace, NO_PATHS) == trace


def test_clean_texts__tool_calls_without_a_text_are_an_empty_answer() -> None:
    calls = [{"id": "c", "function": {"name": "refund", "arguments": "{}"}}]
    output = json.dumps({"role": "assistant", "content": None, "tool_calls": calls})
    trace = clean_texts(Trace(trace_id="t", item_id="i", output=output), NO_PATHS)
    assert trace.output == ""


@pytest.mark.parametrize(
    ("expected", "texts"),
    [
        ({"text": ["Rome", "Roma"], "answer_start": [1, 1]}, ("Rome", "Roma")),
        ({"answers": ["Rome", "Roma"]}, ("Rome", "Roma")),
        # Nobody said what this list means.
        (["Rome", "Roma"], ()),
    ],
)
def test_clean_texts__several_right_answers(expected: object, texts: tuple[str, ...]) -> None:
    written = json.dumps(expected)
    trace = clean_texts(Trace(trace_id="t", item_id="i", expected_output=written), NO_PATHS)
    assert (trace.expected_output, trace.expected_any) == (texts[0] if texts else written, texts)


def test_clean_texts__media_are_named_and_not_compared() -> None:
    trace = clean_texts(
        Trace(
            trace_id="t",
            item_id="i",
            input=f"What is {IMAGE}?",
            output=f"a cat {IMAGE}",
            expected_output=IMAGE,
        ),
        NO_PATHS,
    )
    assert (trace.input, trace.output, trace.expected_output) == (
        "What is [image/png AbC-1]?",
        "a cat",
        None,
    )
    assert trace.attributes == {"media": "image/png AbC-1, image/png AbC-1"}


@pytest.mark.parametrize(
    ("output", "path", "selected"),
    [
        ('{"answer": "Rome"}', "answer", "Rome"),
        ('[{"text": "a"}, {"text": "Rome"}]', "[-1].text", "Rome"),
        ('{"answer": {"b": 1, "a": [true, "é"]}}', "answer", '{"a": [true, "é"], "b": 1}'),
        ('{"answer": 7}', "answer", "7"),
        ('{"answer": false}', "answer", "false"),
        ('{"answer": null}', "answer", None),
        ('{"answer": ""}', "answer", None),
        ('{"reply": "Rome"}', "answer", None),
        ('{"answer": 7}', "length(answer)", None),
        ("Rome", "answer", "Rome"),
        ("{not JSON", "answer", "{not JSON"),
        ("7", "answer", "7"),
        (None, "answer", None),
        (
            '{"messages": [{"role": "assistant", "content": "Rome"}]}',
            "messages[0].role",
            "assistant",
        ),
    ],
)
def test_clean_texts__path_selects_the_text(
    output: str | None, path: str, selected: str | None
) -> None:
    query = TraceQuery(
        dataset_ref=None, run_name=None, input_path=path, output_path=path, expected_path=path
    )
    trace = Trace(trace_id="t", item_id="i", input=output, output=output, expected_output=output)
    trace = clean_texts(trace, query)
    assert [trace.input, trace.expected_output] == [selected] * 2
    # An answer without the text is an empty answer; only what was not recorded is missing.
    assert trace.output == (selected if output is None else selected or "")


def test_clean_texts__media_in_a_selected_text_are_named() -> None:
    query = TraceQuery(dataset_ref=None, run_name=None, output_path="answer")
    output = json.dumps({"answer": f"a cat {IMAGE}"})
    trace = clean_texts(Trace(trace_id="t", item_id="i", output=output), query)
    assert (trace.output, trace.attributes) == ("a cat", {"media": "image/png AbC-1"})
