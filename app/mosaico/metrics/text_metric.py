"""Base of the metrics that compare an output with the expected text."""

from collections.abc import Callable
from dataclasses import dataclass

from mosaico.metrics.types import MetricSpec, Need
from mosaico.traces.types import Trace

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
        if trace.expected_output is None or trace.output is None:
            raise ValueError(f"{self.spec.key} needs an expected and an actual output")
        return self.score(trace.expected_output, trace.output)
