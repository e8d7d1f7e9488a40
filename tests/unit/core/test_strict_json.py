"""Strict JSON parsing."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import Invalid
from mosaico.core.strict_json import MAX_DEPTH, MalformedJson, parse_json, reject_unacceptable

# What Postgres cannot store is refused: the tests below are about it.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30
)


@given(documents)
def test_parse_json__agrees_with_the_standard_parser(document: Any) -> None:
    assert parse_json(json.dumps(document).encode()) == document


# The characters of JSON: other texts end at their first character.
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0dNaI1e-. ', max_size=60))
def test_parse_json__any_bytes_give_a_value_or_an_error_with_a_remedy(raw: bytes | str) -> None:
    message = "send"
    try:
        parse_json(raw)
    except Invalid as error:
        message = str(error)
    assert any(remedy in message for remedy in ("send", "encode", "remove"))


@pytest.mark.parametrize(
    ("text", "pointer", "detail"),
    [
        ('{"a": [1, NaN]}', "/a/1", "NaN is not a JSON number"),
        ('{"a": -Infinity}', "/a", "-Infinity is not a JSON number"),
        ('{"a": 1e400}', "/a", "beyond the range of a double"),
        ('{"a": 9223372036854775808}', "/a", "beyond 64 bits"),
        ('{"a": 123456789012345678901234567890}', "/a", "beyond 64 bits"),
        ('{"a": "x\\u0000y"}', "/a", "NUL"),
        ('{"a": "\\ud800"}', "/a", "a lone surrogate at character 0"),
        # A pointer is part of the answer, which could not be
        # stored either with the character in it.
        ('{"a\\u0000": 1}', "/a?", "NUL"),
        ('{"\\ud800": 1}', "/?", "a lone surrogate"),
        ('[{"k": 1, "k": 2}]', "/0", "'k' twice"),
        # In a JSON pointer (RFC 6901) `/` is written `~1` and `~` is written `~0`.
        ('{"a/b": {"c~d": NaN}}', "/a~1b/c~0d", "NaN"),
    ],
)
def test_parse_json__unacceptable_value_has_a_pointer(text: str, pointer: str, detail: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(text)
    (item,) = caught.value.errors
    assert item.pointer == pointer
    assert detail in item.detail


def test_parse_json__accepts_the_largest_64_bit_integers() -> None:
    assert parse_json("[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]


def test_parse_json__surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "😀"


def test_parse_json__escaped_backslash_before_u0000_is_not_nul() -> None:
    assert parse_json('"\\\\u0000"') == "\\u0000"


def test_parse_json__accepts_64_levels_but_not_65() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(Invalid, match="cannot be stored") as caught:
        parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert "deeper than 64" in caught.value.errors[0].detail


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_parse_json__no_depth_exhausts_the_stack(depth: int) -> None:
    with pytest.raises(Invalid):
        parse_json("[" * depth + "]" * depth)


def test_parse_json__syntax_error_has_line_and_column() -> None:
    with pytest.raises(MalformedJson, match="line 2, column 3"):
        parse_json('{"a": 1,\n  oops}')


def test_parse_json__invalid_utf8_has_a_byte_position() -> None:
    with pytest.raises(MalformedJson, match="byte 6"):
        parse_json(b'{"a":"\xff"}')


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [math.nan]}, 2**63, "\ud800", "\x00"])
def test_reject_unacceptable__checks_python_values_alike(value: Any) -> None:
    with pytest.raises(Invalid):
        reject_unacceptable(value)
