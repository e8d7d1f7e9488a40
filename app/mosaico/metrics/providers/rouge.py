"""ROUGE-1, ROUGE-2 and ROUGE-L: F1 of the words that an output shares with the expected text."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from mosaico.metrics.readable_texts import ROUGE_TEXTS, UNICODE_TEXTS
from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.segmentation import unicode_words
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.text_overlap import RougeCounts, rouge_counter
from mosaico.metrics.tokenizers import rouge_words, stem_words, stemmed_rouge_words
from mosaico.metrics.types import MetricProvider, MetricSpec

SOURCE = (
    "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; equals rouge-score 0.1.2"
)
UNICODE_SOURCE = (
    "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; words by Unicode 15, UAX #29"
)

RougeTokenizer: TypeAlias = Literal["", "unicode"]


class _Words(NamedTuple):
    """The words that a ROUGE metric compares."""

    tokenizer: RougeTokenizer
    use_stemmer: bool


def _stemmed_unicode_words(text: str) -> list[bytes]:
    return stem_words(unicode_words(text))


_TOKENIZERS: Final = {
    _Words("", use_stemmer=False): rouge_words,
    _Words("", use_stemmer=True): stemmed_rouge_words,
    _Words("unicode", use_stemmer=False): unicode_words,
    _Words("unicode", use_stemmer=True): _stemmed_unicode_words,
}


def rouge_l(*, use_stemmer: bool = False, tokenizer: RougeTokenizer = "") -> MetricProvider:
    """F1 of the longest common subsequence of words; 0 when the output has no word."""
    description = "ROUGE-L: F1 of the longest common subsequence of words"
    return _rouge("ROUGE", description, _f1_of_subsequence, _Words(tokenizer, use_stemmer))


def rouge_1(*, use_stemmer: bool = False, tokenizer: RougeTokenizer = "") -> MetricProvider:
    """F1 of the common words, each counted at most as often as in the expected text."""
    description = "ROUGE-1: F1 of the common words"
    return _rouge("ROUGE_1", description, _f1_of_words, _Words(tokenizer, use_stemmer))


def rouge_2(*, use_stemmer: bool = False, tokenizer: RougeTokenizer = "") -> MetricProvider:
    """F1 of the common bigrams; 0 when either text has fewer than two words."""
    description = "ROUGE-2: F1 of the common bigrams"
    return _rouge("ROUGE_2", description, _f1_of_pairs, _Words(tokenizer, use_stemmer))


def _rouge(
    key: str, description: str, value: Callable[[RougeCounts], float], words: _Words
) -> MetricProvider:
    count = rouge_counter(_TOKENIZERS[words])
    is_unicode = words.tokenizer == "unicode"
    return TextMetric(
        spec=MetricSpec(
            key=key,
            description=description,
            source=UNICODE_SOURCE if is_unicode else SOURCE,
            version=version_with("2", **words._asdict()),
            worst=0.0,
            needs=BOTH_TEXTS,
            readable=UNICODE_TEXTS if is_unicode else ROUGE_TEXTS,
        ),
        score=lambda expected, output: value(count(expected, output)),
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
