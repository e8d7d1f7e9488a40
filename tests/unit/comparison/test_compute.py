"""Computed comparisons: one test for each KPI and metric, over the items of both runs."""

import json
import math

import numpy as np
import pytest

from mosaico.comparison.verdict_text import render_verdict
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import line_of
from mosaico.items.matrix import ItemRow, matrix_of_rows
from mosaico.statistics.verdict_rules import (
    FEW,
    About,
    Scale,
    Side,
    Verdict,
    VerdictNote,
    VerdictRule,
)
from tests.support.compared_runs import MULTIPLE, NUMBER, change_of, compared, passes, run

RATIO = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
SUM = "WEIGHTED_SUM(A:0.5, B:0.5)"


@pytest.mark.parametrize(
    "formula", ["A * 1", "A / 2 + 0.1", "100 * A", "WEIGHTED_SUM(A:3)", "-A + 2 * A"]
)
# Of 37 items, four that fall are not called and five are: a formula must be on the same side.
@pytest.mark.parametrize("failed", [9, 10])
def test_kpi__linear_function_of_a_metric_has_its_verdict(formula: str, failed: int) -> None:
    result = compared(run(passes(5)), run(passes(failed)), "A", formula)
    metric, kpi = result.metrics["A"], result.kpis[formula]
    assert kpi.p == pytest.approx(metric.p, rel=1e-12)
    assert kpi.p_adjusted == metric.p_adjusted
    slope = line_of(compile_formula(formula)).slope  # type: ignore[union-attr]
    assert kpi.effect == pytest.approx(slope * metric.effect)  # type: ignore[operator]
    assert kpi.high == pytest.approx(slope * metric.high)  # type: ignore[operator]


def test_kpi__complement_of_a_metric_has_the_opposite_verdict() -> None:
    result = compared(run(passes(5)), run(passes(12)), "1 - A")
    assert result.metrics["A"].verdict is Verdict.REGRESSED
    assert result.kpis["1 - A"].verdict is Verdict.IMPROVED


def test_adjustment__intervals_are_adjusted_like_p() -> None:
    # Twelve KPIs of which one changed: its interval has to exclude 0 by more than alone.
    random = np.random.default_rng(4)
    noise: list[float | None] = random.integers(0, 2, 37).astype(float).tolist()
    baseline, candidate = run(passes(5), noise), run(passes(10), [*noise[::-1]])
    alone = change_of(baseline, candidate)
    formulas = [f"B * A + {step}" for step in range(1, 12)]
    kpi = compared(baseline, candidate, "A", *formulas).kpis["A"]
    assert alone.p == kpi.p
    assert (alone.low, alone.high) == (kpi.low, kpi.high)
    for change in (alone, kpi):
        assert change.p_adjusted is not None
        assert change.low_adjusted is not None
        assert change.high_adjusted is not None
        includes_zero = change.low_adjusted <= 0 <= change.high_adjusted
        assert (change.p_adjusted < 0.05) is not includes_zero


def test_gate_kpis__are_judged_together_and_copies_cost_nothing() -> None:
    baseline, candidate = run(passes(5)), run(passes(12))
    copies = [f"A * A + {step}" for step in range(10)]
    together = compared(baseline, candidate, *copies, is_judged=True).kpis
    assert all(change.verdict is Verdict.REGRESSED for change in together.values())


@pytest.mark.parametrize("formula", [SUM, "A * 2 - A", "A.p50", "MIN(A, B)", "COALESCE(A, B)"])
@pytest.mark.parametrize("paired", [True, False])
def test_kpi__with_three_items_is_inconclusive(formula: str, *, paired: bool) -> None:
    before = run([0.9, 0.9, 0.9] + [None] * 37)
    after = run([0.1, 0.11, 0.12] + [None] * 37)
    kpi = change_of(before, after, formula, paired=paired)
    assert (kpi.verdict, kpi.n_items) == (Verdict.INCONCLUSIVE, 3)
    if paired:
        assert VerdictNote.FEW_ITEMS in kpi.notes


