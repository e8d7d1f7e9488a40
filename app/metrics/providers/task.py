"""How well a task in a sandbox was done, as the harness that ran it has checked."""

from dataclasses import dataclass

from app.metrics.registry import METRICS
from app.metrics.types import MetricFactory, MetricProvider, MetricSpec
from app.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScoreMetric:
    """What the harness found of an attempt, one that ran out of time included; a trace of another
    origin, or one that could not be checked, is skipped.
    """

    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return self.spec.key in trace.scores

    def compute(self, trace: Trace) -> float:
        return trace.scores[self.spec.key]


def _figure(key: str, description: str) -> MetricFactory:
    spec = MetricSpec(
        key=key, description=description, source="spec 013 of bashkit", measures_failures=True
    )

    def factory() -> MetricProvider:
        return TaskScoreMetric(spec=spec)

    return factory


METRICS.register(
    "TASK_SCORE", _figure("TASK_SCORE", "Share of the weight of a task's checks that were met")
)
METRICS.register(
    "TASK_PASSED",
    _figure("TASK_PASSED", "1 when every check of the task was met, else 0; its mean is the rate"),
)
METRICS.register(
    "NATURAL_STOP",
    _figure("NATURAL_STOP", "1 when the model ended the task by itself, 0 at a limit"),
)
