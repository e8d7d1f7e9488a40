"""TASK_SCORE, TASK_PASSED and NATURAL_STOP: results of the bash harness."""

from dataclasses import dataclass

from mosaico.metrics.registry import METRICS
from mosaico.metrics.types import MetricFactory, MetricProvider, MetricSpec
from mosaico.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScoreMetric:
    """A score that the harness stored in the trace, also after a timeout.

    Traces that were not checked are skipped; a trace on which the agent failed did not pass its task.
    """

    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return self.spec.key in trace.scores

    def compute(self, trace: Trace) -> float:
        return trace.scores[self.spec.key]


def _figure(key: str, description: str) -> MetricFactory:
    spec = MetricSpec(
        key=key,
        description=description,
        source="spec 013 of bashkit",
        version="2",
        worst=0.0,
        measures_failures=True,
        is_delivered=True,
    )

    def factory() -> MetricProvider:
        return TaskScoreMetric(spec=spec)

    return factory


METRICS.register(
    "TASK_SCORE",
    _figure("TASK_SCORE", "Passed checks of the task, as a share of the weight of all"),
)
METRICS.register(
    "TASK_PASSED",
    _figure(
        "TASK_PASSED", "1 when every check of the task passed, else 0; the mean is the pass rate"
    ),
)
METRICS.register(
    "NATURAL_STOP",
    _figure("NATURAL_STOP", "1 when the model ended the task itself, 0 when a limit ended it"),
)
