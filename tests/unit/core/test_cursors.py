"""Encoding and decoding of pagination cursors."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.keyset import BadCursor, CursorValue, decode_cursor, encode_cursor

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
values = st.lists(
    storable | st.integers(-(2**63), 2**63 - 1) | st.datetimes(timezones=st.just(UTC)), max_size=4
)


@given(values)
def test_decode_cursor__returns_the_encoded_values(row: list[CursorValue]) -> None:
    assert decode_cursor(encode_cursor(row)) == row


@given(st.text(max_size=100))
def test_decode_cursor__any_text_is_decoded_or_refused(text: str) -> None:
    blamed = "cursor"
    try:
        decode_cursor(text)
    except BadCursor as error:
        blamed = error.errors[0].pointer
    assert blamed == "cursor"


def test_decode_cursor__instant_keeps_microseconds_and_offset() -> None:
    instant = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))
    assert decode_cursor(encode_cursor([instant])) == [instant]


@pytest.mark.parametrize(
    "document",
    [
        '{"a": 1}',
        "3",
        "null",
        '[["i", true]]',
        '[["i", 9223372036854775808]]',
        '[["i", "1"]]',
        '[["s", 1]]',
        '[["s", "\\u0000"]]',
        '[["s", "\\ud800"]]',
        '[["t", "2026-11-21"]]',
        '[["t", "2026-11-21T08:00:00"]]',
        '[["t", 5]]',
        '[["x", 1]]',
        '[["s"]]',
        '[["s", "a", "b"]]',
        "[" * 5000,
    ],
)
def test_decode_cursor__forged_cursor_is_refused(document: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(base64.urlsafe_b64encode(document.encode()).decode())
