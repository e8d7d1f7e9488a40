"""Tokenizing, comparing and caching of texts."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics import text_overlap
from mosaico.metrics.text_overlap import ReferenceMasks, count_for_rouge, count_grams
from mosaico.metrics.tokenizers import BoundedCache, squad_words

# Few words, so that n-grams repeat and subsequences have ties.
words = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=30)


def common_subsequence_by_table(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    row = [0] * (len(second) + 1)
    for mine in first:
        before = row
        row = [0]
        for index, theirs in enumerate(second):
            best = before[index] + 1 if mine == theirs else max(before[index + 1], row[index])
            row.append(best)
    return row[-1]


def common_grams_by_counting(first: Sequence[bytes], second: Sequence[bytes], n: int) -> int:
    grams = (
        Counter(tuple(side[start : start + n]) for start in range(len(side) - n + 1))
        for side in (first, second)
    )
    return (next(grams) & next(grams)).total()


def test_common_subsequence__keeps_the_order_of_both_texts() -> None:
    # a b c d a b   beside   b d c a b a: b c a b (or b d a b) is longest, 4 words.
    counts = count_for_rouge(ReferenceMasks.of(b"a b c d a b".split()), b"b d c a b a".split())
    assert counts.subsequence == 4


def test_n_grams__count_is_clipped_to_the_reference() -> None:
    # the ×2 and cat ×1 in the reference; the output has the ×3, cat ×1: 2 + 1 words.
    # Of its pairs (the the, the the, the cat) only "the cat" is in the reference.
    reference, output = (
        ReferenceMasks.of(b"the cat saw the dog".split()),
        b"the the the cat".split(),
    )
    counts = count_for_rouge(reference, output)
    assert (counts.words, counts.pairs) == (3, 1)
    assert count_grams(reference, output, 3) == (5, 4, [3, 1, 0])


def test_bigrams__separated_words_do_not_match() -> None:
    # "a b" is in the reference; in the output x stands between a and b.
    counts = count_for_rouge(ReferenceMasks.of([b"a", b"b"]), [b"a", b"x", b"b"])
    assert counts == (2, 3, 2, 0, 2)


@given(words, words)
def test_common_subsequence__equals_the_textbook_table(
    first: list[bytes], second: list[bytes]
) -> None:
    expected = common_subsequence_by_table(first, second)
    assert count_for_rouge(ReferenceMasks.of(first), second).subsequence == expected


@given(words, words)
def test_n_grams__equal_direct_counting(first: list[bytes], second: list[bytes]) -> None:
    expected = [common_grams_by_counting(first, second, n) for n in range(1, 5)]
    reference = ReferenceMasks.of(first)
    assert list(count_grams(reference, second, 4).common) == expected
    counts = count_for_rouge(reference, second)
    assert [counts.words, counts.pairs] == expected[:2]


@given(words, words)
def test_long_texts__strips_give_the_same_counts(first: list[bytes], second: list[bytes]) -> None:
    in_one_piece = ReferenceMasks.of(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_overlap, "_STRIP", 3)
        in_strips = ReferenceMasks.of(first)
        assert count_for_rouge(in_strips, second) == count_for_rouge(in_one_piece, second)
        assert count_grams(in_strips, second, 4) == count_grams(in_one_piece, second, 4)


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


def test_cache__computes_each_text_once_while_it_has_room() -> None:
    tokenized: list[bytes] = []

    def rule(word: bytes) -> bytes:
        tokenized.append(word)
        return word

    table = BoundedCache(rule, chars=30, longest=64)
    assert table[b"one"] == table[b"one"] == b"one"
    assert tokenized == [b"one"]
    assert table[b"x" * 65] == table[b"x" * 65]  # too long to be kept
    assert len(tokenized) == 3
    for number in range(50):
        assert table[b"%d" % number] == b"%d" % number
    assert len(table) <= 3  # 30 characters at 9 or 10 a word
