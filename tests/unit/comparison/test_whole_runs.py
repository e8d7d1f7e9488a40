"""Verdicts where whole runs vary, through the functions that ship: `benchmarks.run_variation` has the whole table."""

import math
from array import array
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.run_variation import CELLS, count_calls, count_pages_at_run_2
from benchmarks.simulated_series import METRIC, matrix_of, no_change, spec_of, values_of_runs
from mosaico.alerts.evaluation.series_evidence import page_policy
from mosaico.comparison.child_computation import assess_changes
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.series_levels import levels_of_points, measure_series, points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.verdict_text import render_verdict
from mosaico.comparison.whole_run_rules import assumed_scale
from mosaico.comparison.whole_run_text import describe_whole_runs
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.matrix import ItemMatrix
from mosaico.run_store.series_points import StoredPoint, kpi_series
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    RunsBasis,
    Scale,
    Side,
    Verdict,
    VerdictNote,
    VerdictRule,
)
from mosaico.statistics.whole_runs import MeasuredRuns
from tests.support.compared_runs import RATE

CELL = CELLS["200x1, 0 points"]


def passes(*counts: int, trials: int) -> ItemMatrix:
    """A run whose items pass so often."""
    items = len(counts)
    return ItemMatrix(
        items=[f"q{item:02}" for item in range(items)],
        revisions=[""] * items,
        item_index=array("l", np.repeat(np.arange(items), trials)),
        run_index=array("l", [0] * (items * trials)),
        values={METRIC: array("d", [float(trial < n) for n in counts for trial in range(trials)])},
    )


def change_of(
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    measured: dict[str, MeasuredRuns] | None = None,
    run_sd: float | None = None,
) -> ChangeVerdict:
    spec = replace(
        spec_of(CELL, candidate),
        baseline=baseline,
        candidate=candidate,
        measured_runs=measured or {},
        run_sd=run_sd,
    )
    return assess_changes(spec, baseline, candidate, ValueFailures())[(METRIC, None)]


def test_broken_tasks__are_found_whatever_runs_are_assumed_to_do() -> None:
    change = change_of(passes(*[5] * 10, trials=5), passes(*[5] * 6, 0, 0, 0, 0, trials=5))
    assert change.verdict is Verdict.REGRESSED
    assert change.high is not None
    assert -0.4 < change.high < -0.25
    assert change.whole_runs is not None
    assert change.whole_runs == (0.015, RunsBasis.ASSUMED, 0)


