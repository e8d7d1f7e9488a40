"""Words, n-grams and common subsequences: what the text metrics share.

Each text is cut into words once per rule and trace; references stay for later traces of their
item. Words are bytes (UTF-8), which compare and hash fastest. No rule looks across a blank, so a
table of words already seen is exact. Every store is bounded in characters: long texts pass through
and do not pile up.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeVar

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


class Reference:
    """The words of an expected text, counted; its n-grams and positions once they are asked for.

    Ignored words stand among the counts with zero.
    """

    __slots__ = ("_grams", "_masks", "counts", "words")

    def __init__(self, words: Sequence[bytes], ignored: Iterable[bytes] = ()) -> None:
        self.words = words
        self.counts = _counted(words)
        for word in ignored:
            self.counts[word] = 0
        self._grams: dict[int, dict[tuple[bytes, ...], int]] = {}
        self._masks: dict[bytes, int] | None = None

    def grams(self, order: int) -> dict[tuple[bytes, ...], int]:
        """How often each run of `order` words occurs."""
        found = self._grams.get(order)
        if found is None:
            runs = zip(*(self.words[start:] for start in range(order)), strict=False)
            found = self._grams[order] = _counted(runs)
        return found

    @property
    def masks(self) -> dict[bytes, int]:
        """The positions of each word as bits, the first one lowest."""
        if self._masks is None:
            self._masks = _positions(self.words)
        return self._masks


class ReferenceStore:
    """References made by one rule, kept for the next trace with the same expected text."""

    def __init__(
        self,
        rule: Callable[[str], Sequence[bytes]],
        *,
        ignored: Iterable[bytes] = (),
        chars: int = _REFERENCE_CHARS,
    ) -> None:
        self._rule = rule
        self._ignored = ignored
        self._chars = self._room = chars
        self._known: dict[str, Reference] = {}

    def __call__(self, text: str) -> Reference:
        reference = self._known.get(text)
        if reference is None:
            reference = Reference(self._rule(text), self._ignored)
            if len(text) <= _LONGEST_KEPT_REFERENCE:
                self._keep(text, reference)
        return reference

    def __len__(self) -> int:
        return len(self._known)

    def _keep(self, text: str, reference: Reference) -> None:
        size = len(text) + _ENTRY_CHARS
        if size > self._room:
            self._known.clear()
            self._room = self._chars
        self._room -= size
        self._known[text] = reference


class Overlap(NamedTuple):
    """How many words two texts have, and how many of them in common, counted as multisets."""

    common: int
    expected: int
    output: int


class Alignment:
    """The words of an output beside a reference: which n-grams and which order they share."""

    __slots__ = ("_places", "_reference", "_words")

    def __init__(self, reference: Reference, words: Sequence[bytes]) -> None:
        counts = reference.counts
        self._reference = reference
        self._words = words
        self._places = [place for place, word in enumerate(words) if word in counts]

    @property
    def expected_length(self) -> int:
        return len(self._reference.words)

    @property
    def output_length(self) -> int:
        return len(self._words)

    def common_grams(self, longest: int) -> list[int]:
        """How many n-grams occur in both texts, for n = 1 … `longest`, each at most as often as
        the reference holds it.
        """
        words, places = self._words, self._places
        found = [_clipped([words[place] for place in places], self._reference.counts)]
        while len(found) < longest:
            order = len(found) + 1
            starts = [place for place, after in pairwise(places) if after == place + 1]
            if not starts:
                break
            known = self._reference.grams(order)
            places, grams = [], []
            for place in starts:
                gram = tuple(words[place : place + order])
                if gram in known:
                    places.append(place)
                    grams.append(gram)
            found.append(_clipped(grams, known))
        return found + [0] * (longest - len(found))

    def common_subsequence(self) -> int:
        """How many words both texts hold in the same order, with gaps.

        Cost: n·m/64 steps for n and m words. Source: Hyyrö 2004, one bit a reference word.
        """
        expected, words = self._reference.words, self._words
        if len(expected) > _STRIP:
            return _subsequence_in_strips(expected, words)
        masks = self._reference.masks
        row = full = (1 << len(expected)) - 1
        for place in self._places:
            met = row & masks[words[place]]
            row = (row + met) | (row - met)
        return len(expected) - (row & full).bit_count()


def _counted(items: Iterable[G]) -> dict[G, int]:
    # Faster than a Counter for the few words of most expected texts.
    counts: dict[G, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts


def _clipped(grams: Sequence[G], known: Mapping[G, int]) -> int:
    """How many of the grams, all of them known, remain when none counts more often than known."""
    if len(set(grams)) == len(grams):
        return len(grams)
    common = 0
    left: dict[G, int] = {}
    for gram in grams:
        remaining = left[gram] if gram in left else known[gram]
        if remaining:
            common += 1
            left[gram] = remaining - 1
    return common


def _positions(words: Sequence[bytes]) -> dict[bytes, int]:
    masks: dict[bytes, int] = {}
    bit = 1
    for word in words:
        masks[word] = masks.get(word, 0) | bit
        bit <<= 1
    return masks


def _subsequence_in_strips(expected: Sequence[bytes], words: Sequence[bytes]) -> int:
    carries = bytearray(len(words))
    common = 0
    for start in range(0, len(expected), _STRIP):
        strip = expected[start : start + _STRIP]
        masks, width = _positions(strip), len(strip)
        row = full = (1 << width) - 1
        for place, word in enumerate(words):
            mask = masks.get(word, 0)
            if mask or carries[place]:
                met = row & mask
                total = row + met + carries[place]
                carries[place] = total >> width
                row = (total & full) | (row - met)
        common += width - row.bit_count()
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
_SHAPES: Final = bytes.maketrans(b"123456789.", b"000000000,")


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
    data = line.encode("utf-8", "surrogatepass").translate(_BLANKS)
    shape = data.translate(_SHAPES)
    if b"0,0" in shape or b"0-" in shape or b",," in shape:
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

_ROUGE_REFERENCES: Final = ReferenceStore(rouge_words)
_STEMMED_REFERENCES: Final = ReferenceStore(stemmed_rouge_words)
_BLEU_REFERENCES: Final = ReferenceStore(bleu_words)
_SQUAD_REFERENCES: Final = ReferenceStore(squad_words, ignored=_ARTICLES)


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
    reference = _SQUAD_REFERENCES(expected)
    counts = reference.counts
    words = _squad_words_and_articles(output)
    known = [word for word in words if word in counts]
    shared = [word for word in known if word not in _ARTICLES]
    return Overlap(
        common=_clipped(shared, counts),
        expected=len(reference.words),
        output=len(words) - len(known) + len(shared),
    )


def same_after_folding(expected: str, output: str) -> bool:
    """Equal but for case, the width of blanks and the way accents are encoded.

    Source: Unicode 15 §3.13, D145 (canonical caseless match), after blanks are made single.
    """
    # Most pairs differ in their first word.
    if _folded(expected.split(maxsplit=1)[:1]) != _folded(output.split(maxsplit=1)[:1]):
        return False
    return _folded(expected.split()) == _folded(output.split())


def _folded(words: Sequence[str]) -> str:
    text = " ".join(words)
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
