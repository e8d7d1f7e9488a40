"""Computed comparisons: KPIs are compared on the items with a value in both runs."""

import json
import math
from collections.abc import Sequence

import pytest

from app.comparison.child_computation import compute
from app.comparison.comparison_spec import (
    ComparisonResult,
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from app.comparison.item_matrix import ItemMatrix, ItemRow, matrix_of_rows
from app.comparison.verdict_text import render_verdict
from app.statistics.verdict_rules import ChangeVerdict, Note, Scale, Side, Verdict, VerdictRule

RULE = VerdictRule(side=Side.LOW)
SUM = "WEIGHTED_SUM(A:0.5, B:0.5)"


def run(values: Sequence[float | None], other: Sequence[float | None] | None = None) -> ItemMatrix:
    """Items with a metric A and a metric B, which is 1 throughout unless it is named."""
    second = other or [1.0] * len(values)
    rows = [
        ItemRow(0, f"{index:03d}", "r", [], [a, b])
        for index, (a, b) in enumerate(zip(values, second, strict=True))
    ]
    return matrix_of_rows(rows, {0: ["A", "B"]}, ["A", "B"])


def found(
    base: ItemMatrix, candidate: ItemMatrix, formula: str, *, paired: bool = True
) -> ComparisonResult:
    return compute(
        ComparisonSpec(
            run=candidate,
            candidate=candidate,
            baseline=base,
            is_paired=paired,
            metrics=[
                MetricComparisonSpec(column=name, scale=Scale.RATE, rule=RULE) for name in "AB"
            ],
            kpis=[
                KpiComparisonSpec(id="k", formula=formula, column=None, is_gate=False, rule=RULE)
            ],
        )
    )


def judged(
    base: ItemMatrix, candidate: ItemMatrix, formula: str, *, paired: bool = True
) -> ChangeVerdict:
    return found(base, candidate, formula, paired=paired).kpis["k"]


@pytest.mark.parametrize("formula", [SUM, "A * 2 - A", "A.p50", "MIN(A, B)", "COALESCE(A, B)"])
@pytest.mark.parametrize("paired", [True, False])
def test_kpi__with_fewer_than_five_items_is_inconclusive(formula: str, *, paired: bool) -> None:
    before = run([0.9, 0.9, 0.9] + [None] * 37)
    after = run([0.1, 0.11, 0.12] + [None] * 37)
    kpi = judged(before, after, formula, paired=paired)
    assert (kpi.verdict, kpi.n_items) == (Verdict.INCONCLUSIVE, 3)
    assert Note.FEW_ITEMS in kpi.notes


def test_kpi__item_without_the_metric_in_one_run_is_left_out() -> None:
    # The ten easy items of the baseline lost their value: what is left is as it was.
    hard = [0.1, 0.2, 0.3, 0.2, 0.1, 0.3] * 5
    before, after = run([*[1.0] * 10, *hard]), run([*[None] * 10, *hard])
    kpi = judged(before, after, SUM)
    assert (kpi.baseline_value, kpi.effect) == (kpi.value, 0)
    assert kpi.value == pytest.approx(0.6)
    assert kpi.n_items == 30
    assert kpi.verdict is Verdict.NO_EVIDENCE


def test_kpi__combines_items_of_different_metrics() -> None:
    # Half of the items are measured by A, the other half by B, as where two kinds of tasks are mixed.
    first, other = [0.9, 0.8] * 10 + [None] * 20, [None] * 20 + [0.9, 0.8] * 10
    low = [0.4, 0.2] * 10 + [None] * 20
    kpi = judged(run([*first], [*other]), run([*low], [*other]), SUM)
    assert (kpi.verdict, kpi.n_items) == (Verdict.REGRESSED, 20)


def test_kpi__coverage_is_over_all_items() -> None:
    kpi = judged(run([1.0] * 40), run([1.0] * 30 + [None] * 10), "A.coverage")
    assert (kpi.baseline_value, kpi.value, kpi.n_items) == (1.0, 0.75, 40)
    assert kpi.verdict is Verdict.REGRESSED


@pytest.mark.parametrize("large", [1e155, 1e307, 1.7e308])
@pytest.mark.parametrize("scale", list(Scale))
@pytest.mark.parametrize("paired", [True, False])
def test_compute__overflowed_numbers_are_left_out(
    large: float, scale: Scale, *, paired: bool
) -> None:
    before, after = (
        run([large * (1 - index / 50) for index in range(20)]),
        run([-large, large] * 10),
    )
    rule = VerdictRule(side=Side.LOW, scale=scale)
    for base, candidate in ((before, after), (after, before), (before, before)):
        result = compute(
            ComparisonSpec(
                run=candidate,
                candidate=candidate,
                baseline=base,
                is_paired=paired,
                metrics=[MetricComparisonSpec(column="A", scale=scale, rule=rule)],
                kpis=[
                    KpiComparisonSpec(id=text, formula=text, column=None, is_gate=False, rule=rule)
                    for text in ("A + B", "A.p50", "A.sum", "A.std")
                ],
            )
        )
        intervals = [kpi_interval.interval for kpi_interval in result.kpi_intervals.values()]
        for interval in (*result.metric_intervals.values(), *intervals):
            assert interval is None or math.isfinite(interval.high - interval.low)
        for change in (*result.metrics.values(), *result.kpis.values()):
            verdict = render_verdict("it", change, scale)
            json.dumps(verdict.model_dump(mode="json"), allow_nan=False)


def test_kpi_interval__uses_the_number_of_effective_items() -> None:
    # By hand: of two units t(1) = 12.7 standard errors, so that it reaches all that was seen.
    values = run([0.2, 0.8] + [None] * 38)
    interval = found(values, values, SUM).kpi_intervals["k"].interval
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx([0.6, 0.9])
