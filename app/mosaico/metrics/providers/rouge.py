"""ROUGE-1, ROUGE-2 and ROUGE-L: F1 of the words that an output shares with the expected text."""

from collections.abc import Callable

from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.text_overlap import RougeCounts, rouge_counts, stemmed_rouge_counts
from mosaico.metrics.types import MetricProvider, MetricSpec

SOURCE = (
    "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; equals rouge-score 0.1.2"
)


def rouge_l(*, use_stemmer: bool = False) -> MetricProvider:
    """F1 of the longest common subsequence of words; 0 when either text has no word."""
    spec = _spec("ROUGE", "ROUGE-L: F1 of the longest common subsequence of words", use_stemmer)
    return _rouge(spec, _f1_of_subsequence, use_stemmer)


def rouge_1(*, use_stemmer: bool = False) -> MetricProvider:
    """F1 of the common words, each counted at most as often as in the expected text."""
    spec = _spec("ROUGE_1", "ROUGE-1: F1 of the common words", use_stemmer)
    return _rouge(spec, _f1_of_words, use_stemmer)


def rouge_2(*, use_stemmer: bool = False) -> MetricProvider:
    """F1 of the common bigrams; 0 when either text has fewer than two words."""
    spec = _spec("ROUGE_2", "ROUGE-2: F1 of the common bigrams", use_stemmer)
    return _rouge(spec, _f1_of_pairs, use_stemmer)


def _rouge(
    spec: MetricSpec,
    value: Callable[[RougeCounts], float],
    use_stemmer: bool,  # noqa: FBT001
) -> MetricProvider:
    count = stemmed_rouge_counts if use_stemmer else rouge_counts
    return TextMetric(spec=spec, score=lambda expected, output: value(count(expected, output)))


def _spec(key: str, description: str, use_stemmer: bool) -> MetricSpec:  # noqa: FBT001
    return MetricSpec(
        key=key,
        description=description,
        source=SOURCE,
        version=version_with("1", use_stemmer=use_stemmer),
        worst=0.0,
        needs=BOTH_TEXTS,
    )


def _f1_of_subsequence(counts: RougeCounts) -> float:
    return _f1(counts.subsequence, counts.expected_length + counts.output_length)


def _f1_of_words(counts: RougeCounts) -> float:
    return _f1(counts.words, counts.expected_length + counts.output_length)


def _f1_of_pairs(counts: RougeCounts) -> float:
    # Each text has one bigram less than words.
    return _f1(counts.pairs, counts.expected_length + counts.output_length - 2)


def _f1(common: int, total: int) -> float:
    """F1 of the common units; `total` is the number of units of both texts."""
    return 2 * common / total if common else 0.0


METRICS.register("ROUGE", rouge_l)
METRICS.register("ROUGE_1", rouge_1)
METRICS.register("ROUGE_2", rouge_2)
