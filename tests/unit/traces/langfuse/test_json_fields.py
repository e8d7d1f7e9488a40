"""Canonical texts of inputs and outputs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.traces.sources.langfuse.json_fields import normalize_json_value, normalize_raw_text

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
def test_normalize_raw_text__scalar_text_is_unchanged(text: str) -> None:
    assert normalize_raw_text(text) == text


@pytest.mark.parametrize("missing", ["", None])
def test_normalize_raw_text__empty_text_is_none(missing: str | None) -> None:
    assert normalize_raw_text(missing) is None
    assert normalize_json_value(missing) is None


def test_normalize_raw_text__equal_objects_give_equal_texts() -> None:
    first_text, other = '{"b":2,  "a":"é"}', '{"a": "\\u00e9", "b": 2}'
    assert normalize_raw_text(first_text) == normalize_raw_text(other) == '{"a": "é", "b": 2}'
    assert normalize_json_value({"b": 2, "a": "é"}) == normalize_raw_text(first_text)


@pytest.mark.parametrize(
    "text",
    ["[1] see the footnote", "{name}, hello", "[NaN]", "[1e999]", "{" * 9, "[" * 200_000],
)
def test_normalize_raw_text__invalid_json_is_unchanged(text: str) -> None:
    assert normalize_raw_text(text) == text


@given(st.lists(JSON_VALUES, max_size=4) | st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_normalize_raw_text__equals_normalize_json_value(value: object) -> None:
    assert normalize_raw_text(json.dumps(value)) == normalize_json_value(value)
