"""EXACT_MATCH, CONTAINS and EDIT_SIMILARITY: comparison by characters."""

from mosaico.metrics.edit_distance import levenshtein
from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.text_metric import BOTH_TEXTS, TextMetric
from mosaico.metrics.text_overlap import fold_case
from mosaico.metrics.types import MetricProvider, MetricSpec
from mosaico.traces.types import Trace

MAX_PAIRS = 10**9  # pairs of characters: about a second of work


def exact_match() -> MetricProvider:
    """1 when the output equals the expected text byte by byte, else 0."""
    return TextMetric(
        spec=MetricSpec(
            key="EXACT_MATCH",
            description="1 when both texts are equal byte by byte, else 0",
            source="equality of UTF-8 bytes",
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        score=lambda expected, output: float(expected == output),
    )


class Contains(TextMetric):
    """Whether the output contains the expected text; an empty one is skipped."""

    __slots__ = ()

    def supports(self, trace: Trace) -> bool:
        return bool(trace.expected_output)


def contains(*, ignore_case: bool = False) -> MetricProvider:
    """1 when the output contains the expected text, else 0."""

    def score(expected: str, output: str) -> float:
        if ignore_case:
            return float(fold_case(expected) in fold_case(output))
        return float(expected in output)

    return Contains(
        spec=MetricSpec(
            key="CONTAINS",
            description="1 when the output contains the expected text, else 0",
            source="substring of code points; ignoring case: Unicode 15 §3.13 D145",
            version=version_with("1", ignore_case=ignore_case),
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        score=score,
    )


class EditSimilarity(TextMetric):
    """Similarity by edit distance; skipped for two texts that are both very long."""

    __slots__ = ()

    def supports(self, trace: Trace) -> bool:
        return len(trace.expected_output or "") * len(trace.output or "") <= MAX_PAIRS


def edit_similarity() -> MetricProvider:
    """1 for equal texts, 0 when no character is common."""
    return EditSimilarity(
        spec=MetricSpec(
            key="EDIT_SIMILARITY",
            description="1 − edits / characters of the longer text (Levenshtein)",
            source="Levenshtein 1966; Myers 1999 and Hyyrö 2003",
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        score=_edit_similarity,
    )


def _edit_similarity(expected: str, output: str) -> float:
    longest = max(len(expected), len(output))
    return 1 - levenshtein(expected, output) / longest if longest else 1.0


METRICS.register("EXACT_MATCH", exact_match)
METRICS.register("CONTAINS", contains)
METRICS.register("EDIT_SIMILARITY", edit_similarity)
