"""Words and tokens as numbers, so that numpy can count them. Imports numpy.

No tokenizer looks across white space, except in texts that `pair_overlap` leaves out. So the tokens of a text
are those of its words, and each distinct word is tokenized once.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.metrics.tokenizers import ARTICLES, BoundedCache, bleu_words, rouge_words, squad_words

IntArray: TypeAlias = NDArray[np.int64]

_WORD_CHARS: Final = 300_000  # a character of a word takes up to 70 bytes with its tokens
_ENTRY_CHARS: Final = 8  # the fixed cost of a word, in characters
_REFERENCE_CHARS: Final = 150_000
_LONGEST_KEPT_REFERENCE: Final = 20_000


class TextTokens(NamedTuple):
    """The tokens of several texts in a row, as numbers, and how many each text has."""

    numbers: IntArray
    counts: IntArray


class TokenRule:
    """The tokens of each word by one tokenizer; equal tokens have equal numbers."""

    def __init__(self, tokenize: Callable[[str], Sequence[bytes]]) -> None:
        self._tokenize = tokenize
        self._numbers: dict[bytes, int] = {}
        self._tokens = array("i")
        # The tokens of word i are at ends[i] to ends[i + 1].
        self._ends = array("i", [0])

    def __len__(self) -> int:
        """The number of different tokens."""
        return len(self._numbers)

    def add(self, word: str) -> None:
        """Add the tokens of the next word."""
        self.add_tokens(self._tokenize(word))

    def add_tokens(self, tokens: Sequence[bytes]) -> None:
        """Add the next word by its tokens."""
        numbers = self._numbers
        for token in tokens:
            self._tokens.append(numbers.setdefault(token, len(numbers)))
        self._ends.append(len(self._tokens))

    def tokens_of(self, words: IntArray, counts: IntArray) -> TextTokens:
        """The tokens of texts, given by their words."""
        tokens, ends = np.array(self._tokens, dtype=np.int64), np.array(self._ends, dtype=np.int64)
        first = ends[words]
        lengths = ends[words + 1] - first
        stops = np.cumsum(lengths)
        total = int(stops[-1]) if len(stops) else 0
        indices = np.repeat(first - (stops - lengths), lengths) + np.arange(total)
        stops_before = np.concatenate(([0], stops))
        limits = stops_before[np.concatenate(([0], np.cumsum(counts)))]
        return TextTokens(tokens[indices], np.diff(limits))


class Vocabulary(dict[str, int]):
    """The number of each word that was met, and its tokens by the rules of the metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.rouge, self.bleu, self.squad = map(TokenRule, (rouge_words, bleu_words, squad_words))
        self.room = _WORD_CHARS
        self._references: BoundedCache[str, IntArray] = BoundedCache(
            self._words_of, chars=_REFERENCE_CHARS, longest=_LONGEST_KEPT_REFERENCE
        )

    def __missing__(self, word: str) -> int:
        self._add(word)
        self.room -= len(word) + _ENTRY_CHARS
        number = self[word] = len(self)
        return number

    def _add(self, word: str) -> None:
        # Most words are letters, with a comma or a stop or without: their tokens need no rules.
        letters = word[:-1] if word[-1] in ",." else word
        if not (letters.isascii() and letters.isalpha()):
            for rule in (self.rouge, self.bleu, self.squad):
                rule.add(word)
            return
        lower = (letters.lower().encode(),)
        self.rouge.add_tokens(lower)
        self.squad.add_tokens(() if lower[0] in ARTICLES else lower)
        sign = word[len(letters) :].encode()
        self.bleu.add_tokens((letters.encode(), sign) if sign else (letters.encode(),))

    def words_of_outputs(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        """The words of all texts in a row, and how many each text has."""
        words = [text.split() for text in texts]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        numbers = map(self.__getitem__, chain.from_iterable(words))
        return np.fromiter(numbers, np.int64, int(counts.sum())), counts

    def words_of_references(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        """`words_of_outputs` for texts that may come again."""
        words = list(map(self._references.__getitem__, texts))
        return np.concatenate(words), np.fromiter(map(len, words), np.int64, len(words))

    def _words_of(self, text: str) -> IntArray:
        return np.array(list(map(self.__getitem__, text.split())), dtype=np.int64)
