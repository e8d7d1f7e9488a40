"""chrF: the n-grams of characters that two texts share; it reads texts of every language."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from mosaico.metrics.readable_texts import NOT_BLANK
from mosaico.metrics.registry import METRICS
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.tokenizers import BoundedCache
from mosaico.metrics.types import MetricProvider, MetricSpec

_LONGEST_GRAM: Final = 6
_BETA: Final = 2  # recall counts this many times as much as precision
# A cached character takes up to 700 bytes: it begins six n-grams.
_REFERENCE_CHARS: Final = 20_000
_LONGEST_KEPT_REFERENCE: Final = 4_000


def chrf() -> MetricProvider:
    """Character n-gram F-score as a ratio."""
    return TextMetric(
        spec=MetricSpec(
            key="CHRF",
            description="chrF: F2 of the common n-grams of 1 to 6 characters, in texts of every language",
            source="Popović 2015, chrF: character n-gram F-score; equals sacrebleu 2.6 / 100",
            worst=0.0,
            needs=BOTH_TEXTS,
            readable=NOT_BLANK,
        ),
        score=sentence_chrf,
    )


class CharacterGrams(NamedTuple):
    """A text without white space: the number of its characters, and its n-grams for n = 1, 2, ..."""

    length: int
    counts: Sequence[Counter[str]]

    @classmethod
    def of(cls, text: str) -> "CharacterGrams":
        characters = "".join(text.split())
        orders = range(1, min(_LONGEST_GRAM, len(characters)) + 1)
        return cls(len(characters), [_grams(characters, order) for order in orders])


_REFERENCES: Final = BoundedCache(
    CharacterGrams.of, chars=_REFERENCE_CHARS, longest=_LONGEST_KEPT_REFERENCE
)


def sentence_chrf(expected: str, output: str) -> float:
    """F2 of the mean precision and the mean recall of character n-grams, in [0, 1].

    Orders longer than one of the texts are skipped. 0 when no character is common, or a text has none.
    """
    if expected == output:
        # The usual case of a good agent, and exactly what the sums below would give.
        return 1.0 if expected.strip() else 0.0
    reference, candidate = _REFERENCES[expected], CharacterGrams.of(output)
    precision = recall = 0.0
    orders = min(len(reference.counts), len(candidate.counts))
    for before in range(orders):
        common = _count_common(reference.counts[before], candidate.counts[before])
        # A text of n characters has n - before n-grams of this order.
        precision += common / (candidate.length - before)
        recall += common / (reference.length - before)
    if not precision:
        return 0.0
    precision, recall = precision / orders, recall / orders
    return (1 + _BETA**2) * precision * recall / (_BETA**2 * precision + recall)


def _grams(characters: str, order: int) -> Counter[str]:
    # Without a Python statement per n-gram, this takes two thirds of the time.
    return Counter(map("".join, zip(*(characters[start:] for start in range(order)), strict=False)))


def _count_common(expected: Counter[str], output: Counter[str]) -> int:
    """The number of n-grams of both texts, each counted at most as often as in the other one."""
    return sum([min(expected[gram], output[gram]) for gram in expected.keys() & output.keys()])


METRICS.register("CHRF", chrf)
