"""Overlap of two texts: words, n-grams and common subsequences, counted once for all metrics.

Each output is tokenized once per tokenizer and trace; references are cached for later traces of
their item. Each cache is bounded in characters, and long texts are not cached.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

from mosaico.metrics.tokenizers import (
    ARTICLES,
    BoundedCache,
    squad_words,
    squad_words_and_articles,
)

V = TypeVar("V")
Tokenizer: TypeAlias = Callable[[str], list[bytes]]

_REFERENCE_CHARS: Final = 150_000  # a cached character takes up to 130 bytes
_LONGEST_KEPT_REFERENCE: Final = 20_000

_STRIP: Final = 4096  # reference words per round of the subsequence search: bounds its memory


class ReferenceMasks(NamedTuple):
    """Positions of each word of an expected text as a bit mask; bit 0 is the first word.

    A text with too many words is kept in `words` instead.
    """

    length: int
    masks: dict[bytes, int]
    words: Sequence[bytes] = ()

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "ReferenceMasks":
        if len(words) > _STRIP:
            return cls(len(words), {}, words)
        return cls(len(words), _positions(words))


class RougeCounts(NamedTuple):
    """The number of words of two texts, and of the words and bigrams that they share.

    A shared word counts at most as often as it occurs in the reference. `subsequence` is the
    length of the longest common subsequence of words.
    """

    expected_length: int
    output_length: int
    words: int
    pairs: int
    subsequence: int


class GramCounts(NamedTuple):
    """The number of words of two texts, and of the n-grams that they share for n = 1, 2, ..."""

    expected_length: int
    output_length: int
    common: Sequence[int]


def count_for_rouge(reference: ReferenceMasks, words: Sequence[bytes]) -> RougeCounts:
    """The counts for all three ROUGE metrics in one pass over an output.

    Cost: n·m/64 steps for n and m words. Source: Hyyrö 2004, one bit per reference word.
    """
    length, masks, many = reference
    if many:
        singles, pairs = _common_grams_of_many(many, words, 2)
        in_order = _common_subsequence_of_many(many, words)
        return RougeCounts(length, len(words), singles, pairs, in_order)
    common = before = 0
    room: dict[int, int] = {}  # by position mask of a word: how often it may still count
    pair_ends: list[int] = []
    unmatched = full = (1 << length) - 1
    # One lookup in C for each word; no mask is 0.
    for mask in map(masks.get, words):
        if mask is None:
            before = 0
            continue
        # One step of the subsequence for all positions of the reference at once: the addition
        # carries through a block of ones and so moves its lowest match (Hyyrö 2004). Without a
        # match it changes nothing.
        if met := unmatched & mask:
            unmatched = (unmatched + met) | (unmatched - met)
        if mask not in room:
            # A mask has one bit per occurrence in the reference, and different words have
            # different masks: the mask itself can be the key.
            room[mask] = mask.bit_count() - 1
            common += 1
        elif room[mask]:
            room[mask] -= 1
            common += 1
        # A bigram ends in the reference where its first word directly precedes the second.
        if before and (end := (before << 1) & mask):
            pair_ends.append(end)
        before = mask
    in_order = length - (unmatched & full).bit_count()
    return RougeCounts(length, len(words), common, _clipped(pair_ends), in_order)


def count_grams(reference: ReferenceMasks, words: Sequence[bytes], longest: int) -> GramCounts:
    """The number of n-grams that an output shares with a reference, for n = 1 to `longest`.

    Each counts at most as often as it occurs in the reference. Longer n-grams are extended from
    the shared bigrams, which are few.
    """
    length, masks, many = reference
    if many:
        return GramCounts(length, len(words), _common_grams_of_many(many, words, longest))
    common = before = 0
    room: dict[int, int] = {}
    pairs: dict[int, int] = {}  # by position in the output: where the bigram ends in the reference
    for position, mask in enumerate(map(masks.get, words)):
        if mask is None:
            before = 0
            continue
        if mask not in room:
            room[mask] = mask.bit_count() - 1
            common += 1
        elif room[mask]:
            room[mask] -= 1
            common += 1
        if before and (end := (before << 1) & mask):
            pairs[position] = end
        before = mask
    common_counts = [common]
    ends = pairs
    while ends and len(common_counts) < longest:
        # A longer n-gram ends in the reference one word after a shorter one, where a bigram ends.
        common_counts.append(_clipped(ends.values()))
        ends = {
            position + 1: end
            for position, mask in ends.items()
            if (end := (mask << 1) & pairs.get(position + 1, 0))
        }
    return GramCounts(length, len(words), common_counts + [0] * (longest - len(common_counts)))


def _clipped(ends: Iterable[int]) -> int:
    """The number of n-grams, each given by its positions and limited by their number."""
    common = 0
    room: dict[int, int] = {}
    for end in ends:
        if end not in room:
            room[end] = end.bit_count() - 1
            common += 1
        elif room[end]:
            room[end] -= 1
            common += 1
    return common


def _positions(words: Sequence[bytes]) -> dict[bytes, int]:
    masks: dict[bytes, int] = {}
    bit = 1
    for word in words:
        masks[word] = masks.get(word, 0) | bit
        bit <<= 1
    return masks


def _common_grams_of_many(
    expected: Sequence[bytes], words: Sequence[bytes], longest: int
) -> list[int]:
    common_counts = []
    for order in range(1, longest + 1):
        # `strict=False`: the shifted lists have different lengths, and the shortest ends the
        # n-grams.
        expected_grams = Counter(zip(*(expected[start:] for start in range(order)), strict=False))
        output_grams = Counter(zip(*(words[start:] for start in range(order)), strict=False))
        common_counts.append((expected_grams & output_grams).total())
    return common_counts


def _common_subsequence_of_many(expected: Sequence[bytes], words: Sequence[bytes]) -> int:
    """The longest common subsequence in strips of the reference, which bounds the masks.

    The carry bit of each output word goes from one strip to the next.
    """
    carries = bytearray(len(words))
    common = 0
    for start in range(0, len(expected), _STRIP):
        strip = expected[start : start + _STRIP]
        masks, width = _positions(strip), len(strip)
        unmatched = full = (1 << width) - 1
        for position, word in enumerate(words):
            mask = masks.get(word, 0)
            # Without a match and without a carry nothing changes; most words of a long text are of
            # this kind.
            if mask or carries[position]:
                met = unmatched & mask
                total = unmatched + met + carries[position]
                carries[position] = total >> width
                unmatched = (total & full) | (unmatched - met)
        common += width - unmatched.bit_count()
    return common


# --- counts of two texts, cached for the other metrics of the same trace -----------------------

_LONGEST_BLEU_GRAM: Final = 4


class WordOverlap(NamedTuple):
    """The number of words of two texts, and of their common words, counted as multisets."""

    common: int
    expected: int
    output: int


class WordCounts(NamedTuple):
    """The distinct words of an expected text by number, and the count of each.

    Number 0 stands for the articles, which are not counted.
    """

    numbers: dict[bytes, int]
    counts: list[int]
    length: int

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "WordCounts":
        # Articles share number 0 with a count of 0, so the loop over an output needs no test for
        # them.
        numbers = dict.fromkeys(ARTICLES, 0)
        counts = [0]
        for word in words:
            if word in numbers:
                counts[numbers[word]] += 1
            else:
                numbers[word] = len(counts)
                counts.append(1)
        return cls(numbers, counts, len(words))


def _references(make: Callable[[str], V]) -> BoundedCache[str, V]:
    return BoundedCache(make, chars=_REFERENCE_CHARS, longest=_LONGEST_KEPT_REFERENCE)


@cache
def rouge_counter(tokenizer: Tokenizer) -> Callable[[str, str], RougeCounts]:
    """The function that counts the overlap of an expected and an actual text by the tokens of a tokenizer."""
    references = _references(lambda text: ReferenceMasks.of(tokenizer(text)))

    @lru_cache(maxsize=1)
    def count(expected: str, output: str) -> RougeCounts:
        return count_for_rouge(references[expected], tokenizer(output))

    return count


@cache
def bleu_counter(tokenizer: Tokenizer) -> Callable[[str, str], GramCounts]:
    """The function that counts the common n-grams of two texts by the tokens of a tokenizer, for n = 1 to 4."""
    references = _references(lambda text: ReferenceMasks.of(tokenizer(text)))

    def count(expected: str, output: str) -> GramCounts:
        return count_grams(references[expected], tokenizer(output), _LONGEST_BLEU_GRAM)

    return count


_SQUAD_REFERENCES: Final = _references(lambda text: WordCounts.of(squad_words(text)))


@lru_cache(maxsize=1)
def squad_overlap(expected: str, output: str) -> WordOverlap:
    """The overlap of both texts by the tokens of SQuAD, as multisets."""
    numbers, counts, expected_length = _SQUAD_REFERENCES[expected]
    words = squad_words_and_articles(output)
    remaining = counts.copy()
    common = 0
    for number in map(numbers.get, words):
        if number is not None:
            if remaining[number] > 0:
                common += 1
            remaining[number] -= 1
    articles = -remaining[0]
    return WordOverlap(common, expected_length, len(words) - articles)


_COMPARED_WORDS: Final = 3


def equal_ignoring_case(expected: str, output: str) -> bool:
    """Return whether two texts are equal except for case, white space and the encoding of accents.

    Source: Unicode 15 §3.13, D145 (canonical caseless match), after white space is collapsed.
    """
    # Most pairs differ in their first or last words: compare these before the whole texts.
    first_words, last_words = slice(_COMPARED_WORDS), slice(-_COMPARED_WORDS, None)
    expected_start = expected.split(maxsplit=_COMPARED_WORDS)[first_words]
    output_start = output.split(maxsplit=_COMPARED_WORDS)[first_words]
    if _folded(expected_start) != _folded(output_start):
        return False
    expected_end = expected.rsplit(maxsplit=_COMPARED_WORDS)[last_words]
    output_end = output.rsplit(maxsplit=_COMPARED_WORDS)[last_words]
    if _folded(expected_end) != _folded(output_end):
        return False
    return _folded(expected.split()) == _folded(output.split())


def _folded(words: Sequence[str]) -> str:
    return fold_case(" ".join(words))


def fold_case(text: str) -> str:
    """The text in the form for comparison without case and encoding of accents.

    Source: Unicode 15 §3.13, D145.
    """
    # lower() equals casefold() for ASCII and is faster.
    if text.isascii():
        return text.lower()
    # Twice: casefold() can produce characters that are not decomposed.
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
