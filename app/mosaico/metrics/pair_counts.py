"""Counts the overlap of many pairs of texts at once. Imports numpy.

The counts are whole numbers and equal those of `mosaico.metrics.text_overlap`, which takes a step of Python
for each word; here a word takes some steps of C.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.metrics.text_overlap import (
    LONGEST_BLEU_GRAM,
    GramCounts,
    RougeCounts,
    WordOverlap,
    common_subsequence,
)
from mosaico.metrics.word_ids import IntArray, TextTokens, TokenRule, Vocabulary

# Positions in the references, and two of them as the code of an n-gram.
NumberArray: TypeAlias = NDArray[np.int32]

_PLACES_PER_GRAM: Final = 8
_FEWEST_HASH_BITS: Final = 8
# Odd, so that different n-grams keep different products.
_FIRST_MULTIPLIER: Final = 0x9E3779B1
_NEXT_MULTIPLIER: Final = 0x85EBCA6B

_LONGEST_MASK: Final = 63  # reference words: a bit for each, and one for the carry
_MAX_LANE_BYTES: Final = 4 * 1024**2
# A vocabulary of words that are all new fills up in about one chunk, which then takes some times as long.
_CHUNKS_ALONE: Final = 100


class ProcessWords:
    """The words that this process has met. Serves one thread at a time."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()
        self._chunks_alone = 0

    def take(self) -> Vocabulary | None:
        """The vocabulary for a chunk of pairs; None to count them one by one.

        The caller gives it back, unless an exception left it incomplete.
        """
        if self._chunks_alone:
            self._chunks_alone -= 1
            return None
        vocabulary, self._vocabulary = self._vocabulary, Vocabulary()
        return vocabulary

    def give_back(self, vocabulary: Vocabulary) -> None:
        """Keep the vocabulary for the next chunk, unless it is full."""
        if not vocabulary.is_full:
            self._vocabulary = vocabulary
        elif not vocabulary.is_worth_its_time:
            self._chunks_alone = _CHUNKS_ALONE


process_words = ProcessWords()


class PairCounts:
    """The counts of some pairs; each rule of tokens is counted when it is read.

    The references have at most 46,340 tokens together: two of their positions make a code of 31 bits.
    """

    def __init__(
        self, vocabulary: Vocabulary, expected: Sequence[str], outputs: Sequence[str]
    ) -> None:
        self._vocabulary = vocabulary
        self._expected, self._outputs = expected, outputs
        self._reference_words = vocabulary.words_of(expected, are_references=True)
        self._output_words = vocabulary.words_of(outputs, are_references=False)

    def rouge(self) -> list[RougeCounts]:
        matches = self._matches(self._vocabulary.rouge)
        words, pairs = matches.common_grams(2)
        rows = zip(*matches.lengths, words, pairs, self._subsequences(matches), strict=True)
        return list(map(RougeCounts._make, rows))

    def bleu(self) -> list[GramCounts]:
        matches = self._matches(self._vocabulary.bleu)
        common = zip(*matches.common_grams(LONGEST_BLEU_GRAM), strict=True)
        return list(map(GramCounts._make, zip(*matches.lengths, common, strict=True)))

    def squad(self) -> list[WordOverlap]:
        matches = self._matches(self._vocabulary.squad)
        [common] = matches.common_grams(1)
        return list(map(WordOverlap._make, zip(common, *matches.lengths, strict=True)))

    def _matches(self, rule: TokenRule) -> "_Matches":
        return _Matches(
            rule.tokens_of(*self._reference_words), rule.tokens_of(*self._output_words), len(rule)
        )

    def _subsequences(self, matches: "_Matches") -> list[int]:
        lengths = matches.common_subsequences()
        is_long = matches.references.counts > _LONGEST_MASK
        if is_long.any():
            long_lengths = matches.long_subsequences(is_long)
            for pair in np.flatnonzero(is_long).tolist():
                lengths[pair] = (
                    long_lengths[pair]
                    if long_lengths is not None
                    else common_subsequence(self._expected[pair], self._outputs[pair])
                )
        return lengths