@pytest.mark.prove
@pytest.mark.parametrize("name", ["200x1, 1.2 points", "200x5, 1.2 points", "500x1, 1.2 points"])
def test_unchanged_agent__whose_runs_vary_by_1_2_points_is_rarely_called(name: str) -> None:
    pairs = 120
    two_files = count_calls(name, 0, 0.0, pairs, 43)
    with_history = count_calls(name, 5, 0.0, pairs // 2, 43)
    for result in (two_files, with_history):
        # 8, 13 and 20 % before; three standard errors of the simulation.
        assert (
            result.called / result.pairs < 0.05 + 3 * math.sqrt(0.05 * 0.95 / result.pairs) - 0.02
        )


@pytest.mark.prove
def test_series_whose_runs_vary_by_4_points__tells_it() -> None:
    name = "200x5, 4 points"
    alone, history = (count_calls(name, earlier, 0.0, 80, 43) for earlier in (0, 10))
    assert alone.percent > 25
    assert history.percent < 15


@pytest.mark.parametrize(
    "name", ["200x5, 2 points", pytest.param("costs 58x1, 5 %", marks=pytest.mark.prove)]
)
def test_run_2__pages_rarely(name: str) -> None:
    histories = 300
    result = count_pages_at_run_2(name, histories, 43)
    assert result.called / histories <= 0.02 + 2 * math.sqrt(0.02 * 0.98 / histories)


def test_history__of_one_unchanged_agent_narrows_the_interval_of_a_small_drop() -> None:
    rng = np.random.default_rng(43)
    runs = [matrix_of(CELL, values) for values in values_of_runs(CELL, no_change(32), rng)]
    points = [points_of_run(spec_of(CELL, run), {}, ValueFailures()) for run in runs[:-1]]
    assumed = change_of(runs[-2], runs[-1])
    measured = change_of(runs[-2], runs[-1], measure_series(points))
    assert measured.whole_runs is not None
    assert measured.whole_runs.basis is RunsBasis.MEASURED
    assert measured.whole_runs.runs == 31
    assert _width(measured) < _width(assumed)
    assert _width(change_of(runs[-2], runs[-1], run_sd=0.04)) > _width(assumed)


def _width(change: ChangeVerdict) -> float:
    assert change.low is not None
    assert change.high is not None
    return change.high - change.low


def test_runs_that_vary__are_named_where_neither_trials_nor_items_help() -> None:
    rng = np.random.default_rng(43)
    before, after = (matrix_of(CELL, values) for values in values_of_runs(CELL, no_change(2), rng))
    change = change_of(before, after, run_sd=0.03)
    assert change.verdict is Verdict.INCONCLUSIVE
    assert VerdictNote.RUNS_VARY in change.notes
    assert change.more_trials is None


def test_assumption__is_said_where_as_much_rose_as_fell() -> None:
    swapped = change_of(
        passes(*[5] * 8, 0, 0, trials=5), passes(0, 0, *[5] * 8, trials=5), run_sd=0.015
    )
    same = change_of(passes(*[5] * 9, 0, trials=5), passes(*[5] * 9, 0, trials=5))
    texts = [
        describe_whole_runs([render_verdict("A", change, Scale.RATE)], is_file=True)
        for change in (swapped, same)
    ]
    assert swapped.effect == 0.0
    assert [len(sentences) for sentences in texts] == [1, 0]


def test_assumption__is_that_of_the_value_that_regressed_in_its_unit() -> None:
    fell = change_of(passes(*[5] * 20, trials=5), passes(*[0] * 20, trials=5), run_sd=0.015)
    rose = change_of(passes(*[0] * 20, trials=5), passes(*[5] * 20, trials=5), run_sd=4.4)
    time = render_verdict("latency", rose, Scale.NUMBER, unit="ms")
    rate = render_verdict("pass rate", fell, Scale.RATE)
    [of_both] = describe_whole_runs([time, rate], is_file=True)
    [of_time] = describe_whole_runs([time], is_file=True)
    assert "by 0.015 beyond" in of_both
    assert "by 4.4 ms beyond" in of_time


def test_assumed_scale__follows_from_the_values() -> None:
    for is_amount in (False, True):
        assert assumed_scale(ValueRange(0.0, 1.0), is_amount=is_amount) is Scale.RATE
        assert assumed_scale(ValueRange(-1.0, 1.0), is_amount=is_amount) is Scale.RATE
        assert assumed_scale(ValueRange(9.0, 10.0), is_amount=is_amount) is Scale.RATE
        assert assumed_scale(ValueRange(1.0, 5.0), is_amount=is_amount) is Scale.NUMBER
        assert assumed_scale(ValueRange(None, None), is_amount=is_amount) is Scale.NUMBER
    assert assumed_scale(ValueRange(0.0, None), is_amount=True) is Scale.RATIO
    assert assumed_scale(ValueRange(0.0, None), is_amount=False) is Scale.NUMBER


MIXED = ItemMatrix(
    items=["a", "b"],
    revisions=["", ""],
    item_index=array("l", [0, 1]),
    run_index=array("l", [0, 0]),
    values={
        "PASSED": array("d", [0.25, 0.75]),
        "PRICE": array("d", [1.0, 3.0]),
        "CALLS": array("d", [2.0, 4.0]),
    },
)
AMOUNT = ValueRange(0.0, None)


@pytest.mark.parametrize(
    ("formula", "limits", "is_amount", "sd"),
    [
        # 1.5 points of a share, whatever it is multiplied with.
        ("PASSED", RATE, False, 0.015),
        ("100 * PASSED", RATE, False, 1.5),
        ("1 - 0.5 * PASSED", RATE, False, 0.0075),
        # 5 % of a cost of 2, also where it is subtracted or combined with other numbers (2 / 0.5).
        ("1000 * PRICE", AMOUNT, True, 100.0),
        ("5 - PRICE", AMOUNT, True, 0.1),
        ("PRICE / PASSED", AMOUNT, True, 0.2),
        # 2 % of a count of 3, and not of 97.
        ("100 - CALLS", AMOUNT, False, 0.06),
    ],
)
def test_assumed__is_the_same_for_the_verdict_and_the_alert_of_a_kpi(
    formula: str, limits: ValueRange, *, is_amount: bool, sd: float
) -> None:
    kpi = KpiComparisonSpec(
        id="kpi",
        formula=formula,
        is_judged=True,
        rule=VerdictRule(side=Side.HIGH, scale=Scale.NUMBER),
        limits=limits,
        line=line_of(compile_formula(formula)),
        is_amount=is_amount,
    )
    metrics = [
        MetricComparisonSpec(column=column, rule=VerdictRule(side=Side.LOW), limits=RATE)
        for column in MIXED.values
    ]
    spec = ComparisonSpec(run=MIXED, candidate=MIXED, baseline=MIXED, metrics=metrics, kpis=[kpi])
    verdict = assess_changes(spec, MIXED, MIXED, ValueFailures())[(None, "kpi")]
    assert verdict.whole_runs is not None
    assert verdict.whole_runs.sd == pytest.approx(sd)
    points = points_of_run(spec, {}, ValueFailures())
    point = points.series[kpi_series("kpi")]
    stored = StoredPoint(
        1, point.scale, point.level, point.item_values, points.items, point.assumed_sd
    )
    policy = page_policy(point.scale, point.side, levels_of_points([stored]))
    size = math.exp(point.level) if point.scale is Scale.RATIO else 1.0
    assert policy.prior_sd * size == pytest.approx(sd)
