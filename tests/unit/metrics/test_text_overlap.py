"""Tokenizing, comparing and caching of texts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics import text_overlap
from mosaico.metrics.tokenizers import squad_words


@given(st.lists(st.sampled_from(["a", "an", "the", "b", "c", "The,"]), max_size=20).map(" ".join))
def test_squad_overlap__equals_direct_counting(output: str) -> None:
    expected = "the b b c"
    # Without articles the expected text has b ×2 and c ×1.
    output_counts = Counter(word for word in output.split() if word in "bc")
    common = min(output_counts["b"], 2) + min(output_counts["c"], 1)
    assert text_overlap.squad_overlap(expected, output) == (common, 3, output_counts.total())


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("The answer is: a dog!", ["answer", "is", "dog"]),
        ("well-known e.g. -5", ["wellknown", "eg", "5"]),
        ("", []),
        ("A the, an.", []),
        ("Ünïcode “the” end", ["ünïcode", "“", "”", "end"]),
        ("theory\tanthem\u3000a1", ["theory", "anthem", "a1"]),
        ("\x00the\x00", ["\x00", "\x00"]),
        ("東京 is", ["東京", "is"]),
    ],
)
def test_squad_words__case_punctuation_and_articles_are_removed(
    given_text: str, expected: list[str]
) -> None:
    assert [word.decode() for word in squad_words(given_text)] == expected


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        ("Paris", " paris\n", True),
        ("New   York", "new york", True),
        ("caf\u00e9", "CAFE\u0301", True),
        ("Straße", "STRASSE", True),
        ("", " ", True),
        ("-5", "5", False),
        ("3.5", "35", False),
        ("Paris", "Paris.", False),
        ("New York", "New", False),
    ],
)
def test_equal_ignoring_case__ignores_case_white_space_and_encoding_only(
    expected: str, output: str, *, same: bool
) -> None:
    assert text_overlap.equal_ignoring_case(expected, output) is same
