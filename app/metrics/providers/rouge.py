"""ROUGE-1, ROUGE-2 and ROUGE-L: F1 of the words that an output shares with the expected text."""

from app.metrics.registry import METRICS, version_with
from app.metrics.text_metric import BOTH_TEXTS, TextMetric
from app.metrics.text_overlap import rouge_counts, stemmed_rouge_counts
from app.metrics.types import MetricSpec

SOURCE = (
    "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; equals rouge-score 0.1.2"
)


def rouge_l(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the longest common subsequence of words; 0 when either text has no word."""
    count = stemmed_rouge_counts if use_stemmer else rouge_counts

    def score(expected: str, output: str) -> float:
        counts = count(expected, output)
        return _f1(counts.subsequence, counts.expected_length + counts.output_length)

    return TextMetric(
        spec=_spec("ROUGE", "ROUGE-L: F1 of the longest common subsequence of words", use_stemmer),
        score=score,
    )


def rouge_1(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the common words, each counted at most as often as in the expected text."""
    count = stemmed_rouge_counts if use_stemmer else rouge_counts

    def score(expected: str, output: str) -> float:
        counts = count(expected, output)
        return _f1(counts.words, counts.expected_length + counts.output_length)

    return TextMetric(
        spec=_spec("ROUGE_1", "ROUGE-1: F1 of the common words", use_stemmer),
        score=score,
    )


def rouge_2(*, use_stemmer: bool = False) -> TextMetric:
    """F1 of the common bigrams; 0 when either text has fewer than two words."""
    count = stemmed_rouge_counts if use_stemmer else rouge_counts

    def score(expected: str, output: str) -> float:
        counts = count(expected, output)
        # Each text has one bigram less than words.
        return _f1(counts.pairs, counts.expected_length + counts.output_length - 2)

    return TextMetric(
        spec=_spec("ROUGE_2", "ROUGE-2: F1 of the common bigrams", use_stemmer),
        score=score,
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


def _f1(common: int, total: int) -> float:
    """F1 of the common units; `total` is the number of units of both texts."""
    return 2 * common / total if common else 0.0


METRICS.register("ROUGE", rouge_l)
METRICS.register("ROUGE_1", rouge_1)
METRICS.register("ROUGE_2", rouge_2)
