"""The series of a run has the levels that verdicts compare."""

import math

import numpy as np
import pytest

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.series_levels import merge_runs, points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.matrix import ItemMatrix
from mosaico.run_store.run_series import (
    ItemIndex,
    RunPoints,
    SeriesPoint,
    SeriesValues,
    kpi_series,
    metric_series,
)
from mosaico.statistics.verdict_rules import Scale, Side, VerdictRule
from tests.support.simulated_runs import Design, draw_pair

RULE = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
COST = ValueRange(0.0, None)
FORMULA = "1000 * PRICE"


def spec_of(run: ItemMatrix, baseline: ItemMatrix) -> ComparisonSpec:
    return ComparisonSpec(
        run=run,
        candidate=run,
        baseline=baseline,
        metrics=[MetricComparisonSpec(column="PRICE", rule=RULE, limits=COST)],
        kpis=[
            KpiComparisonSpec(
                id="cost",
                formula=FORMULA,
                is_judged=False,
                rule=RULE,
                limits=COST,
                line=line_of(compile_formula(FORMULA)),
            )
        ],
    )


@pytest.mark.parametrize("series", [metric_series("PRICE"), kpi_series("cost")])
def test_points_of_run__ratio_between_levels_is_that_of_the_verdict(series: str) -> None:
    pair = draw_pair(Design(items=20, trials=3), np.random.default_rng(3), factor=1.3)
    spec = spec_of(pair.candidate, pair.baseline)
    result = compute(spec)
    effect = {
        metric_series("PRICE"): result.metrics["PRICE"],
        kpi_series("cost"): result.kpis["cost"],
    }[series].effect
    assert effect is not None
    before, after = (
        points_of_run(spec_of(run, run), {}, ValueFailures()).series[series]
        for run in (pair.baseline, pair.candidate)
    )
    assert after.level - before.level == pytest.approx(math.log1p(effect))
    for point in (before, after):
        assert mean_of_items(point) == pytest.approx(point.level, rel=1e-5)


def mean_of_items(point: SeriesPoint) -> float:
    """The mean of the values by item, from which the levels of several runs are fitted."""
    assert point.item_values is not None
    return float(np.frombuffer(point.item_values, dtype="<f4").mean())


def item_index(keys: list[int], traces: int) -> ItemIndex:
    counts = np.full(len(keys), traces, "<i4")
    return ItemIndex(np.array(keys, "<i8").tobytes(), counts.tobytes())


def item_values(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


def test_merge_runs__each_item_has_the_mean_of_the_traces_of_both() -> None:
    nan = math.nan
    run = [
        SeriesValues("metric/BOTH", 7, Scale.RATE, 0.5, item_values(1, 0, nan)),
        SeriesValues("metric/RUN", 7, Scale.RATE, 2 / 3, item_values(0, 1, 1)),
        SeriesValues("kpi/sum", 7, Scale.NUMBER, 0.4, None),
        SeriesValues("kpi/run", 7, Scale.NUMBER, 0.4, None),
    ]
    repetition = RunPoints(
        items=item_index([2, 3, 4], traces=2),
        series={
            "metric/BOTH": SeriesPoint(Scale.RATE, Side.LOW, 5 / 6, item_values(0.5, 1, 1)),
            "kpi/sum": SeriesPoint(Scale.NUMBER, Side.LOW, 0.6),
        },
    )
    items, merged = merge_runs(item_index([1, 2, 3], traces=1), run, repetition)
    assert list(np.frombuffer(items.keys, "<i8")) == [1, 2, 3, 4]
    assert list(np.frombuffer(items.traces, "<i4")) == [1, 3, 3, 2]
    by_series = {value.series: value for value in merged}
    both, alone = (by_series[f"metric/{name}"] for name in ("BOTH", "RUN"))
    assert both.item_values is not None
    # Item 2 has 0 in one trace and 0.5 in two, (0 + 2 · 0.5) / 3;
    # item 3 has values in the repetition only.
    assert np.frombuffer(both.item_values, "<f4") == pytest.approx([1, 1 / 3, 1, 1])
    # The mean of the items, (1 + 1/3 + 1 + 1) / 4, and not of the traces.
    assert both.level == pytest.approx(10 / 12)
    # The repetition has no such values: the items of the run stay in their places.
    assert alone.item_values is not None
    assert np.frombuffer(alone.item_values, "<f4") == pytest.approx([0, 1, 1, nan], nan_ok=True)
    assert alone.level == pytest.approx(2 / 3)
    without_items = [by_series[f"kpi/{name}"] for name in ("sum", "run")]
    # Without items, both runs count as much.
    assert [value.level for value in without_items] == pytest.approx([0.5, 0.4])
    assert [value.item_values for value in without_items] == [None, None]
