"""The expected texts that metrics of words can read: to others they are not applicable."""

import re
from typing import Final

from mosaico.metrics.segmentation import count_unspaced_letters, unicode_words
from mosaico.metrics.tokenizers import BoundedCache
from mosaico.metrics.types import ReadableTexts

_CACHED_CHARS: Final = 200_000
_LONGEST_CACHED: Final = 20_000
_ROUGE_CHARACTER: Final = re.compile("[a-z0-9]", re.ASCII)
# Of a script without spaces, as many letters fit into the longest expected answer that counts as a label. Such an
# answer is one word for a metric that splits at white space, and a whole sentence should not be.
_LABEL_LETTERS: Final = 10


def _has_rouge_words(text: str) -> bool:
    """Return whether a text has words of a-z and 0-9, and not most of its letters outside of a-z."""
    lower = text.lower()
    if _ROUGE_CHARACTER.search(lower) is None:
        return False
    if lower.isascii():
        return True
    letters = sum(map(str.isalpha, lower))
    outside = letters - sum(map(str.isalpha, lower.encode("ascii", "ignore").decode()))
    return 2 * outside <= letters


def _has_spaced_words(text: str) -> bool:
    """Return whether white space separates the words of a text; true for a text without words."""
    unspaced = count_unspaced_letters(text)
    return unspaced <= _LABEL_LETTERS or 2 * unspaced <= sum(map(str.isalpha, text))


def _is_not_blank(text: str) -> bool:
    return bool(text) and not text.isspace()


_ROUGE: Final = BoundedCache(_has_rouge_words, chars=_CACHED_CHARS, longest=_LONGEST_CACHED)
_SPACED: Final = BoundedCache(_has_spaced_words, chars=_CACHED_CHARS, longest=_LONGEST_CACHED)

# Of `rouge-score`.
ROUGE_TEXTS: Final = ReadableTexts(_ROUGE.__getitem__, ("CHRF", "ROUGE with tokenizer=unicode"))
UNICODE_TEXTS: Final = ReadableTexts(lambda text: bool(unicode_words(text)), ("CHRF",))
# Of BLEU with the tokenizer 13a, which has no words of a blank text.
BLEU_TEXTS: Final = ReadableTexts(
    lambda text: _is_not_blank(text) and _SPACED[text],
    ("CHRF", "BLEU with tokenizer=char"),
)
# Of SQuAD, where a blank text means that there is no answer.
SQUAD_TEXTS: Final = ReadableTexts(_SPACED.__getitem__, ("CHRF",))
NOT_BLANK: Final = ReadableTexts(_is_not_blank, ("EXACT_MATCH",))
