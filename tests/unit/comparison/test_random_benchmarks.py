"""Benchmarks over random data: no metric and no KPI loses its verdict, its values or its estimates."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from mosaico.comparison.baseline_comparison import compute_in_child
from mosaico.comparison.category_values import categories_of, values_by_category
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.pair_comparison import RunPair, compare
from mosaico.comparison.power import BenchmarkSize, PowerRuns, estimate_powers
from mosaico.comparison.schemas import Comparison
from mosaico.items.matrix import ItemMatrix, pair_items
from mosaico.kpis.verdict_types import ValueVerdict
from tests.support.random_benchmarks import RandomBenchmark, measure_runs, random_benchmarks

pytestmark = pytest.mark.usefixtures("plugins")
SIZES = (BenchmarkSize(None, None, 0.1), BenchmarkSize(50, 3, None))


def verdicts_of(comparison: Comparison) -> Iterator[ValueVerdict]:
    categories = comparison.categories
    for kpis in (comparison.kpis, *(category.kpis for category in categories)):
        yield from (kpi.verdict for kpi in kpis)
    for metrics in (comparison.metrics, *(category.metrics for category in categories)):
        yield from (metric.verdict for metric in metrics)


def assert_no_failure(texts: Sequence[str | None]) -> None:
    assert [text for text in texts if text and "failed: " in text] == []


# Fewer examples than other tests, and others in each run: each measures every metric and judges it in seven ways.
@settings(max_examples=settings().max_examples // 8)
@given(random_benchmarks())
def test_random_benchmark__loses_no_verdict_and_no_value(benchmark: RandomBenchmark) -> None:
    pair = measure_runs(benchmark)
    # All metrics judged together, and each KPI and metric for information.
    for judged in (pair.judged, ()):
        comparison = compare(replace(pair, judged=judged))
        assert_no_failure([verdict.reason for verdict in verdicts_of(comparison)])
        assert len(comparison.metrics) == len(benchmark.metrics)
        assert {kpi.name for kpi in comparison.kpis} == {*benchmark.kpis}
        json.loads(comparison.model_dump_json(), parse_constant=pytest.fail)
    check_stored_run(pair)
    check_estimates(pair, pair.baseline.items)
    check_estimates(pair, None)


def check_stored_run(pair: RunPair) -> None:
    """What a worker stores of a run, and what its page computes by category."""
    run = pair.candidate
    comparison = RunComparison(plan=run.plan, kpis=pair.kpis, baseline=None)
    spec = comparison.spec(run.items, pair_items(pair.baseline.items, run.items))
    values = {value.kpi.id: value.value for value in pair.kpis if value.value is not None}
    result, points = compute_in_child(spec, values)
    assert result.failures == {}
    # Those of which too few items have values in both runs have no rule, and a reason.
    assert {*result.metrics} == {metric.column for metric in spec.metrics if metric.rule}
    assert {*result.kpis} == {kpi.id for kpi in spec.kpis if kpi.rule}
    assert {metric.column for metric in spec.metrics if not metric.rule} == {*spec.lost_values}
    assert len(points.items.traces) == 4 * len(run.items.items)
    categories = categories_of([run.attributes.features], "category")
    for category in values_by_category("run-1", comparison, run.items, categories):
        assert_no_failure([metric.reason for metric in category.metrics])
        assert_no_failure([kpi.reason for kpi in category.kpis])


def check_estimates(pair: RunPair, previous: ItemMatrix | None) -> None:
    runs = PowerRuns("run-1", pair.candidate.plan, pair.candidate.items, previous)
    for size in SIZES:
        assert_no_failure([view.explanation for view in estimate_powers(runs, size)])
