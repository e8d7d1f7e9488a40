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
from mosaico.comparison.series_levels import points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.matrix import ItemMatrix
from mosaico.run_store.run_series import (
    SeriesPoint,
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
