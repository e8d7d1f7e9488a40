"""Metrics over the traces with certain tags."""

import pytest

from mosaico.metrics.aggregate import missing_counts
from mosaico.metrics.engine import measure, measure_all
from mosaico.metrics.registry import (
    column_of,
    load_metrics,
    names_of,
    provider_for,
    ref_of_column,
)
from mosaico.metrics.types import (
    BatchMetric,
    CountedMetric,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    RemoteMetric,
    RunMetric,
)
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.aggregates import aggregate_run

load_metrics()

GERMAN = 'EXACT_MATCH{lang="de"}'
NOT_SELECTED = MetricSkipped(MetricSkipReason.NOT_SELECTED)


def trace(trace_id: str, output: str | None, *tags: str, **more: object) -> Trace:
    fields = {"expected_output": "a", "output": output, "tags": tags, **more}
    return Trace(trace_id=trace_id, item_id=trace_id, **fields)  # type: ignore[arg-type]


TRACES = [
    trace("1", "a", "lang:de", "kind:x"),
    trace("2", "b", "lang:de"),
    trace("3", "a", "lang:en"),
    trace("4", None, "lang:de", outcome=TraceOutcome.AGENT_ERROR),
    trace("5", None, "lang:en", outcome=TraceOutcome.AGENT_ERROR),
    trace("6", None, outcome=TraceOutcome.INFRA_ERROR),
]


def test_filtered_metric__is_missing_outside_of_its_tags() -> None:
    rows = list(measure_all(TRACES, [ref_of_column(GERMAN)]))
    assert [row.values[0] for row in rows] == [1.0, 0.0, None, 0.0, None, None]
    # Neither the failure of trace 5 nor the error of trace 6 is one of the German traces.
    assert [rows[index].missing[GERMAN] for index in (2, 4)] == [NOT_SELECTED] * 2
    assert rows[5].missing[GERMAN] == NOT_SELECTED


def test_filtered_metric__several_tags_must_all_be_there() -> None:
    column = 'EXACT_MATCH{kind="x", lang="de"}'
    rows = measure_all(TRACES, [ref_of_column(column)])
    assert [row.values[0] for row in rows] == [1.0, None, None, None, None, None]


def test_filtered_metric__coverage_is_that_of_its_traces() -> None:
    ref = ref_of_column(GERMAN)
    rows = list(measure_all(TRACES, [ref]))
    column = [row.values[0] for row in rows]
    statistics = aggregate_run(
        provider_for(ref), column, TRACES, missing=missing_counts(rows, GERMAN)
    )
    assert (statistics.mean, statistics.n, statistics.expected) == (1 / 3, 3, 3)
    assert (statistics.coverage, statistics.missing) == (1.0, {})


def test_filtered_metric__value_of_the_run_is_that_of_its_traces() -> None:
    column = 'TOOL_CALL_SUCCESS_RATE{lang="de"}'
    ref = ref_of_column(column)

    def calls(*outcomes: bool) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(name="bash", ok=ok) for ok in outcomes)

    traces = [
        trace("1", "a", "lang:de", tool_calls=calls(True, True, False)),
        trace("2", "a", "lang:de", tool_calls=calls(True)),
        trace("3", "a", "lang:en", tool_calls=calls(False, False, False)),
    ]
    rows = list(measure_all(traces, [ref]))
    values = [row.values[0] for row in rows]
    assert aggregate_run(provider_for(ref), values, traces).mean == 3 / 4


@pytest.mark.parametrize(
    ("column", "kinds"),
    [
        ("EXACT_MATCH", set()),
        ("TOOL_CALL_SUCCESS_RATE", {RunMetric, CountedMetric}),
        ("LLM_JUDGE", {RemoteMetric}),
    ],
)
def test_filtered_metric__has_the_further_methods_of_its_metric(
    column: str, kinds: set[type]
) -> None:
    provider = provider_for(ref_of_column(f'{column}{{lang="de"}}'))
    protocols = (BatchMetric, RunMetric, CountedMetric, RemoteMetric)
    assert {protocol for protocol in protocols if isinstance(provider, protocol)} == kinds
    assert provider.spec.key == f'{column}{{lang="de"}}'
    assert provider.spec.tags == ("lang:de",)


def test_filtered_metric__keeps_options_and_aliases() -> None:
    ref = MetricRef.of('F1_SCORE{lang="de"}', {"labels": "macro"})
    assert isinstance(provider_for(ref), CountedMetric)
    assert column_of('LATENCY{tag="smoke"}') == 'LATENCY_MS{tag="smoke"}'
    assert ref_of_column('SCORE["x"]{lang="de"}') == MetricRef.of('SCORE{lang="de"}', {"name": "x"})
    assert "EXACT_MATCH" in names_of([ref_of_column(GERMAN)])


def test_filtered_metric__score_is_read_by_its_own_name() -> None:
    provider = provider_for(ref_of_column('TASK_PASSED{category="text"}'))
    solved = trace("1", "a", "category:text", scores={"TASK_PASSED": 1.0})
    assert measure(solved, [provider]).values == (1.0,)
