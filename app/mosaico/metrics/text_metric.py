"""Bases of the metrics that compare an output with the expected text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mosaico.metrics.pair_overlap import PairOverlap, overlap_of, texts_of
from mosaico.metrics.types import MetricSpec, Need
from mosaico.traces.types import Trace

C = TypeVar("C")

BOTH_TEXTS = frozenset({Need.EXPECTED_OUTPUT, Need.OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMetric:
    """A metric of two texts; `score` gets the expected one first. Provides `MetricProvider`."""

    spec: MetricSpec
    score: Callable[[str, str], float]

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def compute(self, trace: Trace) -> float:
        """The score of the texts of a trace. Raises ValueError when one is missing."""
        return self.score(*texts_of(trace))


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapMetric(Generic[C]):
    """A metric that is a function of counts: of one pair of texts, or of many at once.

    Provides `MetricProvider` and `BatchMetric`.
    """

    spec: MetricSpec
    count: Callable[[str, str], C]
    count_all: Callable[[PairOverlap], Sequence[C]]
    value: Callable[[C], float]

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def compute(self, trace: Trace) -> float:
        """The value of the texts of a trace. Raises ValueError when one is missing."""
        return self.value(self.count(*texts_of(trace)))

    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]:
        return list(map(self.value, self.count_all(overlap_of(traces))))
