"""Metrics with the same value on every item are one test."""

from dataclasses import replace

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec
from mosaico.comparison.equal_metrics import find_equal_metrics
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemRow, matrix_of_rows
from mosaico.statistics.verdict_rules import Side, VerdictRule

COLUMNS = ["A", "B", "C"]


def spec(*metrics: MetricComparisonSpec) -> ComparisonSpec:
    """A and B fell in 9 of 40 items, C in one."""

    def matrix(fallen: int) -> list[ItemRow]:
        rows = []
        for item in range(40):
            value = float(item >= fallen)
            rows.append(
                ItemRow(0, f"{item:02d}", "r", [], [value, value, float(item >= fallen / 9)])
            )
        return rows

    baseline, candidate = (
        matrix_of_rows(matrix(fallen), {0: COLUMNS}, COLUMNS) for fallen in (0, 9)
    )
    return ComparisonSpec(
        run=candidate, candidate=candidate, baseline=baseline, metrics=metrics, kpis=()
    )


def metric(column: str, side: Side = Side.LOW) -> MetricComparisonSpec:
    return MetricComparisonSpec(
        column=column, rule=VerdictRule(side=side), limits=ValueRange(0.0, 1.0)
    )


def test_equal_metrics__have_one_test_and_one_verdict_also_if_one_is_judged() -> None:
    judged = replace(metric("B"), is_judged=True)
    both = spec(metric("A"), judged, metric("C"))
    assert find_equal_metrics(both) == {"A": "B"}
    result = compute(both)
    assert result.metrics["A"] == result.metrics["B"]
    # The correction counts the signal once.
    assert result.metrics["B"] == compute(spec(judged)).metrics["B"]


def test_equal_metrics__of_another_direction_are_not_the_same() -> None:
    assert find_equal_metrics(spec(metric("A"), metric("B", Side.HIGH))) == {}