def test_metric__five_items_with_three_trials_decide_as_five_with_one() -> None:
    for trials in (1, 3):
        change = change_of(run([1.0] * 5, trials=trials), run([0.0] * 5, trials=trials))
        assert change.verdict is Verdict.REGRESSED


def test_metric__five_clusters_that_all_fail_regressed() -> None:
    change = change_of(run([1.0] * 60, clusters=12), run([0.0] * 60, clusters=12))
    assert (change.verdict, change.clusters) == (Verdict.REGRESSED, 5)
    assert change.low is not None
    assert change.low >= -1.0


def test_metric__two_clusters_cannot_decide_and_say_so() -> None:
    change = change_of(run([1.0] * 24, clusters=12), run([0.0] * 24, clusters=12))
    assert change.verdict is Verdict.INCONCLUSIVE
    assert change.notes == (VerdictNote.FEW_CLUSTERS,)
    assert "At least 4 clusters" in VerdictNote.FEW_CLUSTERS.sentence


def test_metric__three_items_with_trials_changed_themselves() -> None:
    change = change_of(run([1.0] * 3, trials=5), run([0.0] * 3, trials=5))
    assert (change.verdict, change.about) == (Verdict.REGRESSED, About.TASKS)
    assert VerdictNote.THESE_ITEMS in change.notes
    assert not FEW & {*change.notes}
    same = change_of(run([1.0, 0.0, 1.0], trials=5), run([1.0, 1.0, 0.0], trials=5))
    assert VerdictNote.THESE_ITEMS not in same.notes


def test_identical_runs__are_no_evidence_with_an_interval() -> None:
    change = change_of(run(passes(0)), run(passes(0)))
    assert (change.verdict, change.p, change.effect) == (Verdict.NO_EVIDENCE, 1.0, 0.0)
    assert change.notes == (VerdictNote.IDENTICAL,)
    # The share of unseen changes that none of 37 items shows: 1 − 0.025^(1/37).
    assert change.high == pytest.approx(0.0949, abs=1e-4)


def test_kpi__threshold_that_only_the_aggregate_crossed_is_no_common_change() -> None:
    # 24 of 37 passed, 22 pass: THRESHOLD(A, 0.6) falls from 1 to 0 by two items.
    change = change_of(run(passes(13)), run(passes(15)), "THRESHOLD(A, 0.6)")
    assert (change.effect, change.verdict) == (-1.0, Verdict.INCONCLUSIVE)
    assert change.low is not None
    assert change.high is not None
    assert -1.0 <= change.low < change.high
    assert VerdictNote.CLIFF in change.notes


def test_kpi__threshold_that_is_clearly_crossed_regressed() -> None:
    change = change_of(run(passes(2)), run(passes(30)), "THRESHOLD(A, 0.6)")
    assert change.verdict is Verdict.REGRESSED


def test_kpi__clamped_at_its_end_still_changes() -> None:
    # 0.8 and 1: half way between the runs the gradient is 0.
    change = change_of(run(passes(24, 40)), run(passes(4, 40)), "CLAMP(A * 2, 0, 1)")
    assert change.effect == pytest.approx(0.2)
    assert change.p is not None
    assert 0 < change.p < 0.4
    assert change.high is not None
    assert change.high <= 1.0


def test_cost__is_compared_as_a_ratio_and_shown_as_one() -> None:
    values: list[float | None] = [1.0, 2.0, 4.0, 3.0] * 10
    # Not exactly doubled: a change without any spread would have no test.
    after = [2 * (value or 0) * (1.05 if index % 3 else 0.95) for index, value in enumerate(values)]
    change = change_of(run(values), run(after), rule=RATIO, limits=MULTIPLE)
    assert change.verdict is Verdict.REGRESSED
    assert change.effect == pytest.approx((change.value or 0) / 2.5 - 1)
    assert change.baseline_value == 2.5
    assert change.low is not None
    assert change.low > 0.5
    total = change_of(
        run(values),
        run(after),
        "A.sum",
        limits=MULTIPLE,
        rule=VerdictRule(side=Side.HIGH, scale=Scale.NUMBER),
    )
    assert total.effect == pytest.approx(sum(after) - 100)
    assert total.p == pytest.approx(change.p, rel=1e-6)


