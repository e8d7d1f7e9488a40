"""The points of a run, and the levels of a series from them."""

import math
from array import array
from dataclasses import replace

import numpy as np
import pytest

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.series_levels import levels_by_run, levels_of_points, points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.matrix import ItemMatrix
from mosaico.run_store.series_points import (
    ItemIndex,
    SeriesPoint,
    StoredPoint,
    kpi_series,
    metric_series,
)
from mosaico.statistics.run_levels import FloatArray
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
                is_amount=True,
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


def kpi_point(formula: str, limits: ValueRange, *, is_amount: bool) -> SeriesPoint:
    """The point of a KPI of PRICE with a minimum effect, whose rule has the scale of its unit: RATE."""
    matrix = ItemMatrix(
        items=["a", "b"],
        revisions=["", ""],
        item_index=array("l", [0, 1]),
        run_index=array("l", [0, 0]),
        values={"PRICE": array("d", [0.25, 0.75])},
    )
    kpi = KpiComparisonSpec(
        id="kpi",
        formula=formula,
        is_judged=True,
        rule=VerdictRule(side=Side.HIGH, min_effect=0.1),
        limits=limits,
        line=line_of(compile_formula(formula)),
        is_amount=is_amount,
    )
    spec = replace(spec_of(matrix, matrix), kpis=[kpi])
    return points_of_run(spec, {}, ValueFailures()).series[kpi_series("kpi")]


def test_kpi_with_a_minimum_effect__has_the_scale_of_its_values() -> None:
    share = ValueRange(0.0, 1.0)
    assert kpi_point("PRICE", share, is_amount=False).scale is Scale.RATE
    # A percentage varies by more than 0.015 percent.
    percentage = kpi_point("100 * PRICE", share, is_amount=False)
    assert (percentage.scale, percentage.level) == (Scale.NUMBER, 50.0)
    assert kpi_point("1 - PRICE", share, is_amount=False).scale is Scale.RATE
    cost = kpi_point("1000 * PRICE", COST, is_amount=True)
    assert cost.scale is Scale.RATIO
    assert cost.level == pytest.approx(math.log(500))
    # It may be below 0.
    assert kpi_point("PRICE - 2", COST, is_amount=True).scale is Scale.NUMBER
    assert kpi_point("PRICE", COST, is_amount=False).scale is Scale.NUMBER


def test_levels_of_points__of_a_kpi_that_was_no_logarithm_are_logarithms() -> None:
    index = ItemIndex(np.arange(2, dtype="<i8").tobytes(), np.ones(2, "<i4").tobytes())
    newest = kpi_point("PRICE", COST, is_amount=True)
    plain = kpi_point("PRICE", COST, is_amount=False)
    points = [
        StoredPoint(run, point.scale, point.level, point.item_values, index)
        for run, point in enumerate((plain, newest), 1)
    ]
    levels = levels_of_points(points)
    assert levels[1].level == pytest.approx(levels[2].level)
    # Negative values have no logarithm, and logarithms are not read as values.
    assert [*levels_of_points([points[0]._replace(level=-1.0), points[1]])] == [2]
    assert [*levels_of_points(points[::-1])] == [1]


KEYS = np.arange(40, dtype="<i8").tobytes()
TRACES = np.ones(40, "<i4").tobytes()


def cost_point(run: int, costs: FloatArray) -> StoredPoint:
    """A stored point of 40 costs, as `points_of_run` makes it."""
    matrix = ItemMatrix(
        items=[f"i{item:02}" for item in range(40)],
        revisions=[""] * 40,
        item_index=array("l", range(40)),
        run_index=array("l", [0] * 40),
        values={"PRICE": array("d", costs)},
    )
    point = points_of_run(spec_of(matrix, matrix), {}, ValueFailures()).series["metric/PRICE"]
    return StoredPoint(run, point.scale, point.level, point.item_values, ItemIndex(KEYS, TRACES))


def costs_of(*expensive: float) -> FloatArray:
    return np.array([*expensive, *np.linspace(0.5, 2.0, 40 - len(expensive))])


def test_levels_of_points__of_costs_change_by_the_mean_of_logarithms() -> None:
    before, after = costs_of(1.0), costs_of(50.0)
    levels = levels_of_points([cost_point(1, before), cost_point(2, after)])
    # One item of 40 costs 50 times as much: the mean doubles, a typical item costs a tenth more.
    change = levels[2].level - levels[1].level
    assert change == pytest.approx(math.log(50) / 40, rel=1e-4)
    assert math.log(after.mean() / before.mean()) > 6 * change
    # Levels are of the size of the values that people see.
    means = [level.level for level in levels.values()]
    assert sum(means) == pytest.approx(math.log(before.mean()) + math.log(after.mean()), rel=1e-4)
    assert all(level.is_typical for level in levels.values())


def test_levels_of_points__an_item_that_costs_nothing_counts_as_half_of_the_smallest() -> None:
    before, after = costs_of(0.8), costs_of(0.0)
    levels = levels_of_points([cost_point(1, before), cost_point(2, after)])
    assert levels[2].level - levels[1].level == pytest.approx(math.log(0.25 / 0.8) / 40, rel=1e-4)


def test_levels_of_points__missing_costs_are_not_zero() -> None:
    before, after = costs_of(0.8), costs_of(math.nan)
    levels = levels_of_points([cost_point(1, before), cost_point(2, after)])
    assert levels[2].level == pytest.approx(levels[1].level, abs=1e-4)


def number_point(run: int, items: range, failing: int) -> StoredPoint:
    """A stored point of a rate, of whose items one fails."""
    values = np.array([0.0 if item == failing else 1.0 for item in items], "<f4")
    keys, traces = np.array(items, "<i8"), np.ones(len(items), "<i4")
    index = ItemIndex(keys.tobytes(), traces.tobytes())
    return StoredPoint(run, "RATE", float(values.mean()), values.tobytes(), index)


@pytest.fixture
def drifting() -> list[StoredPoint]:
    """Five runs: the third has a new item, and the last two share theirs."""
    items = (range(10), range(10), range(1, 11), range(2, 12), range(2, 12))
    return [number_point(run, keys, failing=4 + run % 3) for run, keys in enumerate(items, start=1)]


def test_levels_by_run__are_those_on_the_items_of_each_run(drifting: list[StoredPoint]) -> None:
    levels = levels_by_run(drifting)
    for number, point in enumerate(drifting, start=1):
        live = levels_of_points(drifting[:number])
        assert {run: levels[point.run_seq][run] for run in live} == live


def test_levels_by_run__runs_on_the_same_items_share_a_fit(drifting: list[StoredPoint]) -> None:
    levels = levels_by_run(drifting)
    assert [levels[run] is levels[run + 1] for run in (1, 2, 3, 4)] == [True, False, False, True]
    # From a run on; and with more values than allowed the oldest runs share one, too.
    assert levels_by_run(drifting, first=3).keys() == {4, 5}
    few = levels_by_run(drifting, max_values=1)
    assert [few[run] is few[run + 1] for run in (1, 2, 3, 4)] == [True, True, False, True]
    assert few[5] == levels[5]
    assert levels_by_run([]) == {}
