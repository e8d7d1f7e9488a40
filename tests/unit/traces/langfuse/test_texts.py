"""Texts of Langfuse traces: chat messages and references to media."""

import json

import pytest

from app.traces.sources.langfuse.texts import clean_texts
from app.traces.types import Trace

IMAGE = "@@@langfuseMedia:type=image/png|id=AbC-1|source=base64_data_uri@@@"


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
    trace = clean_texts(Trace(trace_id="t", item_id="i", output=json.dumps(output)))
    assert trace.output == "Rome"


@pytest.mark.parametrize("output", ["Rome", '{"answer": "Rome"}', "[1, 2]", '[{"role": "user"}]'])
def test_clean_texts__other_texts_are_unchanged(output: str) -> None:
    trace = Trace(trace_id="t", item_id="i", input=output, output=output, expected_output=output)
    assert clean_texts(trace) == trace


def test_clean_texts__media_are_named_and_not_compared() -> None:
    trace = clean_texts(
        Trace(
            trace_id="t",
            item_id="i",
            input=f"What is {IMAGE}?",
            output=f"a cat {IMAGE}",
            expected_output=IMAGE,
        )
    )
    assert (trace.input, trace.output, trace.expected_output) == (
        "What is [image/png AbC-1]?",
        "a cat",
        None,
    )
    assert trace.attributes == {"media": "image/png AbC-1, image/png AbC-1"}
