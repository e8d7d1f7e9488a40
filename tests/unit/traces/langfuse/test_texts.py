"""Inputs and outputs as texts, equal where their meaning is equal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.traces.sources.langfuse.payload import normalize_json_value, normalize_raw_text

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("text", ["1", "1.0", "true", "null", '"quoted"', " {", "Paris", "é😀"])
def test_a_raw_text_that_is_no_object_or_list_stays_as_it_is(text: str) -> None:
    assert normalize_raw_text(text) == text


@pytest.mark.parametrize("missing", ["", None])
def test_an_empty_text_is_a_missing_one(missing: str | None) -> None:
    assert normalize_raw_text(missing) is None
    assert normalize_json_value(missing) is None


def test_objects_that_are_equal_are_equal_as_texts() -> None:
    one, other = '{"b":2,  "a":"é"}', '{"a": "\\u00e9", "b": 2}'
    assert normalize_raw_text(one) == normalize_raw_text(other) == '{"a": "é", "b": 2}'
    assert normalize_json_value({"b": 2, "a": "é"}) == normalize_raw_text(one)


@pytest.mark.parametrize(
    "text",
    ["[1] see the footnote", "{name}, hello", "[NaN]", "[1e999]", "{" * 9, "[" * 200_000],
)
def test_what_only_begins_like_json_stays_as_it_is(text: str) -> None:
    assert normalize_raw_text(text) == text


@given(st.lists(JSON_VALUES, max_size=4) | st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_both_generations_of_the_api_give_the_same_text(value: object) -> None:
    assert normalize_raw_text(json.dumps(value)) == normalize_json_value(value)
