"""Words and tokens as numbers, so that numpy can count them. Imports numpy.

No tokenizer looks across white space, except in texts that `pair_overlap` leaves out. So the tokens of a text
are those of its words, and each distinct word is tokenized once.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.metrics.tokenizers import ARTICLES, bleu_words, rouge_words, squad_words

IntArray: TypeAlias = NDArray[np.int64]

_WORD_CHARS: Final = 300_000  # a character of a word takes up to 70 bytes with its tokens
_ENTRY_CHARS: Final = 8  # the fixed cost of a word, in characters
_KEPT_CHARS: Final = 1_000  # a shorter text is read as fast as it is looked up
_TEXT_CHARS: Final = 150_000


class TextTokens(NamedTuple):
    """The tokens of several texts in a row, as numbers, and how many each text has."""

    numbers: NDArray[np.int32]
    counts: IntArray


class TokenRule:
    """The tokens of each word by one tokenizer; equal tokens have equal numbers."""

    def __init__(self, tokenize: Callable[[str], Sequence[bytes]]) -> None:
        self._tokenize = tokenize
        self._numbers: dict[bytes, int] = {}
        # The first one is of no word: numpy reads no empty array.
        self._tokens = array("i", [0])
        # The tokens of word i are at ends[i] to ends[i + 1].
        self._ends = array("i", [1])

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
        # Without a copy: the tables are longer than the texts. They cannot grow while they are read here.
        tokens, ends = np.frombuffer(self._tokens, np.int32), np.frombuffer(self._ends, np.int32)
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
        self._long_references: dict[str, array[int]] = {}
        self._text_room = _TEXT_CHARS

    def __missing__(self, word: str) -> int:
        self._add(word)
        self.room -= len(word) + _ENTRY_CHARS
        number = self[word] = len(self)
        return number

    def _add(self, word: str) -> None:
        # Most words are letters and digits, or letters with a comma or a stop: their tokens need no rules.
        letters = word
        if not word.isalnum():
            letters = word[:-1] if word[-1] in ",." and word[:-1].isalpha() else ""
        if not (letters and letters.isascii()):
            for rule in (self.rouge, self.bleu, self.squad):
                rule.add(word)
            return
        lower = (letters.lower().encode(),)
        self.rouge.add_tokens(lower)
        self.squad.add_tokens(() if lower[0] in ARTICLES else lower)
        sign = word[len(letters) :].encode()
        self.bleu.add_tokens((letters.encode(), sign) if sign else (letters.encode(),))

    def words_of(self, texts: Sequence[str], *, are_references: bool) -> tuple[IntArray, IntArray]:
        """The words of all texts in a row, and how many each text has."""
        words: list[Iterable[int]] = []
        counts = []
        for text in texts:
            if not are_references or len(text) < _KEPT_CHARS:
                text_words = text.split()
                words.append(map(self.__getitem__, text_words))
                counts.append(len(text_words))
            else:
                words.append(numbers := self._words_of_long_reference(text))
                counts.append(len(numbers))
        numbers_of_all = chain.from_iterable(words)
        return np.fromiter(numbers_of_all, np.int64, sum(counts)), np.array(counts, dtype=np.int64)

    def _words_of_long_reference(self, text: str) -> "array[int]":
        """The words of a text that is kept: it may come again with another output."""
        words = self._long_references.get(text)
        if words is None:
            words = array("i", map(self.__getitem__, text.split()))
            if len(text) > self._text_room:
                self._long_references.clear()
                self._text_room = _TEXT_CHARS
            self._long_references[text] = words
            self._text_room -= len(text)
        return words
