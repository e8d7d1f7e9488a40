"""STATUS, ERROR_RATE and ERROR_COUNT: failures of the agent and of its tool calls."""

from collections.abc import Callable
from dataclasses import dataclass

from mosaico.metrics.registry import METRICS
from mosaico.metrics.types import Direction, MetricProvider, MetricSpec
from mosaico.traces.types import Trace

SOURCE = "the outcome of the trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMetric:
    """A metric of the outcome of a trace; traces with infrastructure or judge errors are skipped."""

    spec: MetricSpec
    read: Callable[[Trace], float]

    def supports(self, trace: Trace) -> bool:
        return not trace.outcome.is_missing

    def compute(self, trace: Trace) -> float:
        return self.read(trace)


def status() -> MetricProvider:
    """1 when the agent answered, 0 when it failed; `STATUS == 1` is true for a run without failures."""
    return OutcomeMetric(
        spec=MetricSpec(
            key="STATUS",
            description="1 when the agent answered, 0 when it failed",
            source=SOURCE,
            worst=0.0,
        ),
        read=lambda trace: float(not trace.outcome.is_agent_failure),
    )


def error_rate() -> MetricProvider:
    """0 when the agent answered, 1 when it failed; the mean is the share of failures."""
    return OutcomeMetric(
        spec=MetricSpec(
            key="ERROR_RATE",
            description="1 when the agent failed, else 0; its mean is the share of failures",
            source=SOURCE,
            direction=Direction.LOWER_IS_BETTER,
            worst=1.0,
        ),
        read=lambda trace: float(trace.outcome.is_agent_failure),
    )


def error_count() -> MetricProvider:
    """The number of errors of a trace: that of the agent, and each failed tool call."""
    return OutcomeMetric(
        spec=MetricSpec(
            key="ERROR_COUNT",
            description="Errors of the trace: that of the agent, and each failed tool call",
            source=SOURCE,
            unit="errors",
            maximum=None,
            direction=Direction.LOWER_IS_BETTER,
            measures_failures=True,
        ),
        read=_error_count,
    )


def _error_count(trace: Trace) -> float:
    failed_calls = sum(call.ok is False for call in trace.tool_calls or ())
    return float(trace.outcome.is_agent_failure + failed_calls)


METRICS.register("STATUS", status)
METRICS.register("ERROR_RATE", error_rate)
METRICS.register("ERROR_COUNT", error_count)
