"""Operational metrics: duration, cost, tokens, tools, turns and failures of a trace."""

from typing import Any

import pytest

from mosaico.metrics.engine import measure, measure_all
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import MetricRef, MetricSkipped, MetricSkipReason, Missing
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.aggregates import aggregate_run

load_metrics()

FIGURES = (
    "LATENCY_MS", "COST_USD", "INPUT_TOKENS", "OUTPUT_TOKENS", "TOTAL_TOKENS", "TOOL_CALLS",
    "TOOL_CALLS_OK", "TOOL_CALLS_ERROR", "TOOL_CALL_SUCCESS_RATE", "TURNS",
)  # fmt: skip
FAILURES = ("STATUS", "ERROR_RATE", "ERROR_COUNT")


def trace(**fields: Any) -> Trace:
    return Trace(**{"trace_id": "t", "item_id": "t", "output": "x"} | fields)


def trace_of(**fields: Any) -> Trace:
    """A trace of which every figure is known."""
    calls = (
        ToolCall(name="search", ok=True),
        ToolCall(name="search", ok=True),
        ToolCall(name="read", ok=False),
        ToolCall(name="guess"),
    )
    figures: dict[str, Any] = {
        "latency_ms": 1250.5,
        "cost_usd": 0.002,
        "input_tokens": 900,
        "output_tokens": 100,
        "tool_calls": calls,
        "turns": 3,
    }
    return trace(**figures | fields)


def measured(measured_trace: Trace, key: str) -> float | Missing:
    row = measure(measured_trace, [provider_for(MetricRef.of(key))])
    return row.missing[key] if row.values[0] is None else row.values[0]


NOT_TOLD = MetricSkipped(MetricSkipReason.NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("key", "expected_value"),
    [
        ("LATENCY_MS", 1250.5),
        ("COST_USD", 0.002),
        ("INPUT_TOKENS", 900.0),
        ("OUTPUT_TOKENS", 100.0),
        ("TOTAL_TOKENS", 1000.0),
        ("TOOL_CALLS", 4.0),
        ("TOOL_CALLS_OK", 2.0),
        ("TOOL_CALLS_ERROR", 1.0),
        ("TOOL_CALL_SUCCESS_RATE", 2 / 3),  # of the three calls whose end is known
        ("TURNS", 3.0),
    ],
)
@pytest.mark.parametrize(
    "outcome", [TraceOutcome.SCORED, TraceOutcome.AGENT_ERROR, TraceOutcome.TIMEOUT]
)
def test_operational_metric__failed_trace_keeps_its_value(
    key: str, expected_value: float, outcome: TraceOutcome
) -> None:
    assert measured(trace_of(outcome=outcome, output=None), key) == expected_value


@pytest.mark.parametrize("key", FIGURES)
@pytest.mark.parametrize("outcome", [TraceOutcome.SCORED, TraceOutcome.AGENT_ERROR])
def test_operational_metric__unknown_value_is_missing_not_zero(
    key: str, outcome: TraceOutcome
) -> None:
    assert measured(trace(outcome=outcome), key) == NOT_TOLD


def calls(*outcomes: bool | None) -> Trace:
    return trace(tool_calls=tuple(ToolCall(name="bash", ok=ok) for ok in outcomes))


def test_tool_calls_ok__calls_without_outcome_are_missing_not_zero() -> None:
    assert measured(calls(None, None), "TOOL_CALLS_OK") == NOT_TOLD
    assert measured(calls(None, None), "TOOL_CALLS_ERROR") == NOT_TOLD


def test_tool_call_success_rate__run_divides_calls_by_calls() -> None:
    """3 of 4, 1 of 1 and 0 of 5 calls: 4 of 10, where the mean of the traces is 0.583."""
    provider = provider_for(MetricRef.of("TOOL_CALL_SUCCESS_RATE"))
    traces = [calls(True, True, True, False, None), calls(True), calls(*[False] * 5), calls(None)]
    column = measure_all(traces, [MetricRef.of("TOOL_CALL_SUCCESS_RATE")])
    values = [row.values[0] for row in column]
    assert values == [0.75, 1.0, 0.0, None]
    statistics = aggregate_run(provider, values, traces)
    # The percentiles are those of the traces: 0, 0.75 and 1.
    assert (statistics.mean, statistics.n, statistics.p50) == (0.4, 3, 0.75)


def test_total_tokens__unknown_part_makes_the_total_unknown() -> None:
    assert measured(trace(input_tokens=5), "TOTAL_TOKENS") == NOT_TOLD
    assert measured(trace(output_tokens=5), "TOTAL_TOKENS") == NOT_TOLD


@pytest.mark.parametrize("key", [*FIGURES, *FAILURES])
@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (TraceOutcome.INFRA_ERROR, MetricSkipReason.INFRA_ERROR),
        (TraceOutcome.JUDGE_ERROR, MetricSkipReason.JUDGE_ERROR),
    ],
)
def test_operational_metric__infrastructure_and_judge_errors_are_skipped(
    key: str, outcome: TraceOutcome, reason: MetricSkipReason
) -> None:
    assert measured(trace_of(outcome=outcome), key) == MetricSkipped(reason)


@pytest.mark.parametrize(
    ("outcome", "status", "rate"),
    [
        (TraceOutcome.SCORED, 1.0, 0.0),
        (TraceOutcome.AGENT_ERROR, 0.0, 1.0),
        (TraceOutcome.TIMEOUT, 0.0, 1.0),
    ],
)
def test_status_and_error_rate__depend_on_the_outcome(
    outcome: TraceOutcome, status: float, rate: float
) -> None:
    assert measured(trace(outcome=outcome), "STATUS") == status
    assert measured(trace(outcome=outcome), "ERROR_RATE") == rate
