"""Tokenizers of ROUGE, BLEU and SQuAD.

Tokens are bytes (UTF-8), which compare and hash fastest. The default tokenizers do not look across
white space, so the tokens of each word can be cached.
"""

import re
import string
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, TypeVar

from mosaico.metrics.porter import porter_stem

K = TypeVar("K", str, bytes)
V = TypeVar("V")

_WORD_CHARS: Final = 300_000  # a cached character takes up to 70 bytes
_LONGEST_KEPT_WORD: Final = 64
_ENTRY_CHARS: Final = 8  # the fixed cost of an entry, in characters


class BoundedCache(dict[K, V]):
    """Cache of a function of texts; it is cleared when `chars` characters are reached.

    Texts longer than `longest` are not cached.
    """

    def __init__(self, make: Callable[[K], V], *, chars: int, longest: int) -> None:
        super().__init__()
        self._make: Callable[[K], V] = make
        self._chars = self._room = chars
        self._longest = longest

    def __missing__(self, text: K) -> V:
        tokens = self._make(text)
        if len(text) <= self._longest:
            size = len(text) + _ENTRY_CHARS
            if size > self._room:
                # All at once: keeping the order of use would cost time at every hit.
                self.clear()
                self._room = self._chars
            self._room -= size
            # A dict with `__missing__`: a hit is one lookup in C, without a Python call.
            self[text] = tokens
        return tokens


def _word_table(rule: Callable[[bytes], V]) -> BoundedCache[bytes, V]:
    return BoundedCache(rule, chars=_WORD_CHARS, longest=_LONGEST_KEPT_WORD)


# --- ROUGE ----------------------------------------------------------------------------------

_LETTERS_AND_DIGITS: Final = (string.ascii_lowercase + string.digits).encode()
_LOWER: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_ROUGE_BYTES: Final = bytes(
    code if code in _LETTERS_AND_DIGITS else ord(" ")
    for code in bytes(range(256)).translate(_LOWER)
)
_STEMMED_FROM: Final = 4  # characters; shorter words are not stemmed


def rouge_words(text: str) -> list[bytes]:
    """Lower-case runs of a-z and 0-9; all other characters are separators.

    Source: rouge_score 0.1.2, `tokenize`.
    """
    if not text.isascii():
        text = text.lower()  # some letters outside ASCII have an ASCII letter as lower case
    # Other characters become `?`, which the table turns into a separator.
    return text.encode("ascii", "replace").translate(_ROUGE_BYTES).split()


def _stem(word: bytes) -> bytes:
    return word if len(word) < _STEMMED_FROM else porter_stem(word.decode()).encode()


_STEMS: Final = _word_table(_stem)


def stemmed_rouge_words(text: str) -> list[bytes]:
    """The tokens of ROUGE; those longer than three characters are stemmed by Porter's algorithm.

    Source: rouge_score 0.1.2 with `use_stemmer`.
    """
    return stem_words(rouge_words(text))


def stem_words(words: Iterable[bytes]) -> list[bytes]:
    """The stems of words of a-z by Porter's algorithm, for English; other words are unchanged."""
    return [_STEMS[word] if word.isascii() else word for word in words]


# --- BLEU -----------------------------------------------------------------------------------

_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SYMBOL: Final = re.compile(rb"([!-&(-+/:-@\[-`{-~])")
_STOP_AFTER_NON_DIGIT: Final = re.compile(rb"([^0-9])([.,])")
_STOP_BEFORE_NON_DIGIT: Final = re.compile(rb"([.,])([^0-9])")
_DASH_AFTER_DIGIT: Final = re.compile(rb"([0-9])-")

_ALONE: Final = re.sub(
    rb"['-]", b"", string.punctuation.encode()
)  # separate tokens, except for stops in numbers
_SPACED: Final[dict[int, tuple[bytes, bytes]]] = {
    sign: (b"%c" % sign, b" %c " % sign) for sign in _ALONE
}
_NOT_ALONE: Final = frozenset(string.digits.encode() + b"\x1c\x1d\x1e\x1f")
_PLAIN: Final = bytes(set(range(256)) - set(_ALONE) - _NOT_ALONE)
_BLANKS: Final = bytes.maketrans(
    b"\t\n\v\f\r\x1c\x1d\x1e\x1f", b" " * 9
)  # the white space of str.split
_SHAPES: Final = bytes.maketrans(b"123456789.\x1d\x1e\x1f", b"000000000,\x1c\x1c\x1c")


