"""ROUGE: how much of the expected text's words an output holds, as F1 of precision and recall."""

from typing import Final

from app.metrics.reference import BOTH_TEXTS, TextMetric
from app.metrics.registry import METRICS, version_with
from app.metrics.text import Alignment, rouge_alignment, stemmed_rouge_alignment
from app.metrics.types import MetricSpec

SOURCE = (
    "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; equals rouge-score 0.1.2"
)

LONGEST_GRAM: Final = 2


def rouge_l(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the longest common subsequence of words; 0 when either text has no word."""
    align = stemmed_rouge_alignment if use_stemmer else rouge_alignment

    def score(expected: str, output: str) -> float:
        aligned = align(expected, output)
        return _f1(aligned.common_subsequence(), aligned.expected_length, aligned.output_length)

    return TextMetric(
        spec=_spec("ROUGE", "ROUGE-L: F1 of the longest common subsequence of words", use_stemmer),
        score=score,
    )


def rouge_1(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the common words, each counted at most as often as the expected text holds it."""
    align = stemmed_rouge_alignment if use_stemmer else rouge_alignment
    return TextMetric(
        spec=_spec("ROUGE_1", "ROUGE-1: F1 of the common words", use_stemmer),
        score=lambda expected, output: _gram_f1(align(expected, output), 1),
    )


def rouge_2(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the common pairs of neighbouring words; 0 when either text has fewer than two words."""
    align = stemmed_rouge_alignment if use_stemmer else rouge_alignment
    return TextMetric(
        spec=_spec("ROUGE_2", "ROUGE-2: F1 of the common pairs of neighbouring words", use_stemmer),
        score=lambda expected, output: _gram_f1(align(expected, output), 2),
    )


def _spec(key: str, description: str, use_stemmer: bool) -> MetricSpec:  # noqa: FBT001
    return MetricSpec(
        key=key,
        description=description,
        source=SOURCE,
        version=version_with("1", use_stemmer=use_stemmer),
        worst=0.0,
        needs=BOTH_TEXTS,
    )


def _gram_f1(aligned: Alignment, order: int) -> float:
    return _f1(
        aligned.common_grams(LONGEST_GRAM)[order - 1],  # at once for both orders
        aligned.expected_length - order + 1,
        aligned.output_length - order + 1,
    )


def _f1(common: int, expected: int, output: int) -> float:
    return 2 * common / (expected + output) if common else 0.0


METRICS.register("ROUGE", rouge_l)
METRICS.register("ROUGE_1", rouge_1)
METRICS.register("ROUGE_2", rouge_2)
