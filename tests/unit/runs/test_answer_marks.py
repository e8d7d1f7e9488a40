"""Marks of the words of an answer; the expected parts are by hand."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mosaico.runs.pages.answer_marks import MAX_WORDS, AnswerPart, mark_answer


def parts(answer: str, *expected: str, is_right: bool | None) -> list[tuple[str, str]]:
    marked = mark_answer(answer, expected, is_right=is_right)
    return [(part.kind, part.text) for part in marked.parts]


def test_mark_answer__wrong_answer_matches_and_contradicts() -> None:
    """P agrees; in place of "224" and "61.50" there is something else."""
    marked = parts("The P-220 has no price.", "P-224, 61.50", is_right=False)
    assert marked == [
        ("plain", "The "),
        ("match", "P"),
        ("plain", "-"),
        ("contradiction", "220 has no price"),
        ("plain", "."),
    ]


def test_mark_answer__right_answer_in_other_words_contradicts_nothing() -> None:
    marked = parts("Delivery: about four days", "4 days", is_right=True)
    assert marked == [("plain", "Delivery: about four "), ("match", "days")]


def test_mark_answer__a_number_agrees_as_a_whole() -> None:
    assert parts("34.09", "34.90", is_right=False) == [("contradiction", "34.09")]


def test_mark_answer__case_does_not_count_and_of_several_the_nearest_counts() -> None:
    assert parts("ROME it is", "Milan", "Rome", is_right=True) == [
        ("match", "ROME"),
        ("plain", " it is"),
    ]


def test_mark_answer__without_an_expected_answer_nothing_is_marked() -> None:
    assert parts("Rome", is_right=False) == [("plain", "Rome")]
    assert parts("", "Rome", is_right=False) == []


def test_mark_answer__a_long_text_is_not_marked() -> None:
    answer = "word " * (MAX_WORDS + 1)
    marked = mark_answer(answer, ["word"], is_right=False)
    assert (marked.parts, marked.is_complete) == ([AnswerPart("plain", answer)], False)


@given(
    st.text("ab1. ,-\n", max_size=40), st.text("ab1. ,-\n", max_size=40), st.sampled_from([True, False, None])
)  # fmt: skip
def test_mark_answer__parts_are_the_whole_answer(
    answer: str, expected: str, is_right: bool | None
) -> None:
    marked = mark_answer(answer, [expected], is_right=is_right)
    assert "".join(part.text for part in marked.parts) == answer
    kinds = [part.kind for part in marked.parts]
    assert all(kind != after for kind, after in pairwise(kinds))
    assert is_right is False or "contradiction" not in kinds
