"""Overlap of pairs of texts, counted once for all metrics of a chunk of traces."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from mosaico.metrics.text_overlap import (
    GramCounts,
    RougeCounts,
    WordOverlap,
    bleu_counts,
    rouge_counts,
    squad_overlap,
)
from mosaico.traces.types import Trace

if TYPE_CHECKING:
    from mosaico.metrics.pair_counts import PairCounts

C = TypeVar("C")

# Of fewer characters: numpy takes longer to begin than the steps of Python that it replaces.
_FEWEST_CHARS: Final = 16_000
# Of the pairs that are counted together. The references have fewer tokens than `PairCounts` allows, because
# each token has a character that is not a blank.
_BATCH_CHARS: Final = 128_000
_REFERENCE_CHARS: Final = 46_000
# `PairCounts` has a table of 4 bytes for each pair and each different token of the references, and one of
# 8 bytes for each pair and each word of the longest output: at most 8 MB, and usually less than 1 MB, because
# a token has several characters and comes several times.
_BATCH_CELLS: Final = 2_000_000
# A pair with a longer text is counted alone, which bounds the memory for any length.
_LONGEST_TEXT: Final = 20_000

# The words of a process serve one thread at a time.
_LOCK: Final = threading.Lock()


class TextPair(NamedTuple):
    """The expected text of a trace, and its output."""

    expected: str
    output: str


class PairOverlap:
    """The overlap of each pair, in order, by the tokens of ROUGE, BLEU and SQuAD."""

    def __init__(self, pairs: Sequence[TextPair]) -> None:
        self._pairs = pairs

    @cached_property
    def rouge(self) -> list[RougeCounts]:
        return self._counts(rouge_counts, lambda batch: batch.rouge())

    @cached_property
    def bleu(self) -> list[GramCounts]:
        return self._counts(bleu_counts, lambda batch: batch.bleu())

    @cached_property
    def squad(self) -> list[WordOverlap]:
        return self._counts(squad_overlap, lambda batch: batch.squad())

    def _counts(
        self, count_pair: Callable[[str, str], C], count_batch: "Callable[[PairCounts], list[C]]"
    ) -> list[C]:
        counts: dict[int, C] = {}
        with _LOCK:
            for positions, batch in self._batches:
                counts.update(zip(positions, count_batch(batch), strict=True))
        if len(counts) == len(self._pairs):
            return list(counts.values())
        return [
            counts[position] if position in counts else count_pair(*pair)
            for position, pair in enumerate(self._pairs)
        ]

    @cached_property
    def _batches(self) -> "list[tuple[list[int], PairCounts]]":
        """The pairs that are counted together, by their positions; all others are counted alone."""
        if sum(map(len, chain.from_iterable(self._pairs))) < _FEWEST_CHARS:
            return []
        # Only here, because few texts need no numpy.
        from mosaico.metrics.pair_counts import PairCounts, process_words

        if (vocabulary := process_words.take()) is None:
            return []
        batches = []
        for positions in _split(self._pairs):
            expected, outputs = zip(*map(self._pairs.__getitem__, positions), strict=True)
            batches.append((positions, PairCounts(vocabulary, expected, outputs)))
            # A chunk has one vocabulary at most, which bounds its memory.
            if vocabulary.is_full:
                break
        process_words.give_back(vocabulary)
        return batches


class _Chunk(NamedTuple):
    """A chunk of traces, and the overlap of their texts."""

    traces: Sequence[Trace]
    overlap: PairOverlap


# The metrics of a chunk ask for the same traces one after the other: each thread measures one chunk.
_this_thread = threading.local()


def overlap_of(traces: Sequence[Trace]) -> PairOverlap:
    """The overlap of the texts of some traces. Raises ValueError for one without both texts."""
    chunk: _Chunk | None = getattr(_this_thread, "chunk", None)
    if chunk is None or chunk.traces is not traces:
        _this_thread.chunk = chunk = _Chunk(traces, PairOverlap(list(map(texts_of, traces))))
    return chunk.overlap


def forget_overlap() -> None:
    """Free the texts of the last chunk, and what was counted in them."""
    _this_thread.chunk = None


def texts_of(trace: Trace) -> TextPair:
    """The texts of a trace. Raises ValueError when one is missing."""
    if trace.expected_output is None or trace.output is None:
        raise ValueError("the metric needs an expected and an actual output")
    return TextPair(trace.expected_output, trace.output)


def _split(pairs: Sequence[TextPair]) -> Iterator[list[int]]:
    """The positions of pairs that may be counted together, in batches of bounded size."""
    batch: list[int] = []
    reference_chars = chars = longest = 0
    for position, (expected, output) in enumerate(pairs):
        size = len(expected) + len(output)
        reference_size = len(expected) - expected.count(" ")
        if size > _LONGEST_TEXT or _has_linked_words(expected) or _has_linked_words(output):
            continue
        if batch and (
            chars + size > _BATCH_CHARS
            or reference_chars + reference_size > _REFERENCE_CHARS
            or (len(batch) + 1) * max(reference_chars + reference_size, longest, size)
            > _BATCH_CELLS
        ):
            yield batch
            batch, reference_chars, chars, longest = [], 0, 0, 0
        batch.append(position)
        reference_chars += reference_size
        chars += size
        longest = max(longest, size)
    if batch:
        yield batch


def _has_linked_words(text: str) -> bool:
    """Return whether the rules of BLEU change this text before they look at single words."""
    return "-\n" in text or "<skipped>" in text
