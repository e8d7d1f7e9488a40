"""The Levenshtein distance: known values, a comparison with nltk, and the laws of a metric."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.edit_distance import levenshtein
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
nltk_distance = Reference("nltk.metrics.distance")

# Texts of three letters have much in common: every way through the table occurs.
few_letters = st.text("abc", max_size=24)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("", "", 0),
        ("same", "same", 0),
        ("", "four", 4),
        ("kitten", "sitting", 3),  # k→s, e→i, +g
        ("flaw", "lawn", 2),  # −f, +n
        ("abc", "cba", 2),
        ("xabcx", "xbx", 2),  # −a, −c between what both have at the ends
        ("aaa", "aa", 1),
        ("é", "e", 1),
        ("漢字", "漢和字", 1),
        ("😀😀", "😀", 1),
        ("\ud800a", "a", 1),
    ],
)
def test_levenshtein__equals_distances_by_hand(first: str, second: str, distance: int) -> None:
    assert levenshtein(first, second) == distance
    assert levenshtein(second, first) == distance


@given(few_letters, few_letters)
def test_levenshtein__equals_nltk(first: str, second: str) -> None:
    assert levenshtein(first, second) == nltk_distance.edit_distance(first, second)


def test_levenshtein__texts_of_ten_thousand_characters() -> None:
    assert levenshtein("ab" * 5000, "ba" * 5000) == 2
    assert levenshtein("ab" * 5000, "cd" * 5000) == 10_000
