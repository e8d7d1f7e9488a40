"""Operational metrics: latency, cost, tokens, tool calls and turns, also of failed traces."""

from collections.abc import Callable
from dataclasses import dataclass

from app.metrics.registry import METRICS
from app.metrics.types import Direction, MetricFactory, MetricProvider, MetricSpec
from app.traces.types import Trace

SOURCE = "the trace itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFigure:
    """A number of the trace; skipped when its source does not report it, never read as zero."""

    spec: MetricSpec
    read: Callable[[Trace], float | None]

    def supports(self, trace: Trace) -> bool:
        return self.read(trace) is not None

    def compute(self, trace: Trace) -> float:
        figure = self.read(trace)
        if figure is None:
            raise ValueError(f"the trace has no {self.spec.key}")
        return figure


def figure_metric(
    key: str,
    description: str,
    unit: str,
    read: Callable[[Trace], float | None],
    *,
    maximum: float | None = None,
    direction: Direction = Direction.LOWER_IS_BETTER,
) -> MetricFactory:
    """A factory of a metric that reads one non-negative number of a trace."""
    spec = MetricSpec(
        key=key,
        description=description,
        source=SOURCE,
        unit=unit,
        maximum=maximum,
        direction=direction,
        measures_failures=True,
    )

    def factory() -> MetricProvider:
        return TraceFigure(spec=spec, read=read)

    return factory


def _total_tokens(trace: Trace) -> int | None:
    if trace.input_tokens is None or trace.output_tokens is None:
        return None
    return trace.input_tokens + trace.output_tokens


def _tool_calls(trace: Trace) -> int | None:
    return None if trace.tool_calls is None else len(trace.tool_calls)


def _tool_call_success_rate(trace: Trace) -> float | None:
    outcomes = [call.ok for call in trace.tool_calls or () if call.ok is not None]
    return sum(outcomes) / len(outcomes) if outcomes else None


METRICS.register(
    "LATENCY_MS",
    figure_metric("LATENCY_MS", "Time from input to answer", "ms", lambda trace: trace.latency_ms),
    aliases=["LATENCY"],
)
METRICS.register(
    "COST_USD",
    figure_metric(
        "COST_USD", "Cost of the agent's model calls", "USD", lambda trace: trace.cost_usd
    ),
)
METRICS.register(
    "INPUT_TOKENS",
    figure_metric(
        "INPUT_TOKENS",
        "Input tokens of the agent's model",
        "tokens",
        lambda trace: trace.input_tokens,
    ),
)
METRICS.register(
    "OUTPUT_TOKENS",
    figure_metric(
        "OUTPUT_TOKENS",
        "Output tokens of the agent's model",
        "tokens",
        lambda trace: trace.output_tokens,
    ),
)
METRICS.register(
    "TOTAL_TOKENS",
    figure_metric("TOTAL_TOKENS", "Sum of INPUT_TOKENS and OUTPUT_TOKENS", "tokens", _total_tokens),
)
METRICS.register(
    "TOOL_CALLS",
    figure_metric(
        "TOOL_CALLS",
        "Number of tool calls of the agent",
        "calls",
        _tool_calls,
        direction=Direction.NEITHER,
    ),
)
METRICS.register(
    "TOOL_CALL_SUCCESS_RATE",
    figure_metric(
        "TOOL_CALL_SUCCESS_RATE",
        "Share of successful tool calls",
        "ratio",
        _tool_call_success_rate,
        maximum=1.0,
        direction=Direction.HIGHER_IS_BETTER,
    ),
)
METRICS.register(
    "TURNS",
    figure_metric(
        "TURNS", "Number of model calls of the agent", "turns", lambda trace: trace.turns
    ),
)
