import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Invalid
from app.core.strict_json import MAX_DEPTH, MalformedJson, parse_json, reject_unacceptable

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
def test_what_the_standard_parser_reads_without_doubt_is_read_the_same(document: Any) -> None:
    assert parse_json(json.dumps(document).encode()) == document


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0dNaI1e-. ', max_size=60))
def test_any_bytes_give_a_value_or_an_error_with_a_remedy(raw: bytes | str) -> None:
    told = "send"
    try:
        parse_json(raw)
    except Invalid as error:
        told = str(error)
    assert any(remedy in told for remedy in ("send", "encode", "remove"))


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
        ('{"a\\u0000": 1}', "/a?", "NUL"),
        ('{"\\ud800": 1}', "/?", "a lone surrogate"),
        ('[{"k": 1, "k": 2}]', "/0", "'k' twice"),
        ('{"a/b": {"c~d": NaN}}', "/a~1b/c~0d", "NaN"),
    ],
)
def test_an_unacceptable_value_is_named_by_a_pointer(text: str, pointer: str, detail: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(text)
    (item,) = caught.value.errors
    assert item.pointer == pointer
    assert detail in item.detail


def test_the_largest_integers_of_64_bits_are_read() -> None:
    assert parse_json("[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "😀"


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert parse_json('"\\\\u0000"') == "\\u0000"


def test_64_levels_are_read_and_65_are_not() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(Invalid, match="cannot be stored") as caught:
        parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert "deeper than 64" in caught.value.errors[0].detail


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_no_depth_exhausts_the_stack(depth: int) -> None:
    with pytest.raises(Invalid):
        parse_json("[" * depth + "]" * depth)


def test_a_syntax_error_is_told_with_line_and_column() -> None:
    with pytest.raises(MalformedJson, match="line 2, column 3"):
        parse_json('{"a": 1,\n  oops}')


def test_bytes_that_are_not_utf8_are_told_with_their_place() -> None:
    with pytest.raises(MalformedJson, match="byte 6"):
        parse_json(b'{"a":"\xff"}')


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [math.nan]}, 2**63, "\ud800", "\x00"])
def test_a_value_made_in_the_program_is_checked_the_same(value: Any) -> None:
    with pytest.raises(Invalid):
        reject_unacceptable(value)
