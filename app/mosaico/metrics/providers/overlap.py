"""ACCURACY, PRECISION, RECALL and F1_SCORE: of words, or of labels with the option `labels`."""

from collections.abc import Callable

from mosaico.metrics.confusion import LabelAverage, LabelStatistic
from mosaico.metrics.label_metric import label_metric
from mosaico.metrics.readable_texts import SQUAD_TEXTS
from mosaico.metrics.registry import METRICS
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.text_overlap import WordOverlap, equal_ignoring_case, squad_overlap
from mosaico.metrics.types import MetricProvider, MetricSpec

SQUAD = "Rajpurkar et al. 2016 and 2018 (SQuAD evaluation): words as multisets"
RULES = "by the rules of SQuAD: lower case, without ASCII punctuation and a, an, the"


def accuracy(*, labels: LabelAverage = "", positive: str = "") -> MetricProvider:
    """1 when the output equals the expected text except for case and white space, else 0."""
    if labels or positive:
        return label_metric("ACCURACY", LabelStatistic.ACCURACY, labels, positive)
    return TextMetric(
        spec=MetricSpec(
            key="ACCURACY",
            description="1 when both texts are equal except for case and white space, else 0",
            source="Unicode 15 §3.13 D145, canonical caseless match",
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        score=lambda expected, output: float(equal_ignoring_case(expected, output)),
    )


def precision(*, labels: LabelAverage = "", positive: str = "") -> MetricProvider:
    """The share of the output's words that are in the expected text."""
    if labels or positive:
        return label_metric("PRECISION", LabelStatistic.PRECISION, labels, positive)
    return _overlap(
        _spec("PRECISION", "Share of the output's words that are in the expected text"), _precision
    )


def recall(*, labels: LabelAverage = "", positive: str = "") -> MetricProvider:
    """The share of the expected words that are in the output."""
    if labels or positive:
        return label_metric("RECALL", LabelStatistic.RECALL, labels, positive)
    return _overlap(_spec("RECALL", "Share of the expected words that are in the output"), _recall)


def f1_score(*, labels: LabelAverage = "", positive: str = "") -> MetricProvider:
    """Harmonic mean of precision and recall."""
    if labels or positive:
        return label_metric("F1_SCORE", LabelStatistic.F1, labels, positive)
    return _overlap(_spec("F1_SCORE", "Harmonic mean of PRECISION and RECALL of words"), _f1)


def _precision(overlap: WordOverlap) -> float:
    return overlap.common / overlap.output if overlap.output else float(not overlap.expected)


def _recall(overlap: WordOverlap) -> float:
    return overlap.common / overlap.expected if overlap.expected else float(not overlap.output)


def _f1(overlap: WordOverlap) -> float:
    words = overlap.expected + overlap.output
    return 2 * overlap.common / words if words else 1.0


def _overlap(spec: MetricSpec, value: Callable[[WordOverlap], float]) -> MetricProvider:
    return TextMetric(
        spec=spec, score=lambda expected, output: value(squad_overlap(expected, output))
    )


def _spec(key: str, description: str) -> MetricSpec:
    return MetricSpec(
        key=key,
        description=f"{description}, {RULES}",
        source=SQUAD,
        version="2",
        worst=0.0,
        needs=BOTH_TEXTS,
        readable=SQUAD_TEXTS,
    )


METRICS.register("ACCURACY", accuracy)
METRICS.register("PRECISION", precision)
METRICS.register("RECALL", recall)
METRICS.register("F1_SCORE", f1_score)
