"""Texts that Postgres, HTML and XML can hold."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.reports import markdown_text
from mosaico.core.text import (
    describe_duration,
    format_decimal,
    format_number,
    format_utc,
    html_text,
    join_words,
    replace_unstorable,
    replace_unstorable_in_json,
    unstorable_reason,
    xml_text,
)
from mosaico.core.web.page_text import sentence_element

# With surrogates, which `st.text()` leaves out.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_replace_unstorable__result_is_storable_and_stable(text: str) -> None:
    storable = replace_unstorable(text)
    assert unstorable_reason(storable) is None
    assert replace_unstorable(storable) is storable
    if unstorable_reason(text) is None:
        assert storable is text


@pytest.mark.parametrize(
    ("text", "storable"),
    [
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("é\0", "é\N{REPLACEMENT CHARACTER}"),
        ("a\ud800", "a\N{REPLACEMENT CHARACTER}"),
        ("\ud83d\ude00", "\N{GRINNING FACE}"),  # two surrogates of one pair
    ],
)
def test_replace_unstorable__marks_each_replaced_character(text: str, storable: str) -> None:
    assert replace_unstorable(text) == storable


def test_replace_unstorable_in_json__cleans_keys_texts_and_numbers() -> None:
    value = {"a\0": ["\ud800", float("nan"), float("inf"), 1.5, True, None], 3: ("x",)}
    assert replace_unstorable_in_json(value) == {
        "a\N{REPLACEMENT CHARACTER}": ["\N{REPLACEMENT CHARACTER}", None, None, 1.5, True, None],
        "3": ["x"],
    }


def test_html_text__escapes_markup_and_replaces_nul() -> None:
    assert html_text("<a href='x'>\0") == "&lt;a href=&#x27;x&#x27;&gt;\N{REPLACEMENT CHARACTER}"


def test_xml_text__replaces_characters_that_xml_forbids() -> None:
    assert xml_text("a\x08\ufffe\n") == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n"


@pytest.mark.parametrize("render", [html_text, xml_text, markdown_text])
def test_reports__direction_controls_are_shown(render: Callable[[str], str]) -> None:
    rendered = render("invoice\u202egnp.exe \u2066שלום\u2069 é")
    assert "U+202E" in rendered
    assert not {"\u202e", "\u2066", "\u2069"} & set(rendered)
    assert "שלום" in rendered
    assert render("plain é") == "plain é"


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_join_words__is_a_list_in_a_sentence(words: list[str], text: str) -> None:
    assert join_words(words, "or") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "less than a minute"),
        (60, "1 minute"),
        (90, "1 minute"),
        (3600, "1 hour"),
        (7199, "119 minutes"),
        (47 * 3600 + 59, "47 hours"),
        (86_400, "1 day"),
        (172_809, "2 days"),
        (250_000, "69 hours"),
        (4 * 86_400 - 1, "3 days"),
    ],
)
def test_describe_duration__counts_a_smaller_unit_where_there_are_few(
    seconds: float, text: str
) -> None:
    assert describe_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.000027027027, "−0.00002703"),
        (0.0000123, "0.0000123"),
        (9.99996e-6, "0.00001"),
        (1e-9, "0.000000001"),
        (0.1234567, "0.1235"),
    ],
)
def test_format_number__four_significant_digits(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(("spec", "text"), [(".3f", "0.000"), ("+.2f", "+0.00"), (",.0f", "0")])
def test_format_decimal__what_is_rounded_to_zero_has_no_minus(spec: str, text: str) -> None:
    assert format_decimal(-0.0001, spec) == text


def test_sentence__times_of_messages_are_in_the_zone_of_the_page() -> None:
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    stored = f"No new data since {format_utc(datetime(2026, 11, 27, 5, 12, tzinfo=UTC))}; 3 % <b>."
    shown = sentence_element(stored, ZoneInfo("Europe/Rome"), now)
    assert "UTC" not in shown
    assert ">27 Nov 06:12</time>; 3\N{NO-BREAK SPACE}% &lt;b&gt;." in shown
    assert sentence_element("at 2026-13-45 05:12 UTC", ZoneInfo("UTC"), now).endswith("05:12 UTC")
