"""The text of any value: what is opened, what stays as it is, and why a value has no text."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.traces.answer_markup import has_thinking, strip_fences, strip_thinking
from mosaico.traces.model_responses import ValueForm
from mosaico.traces.value_text import NoText, TextRole, read_error, read_text, read_texts

ASSISTANT = {"role": "assistant", "content": "Oslo"}
CALL = {"id": "c", "type": "function", "function": {"name": "refund", "arguments": '{"id": 7}'}}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    [
        *("role", "content", "type", "text", "message", "messages", "choices", "answer", "output"),
        *("response", "body", "status_code", "custom_id", "result", "error", "candidates", "parts"),
        *("generations", "samples", "tool_calls", "from", "value", "lc", "kwargs", "data", "id"),
    ]
) | st.text(max_size=5)
WORDS = st.sampled_from(
    ["assistant", "user", "ai", "text", "tool_use", "reasoning", "succeeded", "errored", "response"]
)
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("Oslo", ValueForm.TEXT),
        (ASSISTANT, ValueForm.MESSAGE),
        ([{"role": "user", "content": "?"}, ASSISTANT], ValueForm.CHAT),
        ({"messages": [{"role": "user", "content": "?"}, ASSISTANT]}, ValueForm.CHAT),
        ([{"type": "human", "content": "?"}, {"type": "ai", "content": "Oslo"}], ValueForm.CHAT),
        ([{"from": "human", "value": "?"}, {"from": "gpt", "value": "Oslo"}], ValueForm.CHAT),
        ({"choices": [{"index": 0, "message": ASSISTANT}], "usage": {}}, ValueForm.COMPLETION),
        ({"choices": [{"text": "Oslo", "finish_reason": "stop"}]}, ValueForm.COMPLETION),
        (
            {
                "object": "response",
                "output": [
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Oslo"}]},
                ],
            },
            ValueForm.RESPONSE,
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "Os"}, {"type": "text", "text": "lo"}]},
            ValueForm.MESSAGE,
        ),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "Oslo"}]}}]}, ValueForm.RESPONSE),
        ({"status_code": 200, "body": {"choices": [{"message": ASSISTANT}]}}, ValueForm.BATCH_LINE),
        ({"id": "b", "custom_id": "q", "response": {"status_code": 200, "body": {"choices": [{"message": ASSISTANT}]}}, "error": None}, ValueForm.BATCH_LINE),
        ({"custom_id": "q", "result": {"type": "succeeded", "message": {"role": "assistant", "content": [{"type": "text", "text": "Oslo"}]}}}, ValueForm.BATCH_LINE),
        ({"generations": [[{"text": "Oslo", "generation_info": None}]]}, ValueForm.GENERATIONS),
        ([{"generated_text": "Oslo"}], ValueForm.ONE_MEMBER),
        ({"answer": "Oslo"}, ValueForm.ONE_MEMBER),
        ({"text": "Oslo"}, ValueForm.ONE_MEMBER),
        ({"final_answer": {"text": "Oslo"}, "sources": ["a"], "confidence": 0.5}, ValueForm.ONE_MEMBER),
        ({"question": "?", "result": "Oslo", "source_documents": []}, ValueForm.ONE_MEMBER),
        ({"messages": [], "answer": "Oslo"}, ValueForm.ONE_MEMBER),
        ({"content": [{"type": "text", "text": "Oslo"}], "isError": False}, ValueForm.PARTS),
        ([{"type": "text", "text": "Oslo"}], ValueForm.PARTS),
        ({"role": "assistant", "content": None, "refusal": "Oslo"}, ValueForm.MESSAGE),
    ],
)  # fmt: skip
def test_read_text__opens_the_forms_of_answers(value: Any, form: ValueForm) -> None:
    reading = read_text(value)
    assert (reading.text, reading.form, reading.reason) == ("Oslo", form, None)
    # The same value as the text of a cell.
    encoded = read_text(value if isinstance(value, str) else json.dumps(value), is_encoded=True)
    assert encoded.text == "Oslo"


@pytest.mark.parametrize(
    "value",
    [
        {"city": "Oslo", "country": "Norway"},
        # Two members may be the answer, and one that is no detail stands beside it.
        {"answer": "Oslo", "response": "Rome"},
        {"answer": "Oslo", "country": "Norway"},
        [1, 2],
        ["Oslo"],
        [{"role": "assistant", "content": "x"}, {"row": 1}],
        {"choices": [{"text": "A", "label": "a"}], "question": "?"},
    ],
)
def test_read_text__other_structures_are_json(value: Any) -> None:
    reading = read_text(value)
    assert (reading.form, json.loads(reading.text or "")) == (ValueForm.JSON, value)
    # What an agent wrote as JSON text is not written anew.
    written = json.dumps(value, indent=1)
    assert read_text(written, is_encoded=True).text == written


def test_read_text__notation_of_python_is_opened_where_objects_are_texts() -> None:
    written = str([{"role": "user", "content": "?"}, {"role": "assistant", "content": "It's Oslo"}])
    assert read_text(written, is_encoded=True).text == "It's Oslo"
    assert read_text(written).text == written
    assert read_text("{'a': __import__('os')}", is_encoded=True).text == "{'a': __import__('os')}"


@pytest.mark.parametrize("text", ["", "{name}, hello", "[1] see below", '{"a": 1', "NaN", "None"])
def test_read_text__a_text_is_the_text(text: str) -> None:
    assert read_text(text, is_encoded=True).text == text
    # Without a writer that encodes, JSON in a text is what the agent said.
    assert read_text('{"answer": "x"}').text == '{"answer": "x"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (7.0, "7"), (0.5, "0.5"), (True, "true"), (Decimal("0.25"), "0.25"), (date(2026, 1, 2), "2026-01-02")],
)  # fmt: skip
def test_read_text__scalars(value: Any, text: str) -> None:
    assert read_text(value).text == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, NoText.NOTHING),
        (float("nan"), NoText.NOT_A_NUMBER),
        (float("inf"), NoText.NOT_A_NUMBER),
        (b"x", NoText.BINARY),
        ({"role": "assistant", "content": None, "tool_calls": [CALL]}, NoText.TOOL_CALLS),
        ([{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}], NoText.TOOL_CALLS),
        ([{"type": "image_url", "image_url": {"url": "x"}}], NoText.NO_TEXT),
        ({"status_code": 429, "body": {"error": {"message": "slow down", "type": "rate_limit_error"}}}, NoText.ERROR),
        ({"type": "errored", "error": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}, NoText.ERROR),
    ],
)  # fmt: skip
def test_read_text__says_why_there_is_none(value: Any, reason: NoText) -> None:
    reading = read_text(value)
    assert (reading.text, reading.reason) == (None, reason)


def test_read_text__names_tool_calls_and_what_is_left_out() -> None:
    calls = read_text({"role": "assistant", "content": None, "tool_calls": [CALL]}).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [("refund", {"id": 7})]
    reading = read_text({"answer": "x", "sources": ["a"], "usage": None, "confidence": 1})
    assert reading.left_out == ("sources", "confidence")


def test_read_text__question_is_that_of_the_user() -> None:
    chat = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes"},
        {"role": "user", "content": "Capital?"},
    ]
    assert read_text(chat, TextRole.QUESTION).text == "Capital?"
    assert read_text({"question": "Capital?", "id": 1}, TextRole.QUESTION).text == "Capital?"
    options = {"question": "Capital?", "options": ["a", "b"]}
    assert read_text(options, TextRole.QUESTION).form is ValueForm.JSON


def test_read_texts__choices_are_several_answers() -> None:
    choices = [{"index": n, "message": {"role": "assistant", "content": f"a{n}"}} for n in range(3)]
    assert [text.text for text in read_texts({"choices": choices})] == ["a0", "a1", "a2"]
    assert [text.text for text in read_texts({"samples": ["a", {"text": "b"}]})] == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, None),
        ("", None),
        ({}, None),
        ("boom", "boom"),
        ({"message": "slow down", "code": 429}, "429: slow down"),
        ({"error": {"message": "no", "type": "server_error"}}, "server_error: no"),
        ({"reason": 1}, '{"reason": 1}'),
    ],
)
def test_read_error__is_one_text(value: Any, message: str | None) -> None:
    assert read_error(value) == message


@given(VALUES, st.sampled_from(TextRole), st.booleans())
def test_read_texts__any_value_has_a_text_or_a_reason(
    value: Any, role: TextRole, is_encoded: bool
) -> None:
    for written in (value, json.dumps(value)):
        for reading in read_texts(written, role, is_encoded=is_encoded):
            assert (reading.text is None) == (reading.reason is not None)


@given(st.text(max_size=40))
def test_read_text__a_text_is_never_changed(text: str) -> None:
    assert read_text(text).text == text


def test_read_text__bottomless_values_have_a_reason() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert read_text(deep).reason is NoText.TOO_DEEP
    circle: dict[str, Any] = {}
    circle["self"] = circle
    assert read_text(circle).reason is NoText.TOO_DEEP
    assert read_text({1: "a", "b": {2: (3,)}}).text == '{"1": "a", "b": {"2": [3]}}'


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\n2+2\n</think>\n\n4", "4"),
        ("<thinking budget=9>a</thinking>4", "4"),
        ("<think>a</think><think>b</think> 4", "4"),
        # The prompt began the thoughts.
        ("so it is 4\n</think>\n4", "4"),
        # The thoughts never ended: there is no answer.
        ("<think>\n2+2 is", ""),
        ("<REASONING>a</REASONING>4", "4"),
        ("4", "4"),
        (" I think so ", " I think so "),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_strip_thinking__keeps_the_answer(text: str, answer: str) -> None:
    assert strip_thinking(text) == answer
    assert has_thinking(text) == (("<" in text and "think" in text) or "REASONING" in text)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('\n```\n{"a": 1}```\n', '{"a": 1}'),
        ("```python\r\nx = 1\r\n```", "x = 1"),
        ('Here:\n```json\n{"a": 1}\n```', 'Here:\n```json\n{"a": 1}\n```'),
        ("```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```"),
        ("plain", "plain"),
    ],
)
def test_strip_fences__only_of_a_text_that_is_one_block(text: str, content: str) -> None:
    assert strip_fences(text) == content


def test_read_text__message_that_was_printed_in_place_of_its_content() -> None:
    printed = r"content='Paris, \'the\' city\n' additional_kwargs={'refusal': None} id='run-1'"
    assert read_text(printed).text == "Paris, 'the' city\n"
    assert read_text(printed).form is ValueForm.MESSAGE
    # Not the notation of Python, and another text that begins in the same way.
    for text in (r"content='\x' additional_kwargs={}", "content='x' is an attribute"):
        assert read_text(text).text == text
