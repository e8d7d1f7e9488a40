"""SCORE: scores that the source delivered with the traces."""

import json
from dataclasses import dataclass

from app.metrics.registry import METRICS
from app.metrics.types import Direction, MetricProvider, MetricSpec
from app.traces.types import Trace


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score by name; a trace without it is skipped."""

    name: str
    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return self.name in trace.scores

    def compute(self, trace: Trace) -> float:
        return trace.scores[self.name]


def score(*, name: str = "") -> MetricProvider:
    spec = MetricSpec(
        key=f"SCORE[{json.dumps(name, ensure_ascii=False)}]",
        description="A score that was delivered with the trace, by its name (option `name`).",
        source="the trace itself",
        unit="score",
        minimum=None,
        maximum=None,
        direction=Direction.NEITHER,
    )
    return TraceScore(name, spec)


METRICS.register("SCORE", score)
