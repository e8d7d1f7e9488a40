"""Items that ask the same; pure."""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mosaico.overview.dataset_health.schemas import SameQuestion

SHOWN_CHARS: Final = 160
_FINAL_PUNCTUATION: Final = " .?!"


class AskedItem(NamedTuple):
    """An item with its question and all its expected answers, empty without any."""

    item_id: str
    question: str
    expected: Sequence[str]


class SameQuestions(NamedTuple):
    """Questions of several items: with one expected answer, and with different ones, in the order of their first items; of so
    many items that were read.
    """

    items: int
    duplicates: list[SameQuestion]
    contradictions: list[SameQuestion]


class _Asking(NamedTuple):
    """An item by digests: the texts of a large dataset are not kept."""

    item_id: str
    beginning: str
    expected: bytes | None


def find_same_questions(items: Iterable[AskedItem]) -> SameQuestions:
    """The questions that several items ask. An item without an expected answer contradicts none."""
    by_question = defaultdict[bytes, list[_Asking]](list)
    for item in items:
        expected = sorted(map(normalize, item.expected))
        asking = _Asking(
            item.item_id,
            item.question[:SHOWN_CHARS],
            _digest("\0".join(expected)) if expected else None,
        )
        by_question[_digest(normalize(item.question))].append(asking)
    same = SameQuestions(sum(map(len, by_question.values())), [], [])
    for group in by_question.values():
        if len(group) > 1:
            answers = {asking.expected for asking in group} - {None}
            questions = same.contradictions if len(answers) > 1 else same.duplicates
            ids = [asking.item_id for asking in group]
            questions.append(SameQuestion(item_ids=ids, input=group[0].beginning))
    return same


def normalize(text: str) -> str:
    """A text without case, without double spaces and without punctuation at its end; other punctuation counts: 1+1 is not
    1-1.
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(words).rstrip(_FINAL_PUNCTUATION)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:16]
