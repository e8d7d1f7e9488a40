"""Words of texts in any script: Unicode word segmentation, and the words of a Japanese dictionary.

Scripts that are written without spaces (Chinese, Japanese, Thai and others) have no words that a rule could find; each
of their characters is a word here.
"""

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

# Line_Break=SA are the scripts of South-East Asia that need a dictionary, such as Thai (Unicode 15, UAX #14).
_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Tibetan}\p{Line_Break=SA}"


class _Patterns(NamedTuple):
    """What words are made of. `unspaced_character` is one with the marks on it, such as the vowels of Thai."""

    unspaced_letter: Any
    unspaced_character: Any
    boundary: Any
    letter_or_digit: Any


@lru_cache(maxsize=1)
def _patterns() -> _Patterns:
    # Most texts are read without it, and it takes long to import.
    import regex

    return _Patterns(
        unspaced_letter=regex.compile(rf"[[{_UNSPACED}]&&\p{{L}}]", regex.V1),
        unspaced_character=regex.compile(rf"[[{_UNSPACED}]--\p{{M}}]\p{{M}}*", regex.V1),
        boundary=regex.compile(r"\b", regex.V1 | regex.WORD),
        letter_or_digit=regex.compile(r"[\p{L}\p{N}]", regex.V1),
    )


def unicode_words(text: str) -> list[bytes]:
    """Case-folded words with a letter or digit; of scripts without spaces, each character.

    Source: Unicode 15, UAX #29 (default word boundaries), after canonical composition.
    """
    folded = unicodedata.normalize("NFC", text.casefold())
    patterns = _patterns()
    spaced = patterns.unspaced_character.sub(r" \g<0> ", folded)
    return [
        segment.encode("utf-8", "surrogatepass")
        for segment in patterns.boundary.split(spaced)
        if patterns.letter_or_digit.search(segment)
    ]


def count_unspaced_letters(text: str) -> int:
    """The number of letters of scripts that are written without spaces between words."""
    if text.isascii():
        return 0
    return sum(1 for _ in _patterns().unspaced_letter.finditer(text))


def japanese_words(text: str) -> list[bytes]:
    """The words of MeCab with the IPA dictionary (extra `ja`). Source: sacrebleu 2.6, `ja-mecab`."""
    # MeCab takes a text of C: no lone surrogates, and nothing after a zero byte.
    readable = text.strip().encode("utf-8", "replace").decode().replace("\0", " ")
    return [word.encode() for word in _mecab()(readable).split()]


@lru_cache(maxsize=1)
def _mecab() -> Callable[[str], str]:
    # The dictionary takes 50 MB, and only this tokenizer needs it.
    import ipadic
    import MeCab

    parse: Callable[[str], str] = MeCab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati").parse
    return parse
