"""Words and tokens as numbers, so that numpy can count them. Imports numpy.

No tokenizer looks across white space, except in texts that `pair_overlap` leaves out. So the tokens of a text
are those of its words, and each distinct word is tokenized once.
"""

import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.metrics.tokenizers import ARTICLES, bleu_words, rouge_words, squad_words

IntArray: TypeAlias = NDArray[np.int64]

_WORD_CHARS: Final = 300_000  # a character of a word takes up to 70 bytes with its tokens
_ENTRY_CHARS: Final = 8  # the fixed cost of a word, in characters
_KEPT_CHARS: Final = 1_000  # a shorter text is read as fast as it is looked up
_TEXT_CHARS: Final = 150_000
# A new word costs the steps of about 50 words that are known: with more of them, one by one is faster.
_LARGEST_NEW_SHARE: Final = 0.02

# -1,234.5%  $20.  2026-11-22  12:30:45
_NUMBER: Final = re.compile(r"([-+$]?)(\d+(?:[.,:/-]\d+)*)([.,%]?)", re.ASCII)
_SEPARATOR: Final = re.compile(r"([:/-])")
_BLANK_SEPARATORS: Final = bytes.maketrans(b".,:/-", b"     ")


class TextTokens(NamedTuple):
    """The tokens of several texts in a row, as numbers, and how many each text has."""

    numbers: NDArray[np.int32]
    counts: IntArray


class TokenRule:
    """The tokens of each word by one tokenizer; equal tokens have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        # The first one is of no word: numpy reads no empty array.
        self._tokens = array("i", [0])
        # The tokens of word i are at ends[i] to ends[i + 1].
        self._ends = array("i", [1])

    def __len__(self) -> int:
        """The number of different tokens."""
        return len(self._numbers)

    def add(self, tokens: Sequence[bytes]) -> None:
        """Add the tokens of the next word."""
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
    """The number of each word that was met, and its tokens by the rules of the metrics.

    After an exception it must not be used again: one rule may have the tokens of a word more than another.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rouge, self.bleu, self.squad = TokenRule(), TokenRule(), TokenRule()
        self._remaining_chars = _WORD_CHARS
        self._words_read = 0
        self._long_references: dict[str, array[int]] = {}
        self._remaining_text_chars = _TEXT_CHARS

    @property
    def is_full(self) -> bool:
        return self._remaining_chars < 0

    @property
    def is_worth_its_time(self) -> bool:
        """Return whether most words were known when they were read."""
        return len(self) <= _LARGEST_NEW_SHARE * self._words_read

    def __missing__(self, word: str) -> int:
        rouge, bleu, squad = tokens_of_word(word)
        self.rouge.add(rouge)
        self.bleu.add(bleu)
        self.squad.add(squad)
        self._remaining_chars -= len(word) + _ENTRY_CHARS
        number = self[word] = len(self)
        return number

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
        self._words_read += sum(counts)
        numbers_of_all = chain.from_iterable(words)
        return np.fromiter(numbers_of_all, np.int64, sum(counts)), np.array(counts, dtype=np.int64)

    def _words_of_long_reference(self, text: str) -> "array[int]":
        """The words of a text that is kept: it may come again with another output."""
        words = self._long_references.get(text)
        if words is None:
            words = array("i", map(self.__getitem__, text.split()))
            if len(text) > self._remaining_text_chars:
                self._long_references.clear()
                self._remaining_text_chars = _TEXT_CHARS
            self._long_references[text] = words
            self._remaining_text_chars -= len(text)
        return words


WordTokens: TypeAlias = tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]


def tokens_of_word(word: str) -> WordTokens:
    """The tokens of a word by the rules of ROUGE, BLEU and SQuAD."""
    # Most words are letters and digits, or letters with a comma or a stop: their tokens need no rules.
    letters = word
    if not word.isalnum():
        letters = word[:-1] if word[-1] in ",." and word[:-1].isalpha() else ""
    if not (letters and letters.isascii()):
        # Of all words, numbers are the most often new.
        number = _NUMBER.fullmatch(word)
        if number is not None:
            return _number_tokens(*number.groups())
        return rouge_words(word), bleu_words(word), squad_words(word)
    lower = (letters.lower().encode(),)
    cased = letters.encode()
    sign = word[len(letters) :].encode()
    return lower, (cased, sign) if sign else (cased,), () if lower[0] in ARTICLES else lower


def _number_tokens(sign: str, digits: str, end: str) -> WordTokens:
    """The tokens of digits with separators between them, a sign before them and a sign or stop at the end."""
    data = digits.encode()
    groups = data.translate(_BLANK_SEPARATORS).split()
    # BLEU keeps commas and stops between digits, and a minus that follows no digit.
    bleu = [part.encode() for part in _SEPARATOR.split(digits)]
    if sign == "-":
        bleu[0] = b"-" + bleu[0]
    elif sign:
        bleu.insert(0, sign.encode())
    if end:
        bleu.append(end.encode())
    return groups, bleu, (b"".join(groups),)