def test_cost__an_enormous_factor_is_called_like_a_large_one() -> None:
    random = np.random.default_rng(3)
    costs = np.exp(random.normal(0, 1, 37))
    after = costs * np.exp(random.normal(0, 0.6, 37))
    p = [
        change_of(run(costs.tolist()), run((factor * after).tolist()), limits=MULTIPLE).p or 0.0
        for factor in (3.0, 50.0, 1000.0)
    ]
    assert 0.05 > p[0] >= p[1] >= p[2]


def test_cost__of_ten_items_with_heavy_tails_says_how_many_items_would_do() -> None:
    random = np.random.default_rng(4)
    costs = np.exp(random.normal(0, 2.0, 10))
    after = costs * np.exp(random.normal(0, 1.0, 10))
    change = change_of(
        run(costs.tolist()),
        run(after.tolist()),
        limits=MULTIPLE,
        rule=VerdictRule(side=Side.HIGH, scale=Scale.NUMBER),
    )
    assert (change.verdict, change.mde) == (Verdict.INCONCLUSIVE, None)
    assert change.items_needed is not None
    assert change.items_needed > 10


def test_clusters__that_cannot_decide_state_no_detectable_effect() -> None:
    change = change_of(run(passes(2, 36), clusters=12), run(passes(4, 36), clusters=12))
    assert VerdictNote.FEW_CLUSTERS in change.notes
    assert (change.verdict, change.mde) == (Verdict.INCONCLUSIVE, None)


def test_sum__of_several_baseline_runs_is_that_of_one_run() -> None:
    rows = [
        ItemRow(run_seq, f"{item:02d}", "r", [], [1.0, 1.0])
        for item in range(12)
        for run_seq in (1, 2, 3)
    ]
    columns = {seq: ["A", "B"] for seq in (1, 2, 3)}
    baseline = matrix_of_rows(rows, columns, ["A", "B"])
    change = change_of(baseline, run([1.0] * 12), "A.sum", limits=MULTIPLE)
    assert (change.baseline_value, change.value) == (12.0, 12.0)


def test_kpi__of_several_baseline_runs_is_the_mean_of_its_values() -> None:
    # The minimum is 0.4 in every run; of the mean of the runs it would be 0.6, and a fall by 0.2.
    rows = [
        ItemRow(run_seq, f"{item:03d}", "r", [], [*values])
        for item in range(12)
        for run_seq, values in ((1, [0.4, 0.8]), (2, [0.8, 0.4]))
    ]
    baseline = matrix_of_rows(rows, {1: ["A", "B"], 2: ["A", "B"]}, ["A", "B"])
    change = change_of(baseline, run([0.4] * 12, [0.8] * 12), "MIN(A, B)")
    assert (change.baseline_value, change.value) == pytest.approx((0.4, 0.4))
    assert change.effect == pytest.approx(0, abs=1e-12)
    # A linear formula has no such difference.
    mean = change_of(baseline, run([0.4] * 12, [0.8] * 12), SUM)
    assert mean.baseline_value == pytest.approx(0.6)


def test_kpi__item_without_the_metric_in_one_run_is_left_out() -> None:
    # The ten easy items of the baseline lost their value: what is left is as it was.
    hard = [0.1, 0.2, 0.3, 0.2, 0.1, 0.3] * 5
    before, after = run([*[1.0] * 10, *hard]), run([*[None] * 10, *hard])
    kpi = change_of(before, after, SUM)
    assert (kpi.baseline_value, kpi.effect) == (kpi.value, 0)
    assert kpi.value == pytest.approx(0.6)
    assert kpi.n_items == 30
    assert kpi.verdict is Verdict.NO_EVIDENCE


