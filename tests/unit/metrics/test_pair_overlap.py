"""Counts of many pairs at once equal those of one pair after the other."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics import pair_counts, pair_overlap
from mosaico.metrics.engine import measure, measure_chunk, score_chunk, score_within_limits
from mosaico.metrics.pair_counts import PairCounts, ProcessWords
from mosaico.metrics.pair_overlap import PairOverlap, TextPair
from mosaico.metrics.registry import default_refs, load_metrics, providers_for
from mosaico.metrics.text_overlap import (
    GramCounts,
    RougeCounts,
    WordOverlap,
    bleu_counts,
    rouge_counts,
    squad_overlap,
)
from mosaico.metrics.tokenizers import bleu_words, rouge_words, squad_words
from mosaico.metrics.types import MetricProvider
from mosaico.metrics.word_ids import TokenRule, Vocabulary, tokens_of_word
from mosaico.traces.types import Trace, TraceOutcome
from tests.unit.metrics.test_text_parity import ADVERSARIAL, texts

KEYS = ("ROUGE", "ROUGE_1", "ROUGE_2", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")


@pytest.fixture
def providers() -> Sequence[MetricProvider]:
    load_metrics()
    return providers_for(default_refs(KEYS))


@given(st.text(alphabet="0123456789.,:/-+$%'a&\u0663", min_size=1, max_size=12))
def test_tokens_of_word__numbers_have_those_of_the_tokenizers(word: str) -> None:
    rouge, bleu, squad = tokens_of_word(word)
    assert list(rouge) == rouge_words(word)
    assert list(bleu) == bleu_words(word)
    assert list(squad) == squad_words(word)


def test_tokens_of_word__number_with_sign_separators_and_stop() -> None:
    rouge, bleu, squad = tokens_of_word("$1,234.50.")
    assert list(rouge) == [b"1", b"234", b"50"]
    assert list(bleu) == [b"$", b"1,234.50", b"."]
    assert list(squad) == [b"123450"]


@pytest.fixture
def always_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_overlap, "_FEWEST_CHARS", 0)


@pytest.fixture
def words_of_process(monkeypatch: pytest.MonkeyPatch) -> ProcessWords:
    """Words that no other test has met."""
    words = ProcessWords()
    monkeypatch.setattr(pair_counts, "process_words", words)
    return words


def trace(number: int, expected: str | None, output: str | None) -> Trace:
    return Trace(
        trace_id=f"t-{number}", item_id=f"i-{number}", expected_output=expected, output=output
    )


def prose(words: int, *, vocabulary: int, seed: int) -> str:
    chance = random.Random(seed)
    return " ".join(
        f"w{chance.randrange(vocabulary)}{chance.choice(['', '', ',', '.'])}" for _ in range(words)
    )


def many_pairs(*, seed: int) -> list[TextPair]:
    return [
        TextPair(
            prose(30, vocabulary=90, seed=seed + number), prose(90, vocabulary=90, seed=-number)
        )
        for number in range(100)
    ]


def assert_counts_are_equal(pairs: Sequence[TextPair]) -> None:
    overlap = PairOverlap(pairs)
    assert overlap.rouge == [rouge_counts(*pair) for pair in pairs]
    assert overlap.squad == [squad_overlap(*pair) for pair in pairs]
    for together, alone in zip(overlap.bleu, (bleu_counts(*pair) for pair in pairs), strict=True):
        assert tuple(together.common) == tuple(alone.common)
        assert together[:2] == alone[:2]


def test_pair_counts__examples() -> None:
    counts = PairCounts(
        Vocabulary(),
        ["the cat sat on the mat", "Yes.", "a b"],
        ["the cat the cat on a mat", "yes", ""],
    )
    assert counts.rouge() == [
        # the, cat, on, mat and one more "the"; "the cat" once; the longest subsequence: the cat on mat.
        RougeCounts(expected_length=6, output_length=7, words=5, pairs=1, subsequence=4),
        RougeCounts(expected_length=1, output_length=1, words=1, pairs=0, subsequence=1),
        RougeCounts(expected_length=2, output_length=0, words=0, pairs=0, subsequence=0),
    ]
    assert counts.squad() == [
        WordOverlap(common=3, expected=4, output=4),
        WordOverlap(common=1, expected=1, output=1),
        WordOverlap(common=0, expected=1, output=0),
    ]
    assert counts.bleu() == [
        GramCounts(expected_length=6, output_length=7, common=(5, 1, 0, 0)),
        GramCounts(expected_length=2, output_length=1, common=(0, 0, 0, 0)),
        GramCounts(expected_length=2, output_length=0, common=(0, 0, 0, 0)),
    ]


@pytest.mark.usefixtures("always_together")
def test_pair_overlap__adversarial_texts_have_equal_counts() -> None:
    assert_counts_are_equal([TextPair(a, b) for a in ADVERSARIAL for b in ADVERSARIAL])


@pytest.mark.usefixtures("always_together")
@given(st.lists(st.builds(TextPair, texts, texts), min_size=1, max_size=12))
def test_pair_overlap__random_texts_have_equal_counts(pairs: list[TextPair]) -> None:
    assert_counts_are_equal(pairs)


@pytest.mark.parametrize("words", [1, 62, 63, 64, 65, 400])
def test_pair_overlap__references_of_any_length_have_equal_counts(words: int) -> None:
    assert_counts_are_equal(
        [
            TextPair(
                prose(words, vocabulary=20, seed=number), prose(150, vocabulary=20, seed=-number)
            )
            for number in range(40)
        ]
    )


def test_pair_overlap__long_texts_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    long = prose(9000, vocabulary=2000, seed=1)
    pairs = [TextPair(long, long)] + [TextPair("a b", prose(50, vocabulary=9, seed=2))] * 200
    sizes = []

    class Recorded(PairCounts):
        def __init__(self, words: Vocabulary, expected: Sequence[str], out: Sequence[str]) -> None:
            sizes.append(sum(map(len, (*expected, *out))))
            super().__init__(words, expected, out)

    monkeypatch.setattr(pair_counts, "PairCounts", Recorded)
    assert_counts_are_equal(pairs)
    assert sizes
    assert max(sizes) <= 128_000


@pytest.mark.parametrize("error", [MemoryError, ValueError])
@pytest.mark.usefixtures("words_of_process")
def test_pair_overlap__failure_while_a_word_is_added_changes_no_later_count(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    calls = itertools.count(1)
    add = TokenRule.add

    def failing(rule: TokenRule, tokens: Sequence[bytes]) -> None:
        if next(calls) == 20:  # the second rule of the seventh word
            raise error("no more tokens")
        add(rule, tokens)

    with monkeypatch.context() as patch:
        patch.setattr(TokenRule, "add", failing)
        with pytest.raises(error):
            _ = PairOverlap(many_pairs(seed=1)).rouge
    assert_counts_are_equal(many_pairs(seed=2))


def test_score_within_limits__memory_error_of_the_words_is_raised(
    providers: Sequence[MetricProvider],
    monkeypatch: pytest.MonkeyPatch,
    words_of_process: ProcessWords,
) -> None:
    def failing(_rule: TokenRule, _tokens: Sequence[bytes]) -> None:
        raise MemoryError("no more tokens")

    traces = [trace(number, *pair) for number, pair in enumerate(many_pairs(seed=1))]
    alone = [measure(measured_trace, providers) for measured_trace in traces]
    refs = tuple(default_refs(KEYS))
    vocabulary = Vocabulary()
    words_of_process.give_back(vocabulary)
    with monkeypatch.context() as patch:
        patch.setattr(TokenRule, "add", failing)
        with pytest.raises(MemoryError, match="no more tokens"):
            score_within_limits(traces, refs)
        # Without a limit the values are found one by one.
        assert score_chunk(traces, refs) == alone
    assert words_of_process.take() is not vocabulary
    assert score_within_limits(traces, refs) == alone


def test_pair_overlap__words_of_a_chunk_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocabularies = []

    class Recorded(Vocabulary):
        def __init__(self) -> None:
            super().__init__()
            vocabularies.append(self)

    monkeypatch.setattr(pair_counts, "Vocabulary", Recorded)
    monkeypatch.setattr(pair_counts, "process_words", ProcessWords())
    # 8 MB of different words.
    number_of = itertools.count()

    def new_words(count: int) -> str:
        return " ".join(f"w{next(number_of):06d}" for _ in range(count))

    pairs = [TextPair(new_words(600), new_words(1400)) for _ in range(500)]
    assert sum(len(a) + len(b) for a, b in pairs) > 7_900_000
    overlap = PairOverlap(pairs)
    assert overlap.rouge == [rouge_counts(*pair) for pair in pairs]
    assert overlap.squad == [squad_overlap(*pair) for pair in pairs]
    [words] = filter(None, vocabularies)
    # The characters of a vocabulary, and of the one batch that filled it up.
    assert 200_000 < sum(map(len, words)) < 300_000 + 128_000


def test_pair_overlap__table_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = []

    class Recorded(PairCounts):
        def __init__(self, words: Vocabulary, expected: Sequence[str], out: Sequence[str]) -> None:
            cells.append(len(expected) * len({word for text in expected for word in text.split()}))
            super().__init__(words, expected, out)

    monkeypatch.setattr(pair_counts, "PairCounts", Recorded)
    # 256 references of 170 different words of one character each.
    pairs = [
        TextPair(" ".join(chr(0x4E00 + 170 * number + word) for word in range(170)), "a b")
        for number in range(256)
    ]
    assert_counts_are_equal(pairs)
    assert len(cells) > 1
    assert max(cells) <= 2_000_000


def test_process_words__vocabulary_is_kept_until_it_is_full() -> None:
    words = ProcessWords()
    vocabulary = Vocabulary()
    vocabulary.words_of(["again " * 49], are_references=False)
    words.give_back(vocabulary)
    assert words.take() is vocabulary
    vocabulary.words_of(["again " * 99 + "w" * 300_000], are_references=False)
    words.give_back(vocabulary)
    assert words.take() == {}


def test_process_words__new_words_are_counted_one_by_one_for_some_chunks() -> None:
    words = ProcessWords()
    vocabulary = Vocabulary()
    # 2 new words of 98, which is more than 2 %.
    vocabulary.words_of(["again " * 97 + "w" * 300_000], are_references=False)
    words.give_back(vocabulary)
    assert [words.take() for _ in range(100)] == [None] * 100
    assert words.take() == {}


@given(st.lists(st.integers(0, 2**31 - 1), max_size=300), st.lists(st.integers(0, 9), max_size=300))
def test_number_grams__equal_numbers_have_one_index(
    grams: list[int], other_grams: list[int]
) -> None:
    outputs = [*grams[::2], *other_grams]
    numbers, output_numbers = pair_counts.number_grams(
        np.array(grams, dtype=np.int32), np.array(outputs, dtype=np.int32)
    )
    last = {gram: index for index, gram in enumerate(grams)}
    index_of = dict(zip(grams, numbers.tolist(), strict=True))
    assert set(index_of) == set(last)
    assert all(grams[index] == gram for gram, index in index_of.items())
    assert numbers.tolist() == [index_of[gram] for gram in grams]
    assert output_numbers.tolist() == [index_of.get(gram, -1) for gram in outputs]


def test_number_grams__equal_hashes_are_told_apart() -> None:
    # 60,000 numbers: thousands of them share a place of the table with another one.
    grams = np.random.default_rng(1).permutation(60_000).astype(np.int32)
    numbers, output_numbers = pair_counts.number_grams(grams, np.arange(70_000, dtype=np.int32))
    assert (numbers == np.arange(60_000)).all()
    assert (grams[output_numbers[:60_000]] == np.arange(60_000)).all()
    assert (output_numbers[60_000:] == -1).all()


def test_chunk__equals_trace_by_trace(providers: Sequence[MetricProvider]) -> None:
    traces = [
        trace(number, prose(20, vocabulary=30, seed=number), prose(90, vocabulary=30, seed=-number))
        for number in range(100)
    ]
    traces[7] = trace(7, None, "no expected text")
    traces[8] = trace(8, "", " ")
    traces[9] = Trace(trace_id="t-9", item_id="i-9", outcome=TraceOutcome.AGENT_ERROR)
    assert measure_chunk(traces, providers) == [
        measure(measured_trace, providers) for measured_trace in traces
    ]
    complete = traces[10:]
    assert measure_chunk(complete, providers) == [
        measure(measured_trace, providers) for measured_trace in complete
    ]


def test_chunk__counts_shared_texts_once(
    providers: Sequence[MetricProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair_counts_of_calls = []

    class Recorded(PairOverlap):
        def __init__(self, pairs: Sequence[TextPair]) -> None:
            pair_counts_of_calls.append(len(pairs))
            super().__init__(pairs)

    monkeypatch.setattr(pair_overlap, "PairOverlap", Recorded)
    traces = [trace(number, "a b", f"a c {number}") for number in range(10)]
    measure_chunk(traces, providers)
    measure_chunk([*traces, trace(10, None, "x")], providers)
    assert pair_counts_of_calls == [10, 10]