def _bleu_word(word: bytes) -> tuple[bytes, ...]:
    # The order of these four rules is that of mteval-v13a.
    line = _SYMBOL.sub(rb" \1 ", b" %b " % word)
    line = _STOP_AFTER_NON_DIGIT.sub(rb"\1 \2 ", line)
    line = _STOP_BEFORE_NON_DIGIT.sub(rb" \1 \2", line)
    return tuple(_DASH_AFTER_DIGIT.sub(rb"\1 - ", line).split())


_BLEU_TABLE: Final = _word_table(_bleu_word)


def bleu_words(text: str) -> list[bytes]:
    """Tokens of mteval-v13a, the default of `sacrebleu`; case-sensitive."""
    line = text.rstrip().replace("<skipped>", "").replace("-\n", "")
    if "&" in line:
        for entity, sign in _ENTITIES:
            line = line.replace(entity, sign)
    if not line.isascii():
        line = " ".join(line.split())  # Unicode has more white space than ASCII
    # `surrogatepass`, because a trace may contain lone surrogates, which strict UTF-8 rejects.
    data = line.encode("utf-8", "surrogatepass")
    signs = set(data.translate(None, _PLAIN))
    if not signs.isdisjoint(_NOT_ALONE):
        shape = data.translate(_SHAPES)
        if b"0,0" in shape or b"0-" in shape or b",," in shape or b"\x1c" in shape:
            words = data.translate(_BLANKS).split()
            return list(chain.from_iterable(map(_BLEU_TABLE.__getitem__, words)))
        signs -= _NOT_ALONE
    # Fast path: without numbers like 1,000 and consecutive stops every sign is a token.
    for code in signs:
        data = data.replace(*_SPACED[code])
    return data.split()


# As sacrebleu compares them; its ranges from U+2001 and U+2F81 were meant to be those of rare characters, five
# digits long.
# Compiled by the first Chinese text.
_CHINESE: Final = (
    "([\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\u2001-\u2a6d\u2f81-\u2fa1"
    "\uff00-\uffef\u2e80-\u2eff\u3000-\u303f\u31c0-\u31ef\u2f00-\u2fdf\u2ff0-\u2fff\u3100-\u312f"
    "\u31a0-\u31bf\ufe10-\ufe1f\ufe30-\ufe4f\u2600-\u27bf\u3200-\u33ff])"
)
# The rules of mteval-v13a without its entities and the white space around the line.
_SEPARATED: Final = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def chinese_bleu_words(text: str) -> list[bytes]:
    """Each Chinese character, and the tokens between them. Source: sacrebleu 2.6, `zh`."""
    line = re.sub(_CHINESE, r" \1 ", text.strip())
    for rule, replacement in _SEPARATED:
        line = rule.sub(replacement, line)
    return [word.encode("utf-8", "surrogatepass") for word in line.split()]


def characters(text: str) -> list[bytes]:
    """Each character but white space. Source: sacrebleu 2.6, `char`."""
    return [character.encode("utf-8", "surrogatepass") for character in "".join(text.split())]


# --- SQuAD ----------------------------------------------------------------------------------

ARTICLES: Final = frozenset({b"a", b"an", b"the"})
_ARTICLE: Final = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ODD: Final = 0  # replaces control characters, which are word boundaries but not white space
_SQUAD_BYTES: Final = bytes(
    _ODD if code == 127 or code < 32 else code  # noqa: PLR2004
    for code in bytes(range(256)).translate(_LOWER).translate(_BLANKS)
)


def _squad_word(word: bytes) -> tuple[bytes, ...]:
    bare = word.decode("utf-8", "surrogatepass").lower().translate(_WITHOUT_PUNCTUATION)
    return tuple(part.encode("utf-8", "surrogatepass") for part in _ARTICLE.sub(" ", bare).split())


_SQUAD_TABLE: Final = _word_table(_squad_word)


def squad_words(text: str) -> list[bytes]:
    """Lower-case tokens without ASCII punctuation and without the articles a, an, the.

    Source: the evaluation scripts of SQuAD (Rajpurkar et al. 2016, 2018), `normalize_answer`.
    """
    return [word for word in squad_words_and_articles(text) if word not in ARTICLES]


def squad_words_and_articles(text: str) -> list[bytes]:
    """`squad_words` with articles, which the caller skips while it counts: that is faster."""
    if text.isascii():
        data = text.encode().translate(_SQUAD_BYTES, string.punctuation.encode())
        if _ODD not in data:
            return data.split()
    data = " ".join(text.split()).encode("utf-8", "surrogatepass")
    return list(chain.from_iterable(map(_SQUAD_TABLE.__getitem__, data.split())))
