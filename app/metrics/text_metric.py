"""Metrics that hold an output against the expected text, in one form for all of their files."""

from collections.abc import Callable
from dataclasses import dataclass

from app.metrics.types import MetricSpec, Need
from app.traces.types import Trace

BOTH_TEXTS = frozenset({Need.EXPECTED_OUTPUT, Need.OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMetric:
    """A metric of two texts; `score` takes the expected one first. Provides `MetricProvider`."""

    spec: MetricSpec
    score: Callable[[str, str], float]

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def compute(self, trace: Trace) -> float:
        """The score of the trace's texts; it must have both."""
        if trace.expected_output is None or trace.output is None:
            raise ValueError(f"{self.spec.key} needs an expected and an actual output")
        return self.score(trace.expected_output, trace.output)
