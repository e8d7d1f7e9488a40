"""Items that ask the same."""

import pytest

from mosaico.overview.dataset_health.same_questions import (
    AskedItem,
    find_same_questions,
    normalize,
)


@pytest.mark.parametrize(
    ("first", "second", "are_same"),
    [
        ("May I return it?", " may  I\nreturn it ", True),
        ("ＡＢＣ", "abc", True),
        ("Straße", "STRASSE", True),
        ("1+1?", "1-1?", False),
        ("", "?", True),
    ],
)
def test_normalize__ignores_case_spaces_forms_and_final_punctuation(
    first: str, second: str, are_same: bool
) -> None:
    assert (normalize(first) == normalize(second)) is are_same


def test_same_questions__contradict_each_other_by_expected_answers_that_exist() -> None:
    same = find_same_questions(
        [
            AskedItem("a", "Same?", ["yes", "sure"]),
            AskedItem("b", "same", ["Sure", "Yes."]),
            AskedItem("c", "same", []),
            AskedItem("d", "Other?", ["yes"]),
            AskedItem("e", "other", ["no"]),
            AskedItem("f", "alone", ["yes"]),
        ]
    )
    assert same.items == 6
    assert [question.item_ids for question in same.duplicates] == [["a", "b", "c"]]
    assert [question.item_ids for question in same.contradictions] == [["d", "e"]]
    assert find_same_questions([]) == (0, [], [])
