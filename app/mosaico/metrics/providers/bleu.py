"""Sentence BLEU: n-gram precision of an output with a brevity penalty."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from mosaico.core.extras import require_extra
from mosaico.metrics.readable_texts import BLEU_TEXTS, NOT_BLANK
from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.segmentation import japanese_words
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.text_overlap import GramCounts, Tokenizer, bleu_counter
from mosaico.metrics.tokenizers import bleu_words, characters, chinese_bleu_words
from mosaico.metrics.types import MetricProvider, MetricSpec

BleuTokenizer: TypeAlias = Literal["", "zh", "ja-mecab", "char"]

# Those of sacrebleu; its default is 13a.
_TOKENIZERS: Final[Mapping[BleuTokenizer, Tokenizer]] = {
    "": bleu_words,
    "zh": chinese_bleu_words,
    "ja-mecab": japanese_words,
    "char": characters,
}


def bleu(*, tokenizer: BleuTokenizer = "") -> MetricProvider:
    """Sentence BLEU as a ratio. Raises: `MissingPackages` for `ja-mecab` without the extra `ja`."""
    if tokenizer == "ja-mecab":
        require_extra(
            "ja", "the words of BLEU's tokenizer ja-mecab", instead=", or use the tokenizer char"
        )
    count = bleu_counter(_TOKENIZERS[tokenizer])
    return TextMetric(
        spec=MetricSpec(
            key="BLEU",
            description="Sentence BLEU: geometric mean of the precision of 1- to 4-grams",
            source="Papineni et al. 2002; Chen and Cherry 2014, method 3; equals sacrebleu 2.6 / 100",
            version=version_with("2", tokenizer=tokenizer),
            worst=0.0,
            needs=BOTH_TEXTS,
            readable=NOT_BLANK if tokenizer else BLEU_TEXTS,
        ),
        score=lambda expected, output: sentence_bleu(count(expected, output)),
    )


def sentence_bleu(counts: GramCounts) -> float:
    """Geometric mean of the n-gram precisions, times the brevity penalty, in [0, 1].

    Orders longer than the output are skipped. The first order without a match counts as half a
    match, the next one as a quarter, and so on. 0 when no word matches or a text has no words.
    """
    expected_length, length, common = counts
    if not common[0]:
        return 0.0
    logs = _log_precisions(common[:length], length)
    # The logarithm of the brevity penalty: it is added to the mean of the logarithms.
    brevity = min(0.0, 1 - expected_length / length)
    return math.exp(brevity + math.fsum(logs) / len(logs))


def _log_precisions(common: Sequence[int], length: int) -> list[float]:
    logs, smoothing = [], 1
    # An output of n words has n - before n-grams of this order.
    for before, matches in enumerate(common):
        if not matches:
            smoothing *= 2
        logs.append(math.log((matches or 1 / smoothing) / (length - before)))
    return logs


METRICS.register("BLEU", bleu)
