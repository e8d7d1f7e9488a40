"""Texts of Langfuse traces: chat messages and references to media."""

import json

import pytest

from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.texts import clean_texts
from app.traces.types import Trace

IMAGE = "@@@langfuseMedia:type=image/png|id=AbC-1|source=base64_data_uri@@@"
NO_PATHS = TraceQuery(dataset_ref=None, run_name=None)


@pytest.mark.parametrize(
    "output",
    [
        [{"role": "user", "content": "Capital?"}, {"role": "assistant", "content": "Rome"}],
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "Rome"}]}]},
        {"role": "assistant", "content": "Rome"},
        {"choices": [{"message": {"role": "assistant", "content": "Rome"}}]},
    ],
)
def test_clean_texts__last_answer_of_a_chat_is_the_output(output: object) -> None:
    trace = clean_texts(Trace(trace_id="t", item_id="i", output=json.dumps(output)), NO_PATHS)
    assert trace.output == "Rome"


@pytest.mark.parametrize("output", ["Rome", '{"answer": "Rome"}', "[1, 2]", '[{"role": "user"}]'])
def test_clean_texts__other_texts_are_unchanged(output: str) -> None:
    trace = Trace(trace_id="t", item_id="i", input=output, output=output, expected_output=output)
    assert clean_texts(trace, NO_PATHS) == trace


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