class _Matches:
    """The tokens of outputs that occur in their references.

    Each token of a reference has as number the position of the last equal one in this reference, where
    all references stand in a row: so the number also names the pair. `numbers` has that of each token of
    the outputs, -1 without an equal one.
    """

    def __init__(self, references: TextTokens, outputs: TextTokens, token_count: int) -> None:
        self.references = references
        self._output_counts = outputs.counts
        self._stops = np.cumsum(references.counts)
        self._size = max(len(references.numbers), 1)
        pairs = np.arange(len(references.counts))
        self._pair_of = np.repeat(pairs, references.counts)
        self._positions = np.arange(len(references.numbers))
        column = np.full(token_count + 1, -1, dtype=np.int64)
        column[references.numbers] = 0
        # Tokens that no reference has share the last column, which is always empty.
        in_any = np.flatnonzero(column == 0)
        column[in_any] = np.arange(len(in_any))
        width = len(in_any) + 1
        table = np.full(len(pairs) * width, -1, dtype=np.int32)
        cells = self._pair_of * width + column[references.numbers]
        table[cells] = self._positions
        self.reference_numbers = table[cells]
        output_pairs = np.repeat(pairs * width, outputs.counts)
        # Column -1 of a pair is the last one of the pair before.
        self.numbers = table[output_pairs + column[outputs.numbers]]

    @property
    def lengths(self) -> tuple[list[int], list[int]]:
        """The tokens of each reference and of each output."""
        return self.references.counts.tolist(), self._output_counts.tolist()

    def common_grams(self, longest: int) -> list[list[int]]:
        """The n-grams that each output shares with its reference, for n = 1 to `longest`, each counted at
        most as often as it occurs in the reference.
        """
        starts, output_starts = self._positions, self._matched
        numbers, output_numbers = self.reference_numbers, self.numbers[self._matched]
        common = _common(numbers, output_numbers, len(starts))
        common_counts = [self._sum_by_pair(common, starts)]
        for order in range(2, longest + 1):
            # An n-gram is the one without its last token, and that token.
            starts, grams = self._extend(starts, numbers, order)
            output_starts, output_grams = self._extend_matched(output_starts, output_numbers, order)
            numbers, output_numbers = number_grams(grams, output_grams)
            is_matched = output_numbers >= 0
            # Only a shared n-gram begins a longer one.
            output_starts, output_numbers = output_starts[is_matched], output_numbers[is_matched]
            common = _common(numbers, output_numbers, len(starts))
            common_counts.append(self._sum_by_pair(common, starts))
            is_shared = (common > 0)[numbers]
            starts, numbers = starts[is_shared], numbers[is_shared]
        return common_counts

    def common_subsequences(self) -> list[int]:
        """The longest common subsequences; those of references with more than 63 tokens are not valid.

        One step for each matched token, for all pairs at once. Source: Hyyrö 2004, one bit per reference
        word.
        """
        counts = self.references.counts
        bits = np.left_shift(
            1, np.minimum(self._positions - (self._stops - counts)[self._pair_of], 62)
        )
        masks = np.zeros(len(self._positions), dtype=np.int64)
        np.bitwise_or.at(masks, self.reference_numbers, bits)
        numbers, pairs, steps = self._steps(counts <= _LONGEST_MASK)
        rows = np.zeros((steps.max(initial=-1) + 1, len(counts)), dtype=np.uint64)
        rows[steps, pairs] = masks[numbers]
        unmatched = np.full(len(counts), np.iinfo(np.uint64).max)
        matched, total = np.empty_like(unmatched), np.empty_like(unmatched)
        for row in rows:
            np.bitwise_and(unmatched, row, out=matched)
            np.add(unmatched, matched, out=total)
            np.subtract(unmatched, matched, out=unmatched)
            np.bitwise_or(unmatched, total, out=unmatched)
        full = np.left_shift(1, np.minimum(counts, _LONGEST_MASK)).astype(np.uint64) - np.uint64(1)
        lengths: list[int] = (counts - np.bitwise_count(unmatched & full)).tolist()
        return lengths

    def long_subsequences(self, is_long: NDArray[np.bool_]) -> dict[int, int] | None:
        """The longest common subsequence of each of these pairs; None when they are too long to be found
        together.

        As `common_subsequences`, with one long whole number of Python for all pairs: a lane of bytes for
        each, whose last bit stops the carry.
        """
        counts = self.references.counts[is_long]
        lane_of = np.cumsum(is_long) - 1
        numbers, pairs, steps = self._steps(is_long)
        width = int(counts.max()) // 8 + 1
        shape = (int(steps.max(initial=-1)) + 1, len(counts), width)
        if math.prod(shape) > _MAX_LANE_BYTES or len(self._positions) * width > _MAX_LANE_BYTES:
            return None
        positions = self._positions - (self._stops - self.references.counts)[self._pair_of]
        in_lane = is_long[self._pair_of]
        masks = np.zeros((len(self._positions), width), dtype=np.uint8)
        cells = self.reference_numbers * width + positions // 8
        # Each bit is added once, so that the sum is the mask.
        np.add.at(
            masks.reshape(-1),
            cells[in_lane],
            np.left_shift(1, positions % 8)[in_lane].astype(np.uint8),
        )
        rows = np.zeros(shape, dtype=np.uint8)
        rows[steps, lane_of[pairs]] = masks[numbers]
        lanes = [(1 << count) - 1 << 8 * width * lane for lane, count in enumerate(counts.tolist())]
        unmatched = full = sum(lanes)
        size = width * len(counts)
        data = rows.tobytes()
        for start in range(0, len(data), size):
            matched = unmatched & int.from_bytes(data[start : start + size], "little")
            unmatched = ((unmatched + matched) | (unmatched - matched)) & full
        matched = full ^ unmatched
        return {
            pair: (matched & lane).bit_count()
            for pair, lane in zip(np.flatnonzero(is_long).tolist(), lanes, strict=True)
        }

    def _steps(self, is_selected: NDArray[np.bool_]) -> tuple[NumberArray, IntArray, IntArray]:
        """The matched tokens of the selected pairs, their pairs, and their places among those of a pair."""
        numbers = self.numbers[self._matched]
        pairs = self._pair_of[numbers]
        numbers, pairs = numbers[is_selected[pairs]], pairs[is_selected[pairs]]
        lengths = np.bincount(pairs, minlength=len(is_selected))
        return (
            numbers,
            pairs,
            np.arange(len(pairs)) - np.repeat(np.cumsum(lengths) - lengths, lengths),
        )

    @cached_property
    def _matched(self) -> IntArray:
        return np.flatnonzero(self.numbers >= 0)

    def _extend(
        self, starts: IntArray, grams: NumberArray, order: int
    ) -> tuple[IntArray, NumberArray]:
        """The n-grams of the references, from those that are shorter by one."""
        last = starts + (order - 1)
        within = last < self._stops[self._pair_of[starts]]
        last = last[within]
        return starts[within], grams[within] * self._size + self.reference_numbers[last]

    def _extend_matched(
        self, starts: IntArray, grams: NumberArray, order: int
    ) -> tuple[IntArray, NumberArray]:
        """The n-grams of the outputs whose tokens all occur in the reference. One across two outputs has
        tokens of two references, so that no reference has it.
        """
        last = starts + (order - 1)
        numbers = self.numbers.take(last, mode="clip")
        is_matched = (numbers >= 0) & (last < len(self.numbers))
        return starts[is_matched], grams[is_matched] * self._size + numbers[is_matched]

    def _sum_by_pair(self, counts: IntArray, positions: IntArray) -> list[int]:
        """The sums of counts over the pairs that have these positions in the references."""
        sums = np.bincount(
            self._pair_of[positions], weights=counts, minlength=len(self.references.counts)
        )
        pair_sums: list[int] = sums.astype(np.int64).tolist()
        return pair_sums


