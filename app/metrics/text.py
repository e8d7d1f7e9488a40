"""Words, n-grams and common subsequences: what the text metrics share.

Each text is cut into words once per rule and trace; references stay for later traces of their
item. Words are bytes (UTF-8), which compare and hash fastest. No rule looks across a blank, so a
table of words already seen is exact. Every store is bounded in characters: long texts pass through
and do not pile up.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, compress, count
from typing import Final, Generic, NamedTuple, TypeVar

G = TypeVar("G")

# What is kept of a character costs up to 70 bytes in a word table and 130 in a reference.
_TABLE_CHARS: Final = 300_000
_REFERENCE_CHARS: Final = 150_000
_LONGEST_KEPT_WORD: Final = 64
_LONGEST_KEPT_REFERENCE: Final = 20_000
_ENTRY_CHARS: Final = 8  # the fixed cost of an entry, in characters

_STRIP: Final = 4096  # reference words per round of the subsequence search: bounds its memory


class WordTable(dict[bytes, G]):
    """What a rule makes of a single word, remembered until the table is full, then begun anew."""

    def __init__(self, rule: Callable[[bytes], G], *, chars: int = _TABLE_CHARS) -> None:
        super().__init__()
        self._rule = rule
        self._chars = self._room = chars

    def __missing__(self, word: bytes) -> G:
        made = self._rule(word)
        if len(word) <= _LONGEST_KEPT_WORD:
            size = len(word) + _ENTRY_CHARS
            if size > self._room:
                self.clear()
                self._room = self._chars
            self._room -= size
            self[word] = made
        return made


class Reference(NamedTuple):
    """Where each word of an expected text stands: one bit a place, the first one lowest.

    A text of many words is kept as it is instead, in `words`.
    """

    length: int
    masks: dict[bytes, int]
    words: Sequence[bytes] = ()

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "Reference":
        if len(words) > _STRIP:
            return cls(len(words), {}, words)
        return cls(len(words), _positions(words))


class WordCounts(NamedTuple):
    """How often an expected text holds each word, and how many words it has."""

    counts: dict[bytes, int]
    length: int


class ReferenceStore(Generic[G]):
    """What was made of expected texts, kept for the next trace with the same one."""

    def __init__(self, make: Callable[[str], G], *, chars: int = _REFERENCE_CHARS) -> None:
        self._make = make
        self._chars = self._room = chars
        self._known: dict[str, G] = {}

    def __call__(self, text: str) -> G:
        made = self._known.get(text)
        if made is None:
            made = self._make(text)
            if len(text) <= _LONGEST_KEPT_REFERENCE:
                self._keep(text, made)
        return made

    def __len__(self) -> int:
        return len(self._known)

    def _keep(self, text: str, made: G) -> None:
        size = len(text) + _ENTRY_CHARS
        if size > self._room:
            self._known.clear()
            self._room = self._chars
        self._room -= size
        self._known[text] = made


class Overlap(NamedTuple):
    """How many words two texts have, and how many of them in common, counted as multisets."""

    common: int
    expected: int
    output: int


class Alignment:
    """The words of an output beside a reference: which n-grams and which order they share."""

    __slots__ = ("_found", "_reference", "_row", "_words")

    def __init__(self, reference: Reference, words: Sequence[bytes]) -> None:
        self._reference = reference
        self._words = words
        # For each word of the output, where the reference has it.
        self._row = [*map(reference.masks.get, words), None]
        self._found: Sequence[int] = ()

    @property
    def expected_length(self) -> int:
        return self._reference.length

    @property
    def output_length(self) -> int:
        return len(self._words)

    def common_grams(self, longest: int) -> Sequence[int]:
        """How many n-grams occur in both texts, for n = 1 … `longest` and perhaps beyond.

        Each counts at most as often as the reference holds it.
        """
        if len(self._found) < longest:
            many = self._reference.words
            self._found = (
                _common_grams_of_many(many, self._words, longest)
                if many
                else self._common_grams(longest)
            )
        return self._found

    def _common_grams(self, longest: int) -> Sequence[int]:
        row = self._row
        places: Iterable[int] = compress(count(), row)
        ends = [mask for mask in row if mask]
        found = [_clipped(ends)]
        while ends and len(found) < longest:
            # An n-gram ends in the reference where its first n − 1 words end just before.
            last = len(found)
            starts = zip(places, ends, strict=True)
            places, ends = [], []
            for place, mask in starts:
                after = row[place + last]
                if after is not None and (end := (mask << 1) & after):
                    places.append(place)
                    ends.append(end)
            found.append(_clipped(ends))
        return found + [0] * (longest - len(found))

    def common_subsequence(self) -> int:
        """How many words both texts hold in the same order, with gaps.

        Cost: n·m/64 steps for n and m words. Source: Hyyrö 2004, one bit a reference word.
        """
        length = self._reference.length
        if self._reference.words:
            return _common_subsequence_of_many(self._reference.words, self._words)
        left = full = (1 << length) - 1
        for mask in self._row:
            if mask:
                met = left & mask
                left = (left + met) | (left - met)
        return length - (left & full).bit_count()


def _clipped(ends: Sequence[int]) -> int:
    """How many of these n-grams count, each given by all the places where the reference has it."""
    common = 0
    left: dict[int, int] = {}
    for end in ends:
        remaining = left.get(end)
        if remaining is None:
            remaining = end.bit_count()
        if remaining:
            common += 1
            left[end] = remaining - 1
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
    found = []
    for order in range(1, longest + 1):
        known = Counter(zip(*(expected[start:] for start in range(order)), strict=False))
        given = Counter(zip(*(words[start:] for start in range(order)), strict=False))
        found.append((known & given).total())
    return found


def _common_subsequence_of_many(expected: Sequence[bytes], words: Sequence[bytes]) -> int:
    """The same strip by strip of the reference; what a strip carries over goes to the next."""
    carries = bytearray(len(words))
    common = 0
    for start in range(0, len(expected), _STRIP):
        strip = expected[start : start + _STRIP]
        masks, width = _positions(strip), len(strip)
        left = full = (1 << width) - 1
        for place, word in enumerate(words):
            mask = masks.get(word, 0)
            if mask or carries[place]:
                met = left & mask
                total = left + met + carries[place]
                carries[place] = total >> width
                left = (total & full) | (left - met)
        common += width - left.bit_count()
    return common


# --- the words of ROUGE ---------------------------------------------------------------------

_LETTERS_AND_DIGITS: Final = (string.ascii_lowercase + string.digits).encode()
_LOWER: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_ROUGE_BYTES: Final = bytes(
    code if code in _LETTERS_AND_DIGITS else ord(" ")
    for code in bytes(range(256)).translate(_LOWER)
)
_STEMMED_FROM: Final = 4  # characters; shorter words stay as they are
_RUN_OF_Y: Final = b"y" * 64  # the stemmer takes the square of the length of such a run


def rouge_words(text: str) -> list[bytes]:
    """Lower-case runs of a–z and 0–9; everything else separates.

    Source: rouge_score 0.1.2, `tokenize`.
    """
    if not text.isascii():
        text = text.lower()  # some letters outside ASCII have one inside as lower case
    return text.encode("ascii", "replace").translate(_ROUGE_BYTES).split()


@lru_cache(maxsize=1)
def _porter() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


def _stem(word: bytes) -> bytes:
    if len(word) < _STEMMED_FROM or _RUN_OF_Y in word:
        return word
    return _porter()(word.decode()).encode()


_STEMS: Final = WordTable(_stem)


def stemmed_rouge_words(text: str) -> list[bytes]:
    """The words of ROUGE, each longer than three characters reduced by Porter's stemmer.

    Source: rouge_score 0.1.2 with `use_stemmer`; differs for words with 64 times y in a row only.
    """
    return list(map(_STEMS.__getitem__, rouge_words(text)))


# --- the words of BLEU ----------------------------------------------------------------------

_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SYMBOL: Final = re.compile(rb"([!-&(-+/:-@\[-`{-~])")
_STOP_AFTER_NON_DIGIT: Final = re.compile(rb"([^0-9])([.,])")
_STOP_BEFORE_NON_DIGIT: Final = re.compile(rb"([.,])([^0-9])")
_DASH_AFTER_DIGIT: Final = re.compile(rb"([0-9])-")

_SEPARATED: Final = re.sub(rb"['-]", b"", string.punctuation.encode())
_ALL_BUT_SEPARATED: Final = bytes(set(range(256)) - set(_SEPARATED))
_BLANKS: Final = bytes.maketrans(b"\t\n\v\f\r\x1c\x1d\x1e\x1f", b" " * 9)  # as str.split has them
_SHAPES: Final = bytes.maketrans(b"123456789.\x1d\x1e\x1f", b"000000000,\x1c\x1c\x1c")


def _bleu_word(word: bytes) -> tuple[bytes, ...]:
    line = _SYMBOL.sub(rb" \1 ", b" %b " % word)
    line = _STOP_AFTER_NON_DIGIT.sub(rb"\1 \2 ", line)
    line = _STOP_BEFORE_NON_DIGIT.sub(rb" \1 \2", line)
    return tuple(_DASH_AFTER_DIGIT.sub(rb"\1 - ", line).split())


_BLEU_TABLE: Final = WordTable(_bleu_word)


def bleu_words(text: str) -> list[bytes]:
    """Words of mteval-v13a, which `sacrebleu` cuts by default; case matters."""
    line = text.rstrip().replace("<skipped>", "").replace("-\n", "")
    if "&" in line:
        for entity, sign in _ENTITIES:
            line = line.replace(entity, sign)
    if not line.isascii():
        line = " ".join(line.split())  # there are blanks outside ASCII, too
    data = line.encode("utf-8", "surrogatepass")
    shape = data.translate(_SHAPES)
    if b"0,0" in shape or b"0-" in shape or b",," in shape or b"\x1c" in shape:
        data = data.translate(_BLANKS)
        return list(chain.from_iterable(map(_BLEU_TABLE.__getitem__, data.split())))
    # Without numbers like 1,000 and rows of stops every sign stands alone.
    for code in set(data.translate(None, _ALL_BUT_SEPARATED)):
        data = data.replace(b"%c" % code, b" %c " % code)
    return data.split()


# --- the words of SQuAD ---------------------------------------------------------------------

_ARTICLES: Final = frozenset({b"a", b"an", b"the"})
_ARTICLE: Final = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ODD: Final = 0  # stands for control characters, which are boundaries of words and yet no blanks
_SQUAD_BYTES: Final = bytes(
    _ODD if code == 127 or code < 32 else code  # noqa: PLR2004
    for code in bytes(range(256)).translate(_LOWER).translate(_BLANKS)
)


def _squad_word(word: bytes) -> tuple[bytes, ...]:
    bare = word.decode("utf-8", "surrogatepass").lower().translate(_WITHOUT_PUNCTUATION)
    return tuple(part.encode("utf-8", "surrogatepass") for part in _ARTICLE.sub(" ", bare).split())


_SQUAD_TABLE: Final = WordTable(_squad_word)


def squad_words(text: str) -> list[bytes]:
    """Lower-case words without ASCII punctuation and without the articles a, an, the.

    Source: the evaluation scripts of SQuAD (Rajpurkar et al. 2016, 2018), `normalize_answer`.
    """
    return [word for word in _squad_words_and_articles(text) if word not in _ARTICLES]


def _squad_words_and_articles(text: str) -> list[bytes]:
    if text.isascii():
        data = text.encode().translate(_SQUAD_BYTES, string.punctuation.encode())
        if _ODD not in data:
            return data.split()
    data = " ".join(text.split()).encode("utf-8", "surrogatepass")
    return list(chain.from_iterable(map(_SQUAD_TABLE.__getitem__, data.split())))


# --- two texts side by side, remembered for the other metrics of the same trace ---------------


def _squad_counts(text: str) -> WordCounts:
    words = squad_words(text)
    counts = dict.fromkeys(_ARTICLES, 0)
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return WordCounts(counts, len(words))


_ROUGE_REFERENCES: Final = ReferenceStore(lambda text: Reference.of(rouge_words(text)))
_STEMMED_REFERENCES: Final = ReferenceStore(lambda text: Reference.of(stemmed_rouge_words(text)))
_BLEU_REFERENCES: Final = ReferenceStore(lambda text: Reference.of(bleu_words(text)))
_SQUAD_REFERENCES: Final = ReferenceStore(_squad_counts)


@lru_cache(maxsize=1)
def rouge_alignment(expected: str, output: str) -> Alignment:
    return Alignment(_ROUGE_REFERENCES(expected), rouge_words(output))


@lru_cache(maxsize=1)
def stemmed_rouge_alignment(expected: str, output: str) -> Alignment:
    return Alignment(_STEMMED_REFERENCES(expected), stemmed_rouge_words(output))


def bleu_alignment(expected: str, output: str) -> Alignment:
    return Alignment(_BLEU_REFERENCES(expected), bleu_words(output))


@lru_cache(maxsize=1)
def squad_overlap(expected: str, output: str) -> Overlap:
    """The words of SQuAD that both texts hold, as multisets."""
    counts, expected_length = _SQUAD_REFERENCES(expected)
    words = _squad_words_and_articles(output)
    common = articles = 0
    left: dict[bytes, int] = {}
    for word in filter(counts.__contains__, words):
        remaining = left[word] if word in left else counts[word]
        if remaining:
            common += 1
            left[word] = remaining - 1
        elif word in _ARTICLES:
            articles += 1
    return Overlap(common, expected_length, len(words) - articles)


_FIRST_WORDS: Final = 3


def same_after_folding(expected: str, output: str) -> bool:
    """Equal but for case, the width of blanks and the way accents are encoded.

    Source: Unicode 15 §3.13, D145 (canonical caseless match), after blanks are made single.
    """
    # Most pairs differ in their first words.
    some = slice(_FIRST_WORDS)
    ours = expected.split(maxsplit=_FIRST_WORDS)[some]
    theirs = output.split(maxsplit=_FIRST_WORDS)[some]
    if _folded(ours) != _folded(theirs):
        return False
    return _folded(expected.split()) == _folded(output.split())


def _folded(words: Sequence[str]) -> str:
    return caseless(" ".join(words))


def caseless(text: str) -> str:
    """The text as it is compared when case and the way accents are encoded do not matter.

    Source: Unicode 15 §3.13, D145.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