def test_kpi__combines_items_of_different_metrics() -> None:
    # Half of the items are measured by A, the other half by B, as where two kinds of tasks are mixed.
    first, other = [0.9, 0.8] * 10 + [None] * 20, [None] * 20 + [0.9, 0.8] * 10
    low = [0.4, 0.2] * 10 + [None] * 20
    kpi = change_of(run([*first], [*other]), run([*low], [*other]), SUM)
    assert (kpi.verdict, kpi.n_items) == (Verdict.REGRESSED, 20)


def test_kpi__coverage_is_over_all_items() -> None:
    kpi = change_of(run([1.0] * 40), run([1.0] * 30 + [None] * 10), "A.coverage")
    assert (kpi.baseline_value, kpi.value, kpi.n_items) == (1.0, 0.75, 40)
    assert kpi.verdict is Verdict.REGRESSED


def test_kpi__extremes_have_no_test() -> None:
    kpi = change_of(run([0.1, 0.9] * 10), run([0.1, 0.2] * 10), "A.max")
    assert kpi.effect == pytest.approx(-0.7)
    assert kpi.verdict is Verdict.INCONCLUSIVE
    assert (kpi.p, kpi.low, kpi.high, kpi.mde) == (None, None, None, None)
    assert kpi.notes == (VerdictNote.EXTREME,)


def test_kpi__undefined_in_one_run_is_inconclusive() -> None:
    kpi = change_of(run([0.0] * 10), run([1.0] * 10), "1 / A")
    assert (kpi.verdict, kpi.effect, kpi.notes) == (
        Verdict.INCONCLUSIVE,
        None,
        (VerdictNote.UNDEFINED,),
    )


def test_unpaired_runs__are_two_samples() -> None:
    change = change_of(run(passes(2, 40)), run(passes(20, 40)), paired=False)
    assert (change.verdict, change.method) == (Verdict.REGRESSED, "t of two samples")
    assert VerdictNote.UNPAIRED in change.notes
    jump = change_of(run(passes(2, 40)), run(passes(20, 40)), "THRESHOLD(A, 0.6)", paired=False)
    assert jump.notes == (VerdictNote.UNPAIRED, VerdictNote.JUMP)


# In turn the square, the sum of 20 values, and the difference of two values overflow.
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
        result = compared(
            base, candidate, "A + B", "A.p50", "A.sum", "A.std",
            rule=rule, limits=NUMBER, paired=paired,
        )  # fmt: skip
        intervals = [kpi_interval.interval for kpi_interval in result.kpi_intervals.values()]
        for interval in (*result.metric_intervals.values(), *intervals):
            assert interval is None or math.isfinite(interval.high - interval.low)
        for change in (*result.metrics.values(), *result.kpis.values()):
            verdict = render_verdict("it", change, scale)
            json.dumps(verdict.model_dump(mode="json"), allow_nan=False)


def test_run_interval__60_of_60_in_clusters_is_no_point() -> None:
    values = run([1.0] * 60, clusters=6)
    interval = compared(values, values).metric_intervals["A"]
    assert 0.6 < interval.low < 0.7
    assert interval.high == 1.0


def test_kpi_interval__of_a_linear_kpi_is_that_of_its_metric() -> None:
    values = run(passes(5))
    result = compared(values, values, "100 * A")
    interval, metric = result.kpi_intervals["100 * A"].interval, result.metric_intervals["A"]
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((100 * metric.low, 100 * metric.high))


@pytest.mark.parametrize("about", [*About])
def test_constant_values__do_not_say_that_a_change_of_0_is_detected(about: About) -> None:
    # Scores of 1 to 5 have no range: nothing says how much they vary.
    constant = run([4.0] * 20, trials=3)
    change = compared(constant, constant, limits=NUMBER).metrics["A"]
    assert [answer.mde for answer in change.answers if answer.about is about] == [None]
    assert change.mde is None
