"""Operational metrics: latency, cost, tokens, tool calls and turns, also of failed traces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaico.metrics.registry import METRICS
from mosaico.metrics.types import Direction, MetricFactory, MetricProvider, MetricSpec, Summary
from mosaico.traces.types import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SOURCE = "the trace itself"
# The name of the one row of counts of TOOL_CALL_SUCCESS_RATE.
_CALLS: Final = "calls"


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
    direction: Direction = Direction.LOWER_IS_BETTER,
) -> MetricFactory:
    """A factory of a metric that reads one non-negative number of a trace."""
    spec = MetricSpec(
        key=key,
        description=description,
        source=SOURCE,
        unit=unit,
        maximum=None,
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


def _known_outcomes(trace: Trace) -> list[bool]:
    return [call.ok for call in trace.tool_calls or () if call.ok is not None]


def _count_outcomes(trace: Trace, *, ok: bool) -> int | None:
    """The calls with this outcome; None when the source reports calls without their outcome."""
    if trace.tool_calls is None:
        return None
    outcomes = _known_outcomes(trace)
    return outcomes.count(ok) if outcomes or not trace.tool_calls else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSuccessRate:
    """Successful calls as a share of all calls with a known outcome, of a trace and of a run.

    Provides `MetricProvider` and `CountedMetric`: a run adds up its calls, so that a trace with many
    calls has more weight. A summary is `{"calls": [successful, known]}`.
    """

    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return bool(_known_outcomes(trace))

    def compute(self, trace: Trace) -> float:
        outcomes = _known_outcomes(trace)
        return sum(outcomes) / len(outcomes)

    def summarize(self, traces: Sequence[Trace]) -> Summary:
        outcomes = [ok for trace in traces for ok in _known_outcomes(trace)]
        return {_CALLS: [sum(outcomes), len(outcomes)]}

    def merge(self, first: Summary, second: Summary) -> Summary:
        return {_CALLS: [sum(pair) for pair in zip(first[_CALLS], second[_CALLS], strict=True)]}

    def run_value(self, summary: Summary) -> float | None:
        successful, total = summary[_CALLS]
        return successful / total if total else None

    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        # numpy takes long to import, and processes that answer requests load this module, too.
        import numpy as np

        successful, total = np.moveaxis(counts[:, names.index(_CALLS)], -1, 0)
        shares: NDArray[np.float64] = np.divide(
            successful, total, out=np.full(total.shape, np.nan), where=total > 0
        )
        return shares


def _tool_call_success_rate() -> MetricProvider:
    return ToolCallSuccessRate(
        spec=MetricSpec(
            key="TOOL_CALL_SUCCESS_RATE",
            description="Successful tool calls as a share of all tool calls",
            source="spec 013 of bashkit",
            version="2",
            measures_failures=True,
        )
    )


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
    "TOOL_CALLS_OK",
    figure_metric(
        "TOOL_CALLS_OK",
        "Number of successful tool calls",
        "calls",
        lambda trace: _count_outcomes(trace, ok=True),
        direction=Direction.NEITHER,
    ),
)
METRICS.register(
    "TOOL_CALLS_ERROR",
    figure_metric(
        "TOOL_CALLS_ERROR",
        "Number of failed tool calls",
        "calls",
        lambda trace: _count_outcomes(trace, ok=False),
    ),
)
METRICS.register("TOOL_CALL_SUCCESS_RATE", _tool_call_success_rate)
METRICS.register(
    "TURNS",
    figure_metric(
        "TURNS", "Number of model calls of the agent", "turns", lambda trace: trace.turns
    ),
)
