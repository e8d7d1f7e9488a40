"""How texts are cut, compared and remembered."""

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.metrics import text
from app.metrics.text import Alignment, Reference, ReferenceStore, WordTable, squad_words

words = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=30)


def common_subsequence_by_table(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    row = [0] * (len(second) + 1)
    for mine in first:
        before = row
        row = [0]
        for place, theirs in enumerate(second):
            best = before[place] + 1 if mine == theirs else max(before[place + 1], row[place])
            row.append(best)
    return row[-1]


def test_the_common_subsequence_keeps_the_order_of_both_texts() -> None:
    # a b c d a b   beside   b d c a b a: b c a b (or b d a b) is longest, 4 words.
    aligned = Alignment(Reference.of(b"a b c d a b".split()), b"b d c a b a".split())
    assert aligned.common_subsequence() == 4


def test_an_n_gram_counts_at_most_as_often_as_the_reference_holds_it() -> None:
    # the ×2 and cat ×1 in the reference; the output has the ×3, cat ×1: 2 + 1 words.
    # Of its pairs (the the, the the, the cat) only "the cat" is in the reference.
    aligned = Alignment(Reference.of(b"the cat saw the dog".split()), b"the the the cat".split())
    assert aligned.common_grams(3) == [3, 1, 0]


@given(words, words)
def test_the_common_subsequence_is_that_of_the_textbook_table(
    first: list[bytes], second: list[bytes]
) -> None:
    expected = common_subsequence_by_table(first, second)
    assert Alignment(Reference.of(first), second).common_subsequence() == expected


@given(words, words)
def test_texts_of_many_words_are_compared_strip_by_strip_with_the_same_result(
    first: list[bytes], second: list[bytes]
) -> None:
    whole = Alignment(Reference.of(first), second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_STRIP", 3)
        in_strips = Alignment(Reference.of(first), second)
        assert in_strips.common_subsequence() == whole.common_subsequence()
        assert list(in_strips.common_grams(4)) == list(whole.common_grams(4))


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
def test_squad_words_have_neither_case_nor_punctuation_nor_articles(
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
def test_accuracy_looks_past_case_blanks_and_encoding_only(
    expected: str, output: str, *, same: bool
) -> None:
    assert text.same_after_folding(expected, output) is same


def test_a_word_is_made_once_while_the_table_has_room() -> None:
    made: list[bytes] = []

    def rule(word: bytes) -> bytes:
        made.append(word)
        return word

    table = WordTable(rule, chars=30)
    assert table[b"one"] == table[b"one"] == b"one"
    assert made == [b"one"]
    assert table[b"x" * 65] == table[b"x" * 65]  # too long to be kept
    assert len(made) == 3
    for number in range(50):
        assert table[b"%d" % number] == b"%d" % number
    assert len(table) <= 3  # 30 characters at 9 or 10 a word


def test_references_are_kept_within_their_room() -> None:
    store = ReferenceStore(lambda given_text: given_text.encode().split(), chars=100)
    assert store("one two") is store("one two")
    for number in range(50):
        store(f"text {number}")
    assert len(store) < 10
    assert store("x " * 20_000) is not store("x " * 20_000)


def test_many_long_texts_do_not_pile_up() -> None:
    chance = random.Random(7)

    def long_text() -> str:
        return " ".join(f"w{chance.randrange(10**6)}x" for _ in range(2000))

    tracemalloc.start()
    for _ in range(60):
        expected, output = long_text(), long_text()
        text.rouge_alignment(expected, output).common_subsequence()
        text.rouge_alignment(expected, output).common_grams(2)
        text.bleu_alignment(expected, output).common_grams(4)
        text.squad_overlap(expected, output)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100 * 2**20