def _common(numbers: NumberArray, output_numbers: NumberArray, size: int) -> IntArray:
    """How often each number below `size` occurs in both arrays."""
    return np.minimum(
        np.bincount(numbers, minlength=size), np.bincount(output_numbers, minlength=size)
    )


def number_grams(grams: NumberArray, output_grams: NumberArray) -> tuple[NumberArray, NumberArray]:
    """For each n-gram the index of an equal one in `grams`, the same for all equal ones; -1 without one.

    Looked up in a table by hash, which is faster than sorting. Of the n-grams with one hash the last one has
    the place; those that differ from it are left to the next round, which has another hash function.
    """
    numbers, output_numbers = np.full_like(grams, -1), np.full_like(output_grams, -1)
    unnumbered, output_unnumbered = np.arange(len(grams)), np.arange(len(output_grams))
    multiplier = _FIRST_MULTIPLIER
    while len(unnumbered):
        bits = max(_FEWEST_HASH_BITS, (_PLACES_PER_GRAM * len(unnumbered)).bit_length())
        remaining, output_remaining = grams[unnumbered], output_grams[output_unnumbered]
        positions = _hash(remaining, multiplier, bits)
        table = np.zeros(2**bits, dtype=np.int32)
        table[positions] = unnumbered
        indices = table[positions]
        is_equal = grams[indices] == remaining
        numbers[unnumbered[is_equal]] = indices[is_equal]
        unnumbered = unnumbered[~is_equal]
        # An empty place has the index 0: whatever equals that n-gram has its place.
        indices = table[_hash(output_remaining, multiplier, bits)]
        is_equal = grams[indices] == output_remaining
        output_numbers[output_unnumbered[is_equal]] = indices[is_equal]
        output_unnumbered = output_unnumbered[~is_equal]
        multiplier = (multiplier * _NEXT_MULTIPLIER) % 2**32
    return numbers, output_numbers


def _hash(grams: NumberArray, multiplier: int, bits: int) -> NDArray[np.uint32]:
    """Multiplicative hash (Knuth, The Art of Computer Programming, 6.4)."""
    return grams.astype(np.uint32) * np.uint32(multiplier) >> np.uint32(32 - bits)
