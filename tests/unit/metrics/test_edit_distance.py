"""The Levenshtein distance: by hand, as nltk has it, and the laws of a distance."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.metrics import edit_distance as module
from app.metrics.edit_distance import levenshtein
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
nltk_distance = Reference("nltk.metrics.distance")

few_letters = st.text("abc", max_size=24)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
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
def test_the_distance_is_that_found_by_hand(one: str, other: str, distance: int) -> None:
    assert levenshtein(one, other) == distance
    assert levenshtein(other, one) == distance


@given(few_letters, few_letters)
def test_the_distance_is_that_of_nltk(one: str, other: str) -> None:
    assert levenshtein(one, other) == nltk_distance.edit_distance(one, other)


@given(few_letters, few_letters, st.sampled_from([1, 2, 3, 7]))
def test_strips_of_any_width_give_the_same_distance(one: str, other: str, width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STRIP", width)
        assert levenshtein(one, other) == nltk_distance.edit_distance(one, other)


@given(few_letters, few_letters, few_letters)
def test_a_detour_is_never_shorter(one: str, other: str, third: str) -> None:
    assert levenshtein(one, third) <= levenshtein(one, other) + levenshtein(other, third)


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_distance_lies_between_the_difference_of_the_lengths_and_the_longer_one(
    one: str, other: str
) -> None:
    distance = levenshtein(one, other)
    assert abs(len(one) - len(other)) <= distance <= max(len(one), len(other))
    assert (distance == 0) == (one == other)


def test_texts_longer_than_a_strip_are_compared_across_its_edge() -> None:
    # Everything before the edge is replaced, and one letter just after it is left out.
    one = "a" * 4095 + "bc" + "d" * 100
    other = "x" * 4095 + "b" + "d" * 100
    assert levenshtein(one, other) == 4096


def test_long_texts_take_no_more_than_moments() -> None:
    begun = time.process_time()
    assert levenshtein("ab" * 5000, "ba" * 5000) == 2
    assert levenshtein("ab" * 5000, "cd" * 5000) == 10_000
    assert time.process_time() - begun < 20  # a table of 10⁸ cells in Python takes a minute
