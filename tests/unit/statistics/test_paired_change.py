"""Changes of paired items: each verdict by hand, then recorded runs."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formula import Reference, compile_formula
from app.formula.rows import InstabilityKind, evaluate_rows
from app.statistics.intervals import wilson_interval
from app.statistics.multiplicity import adjust_verdicts, benjamini_hochberg, holm
from app.statistics.paired_change import compare_items, compare_resampled
from app.statistics.resampling import draw_items, resampled_statistic
from app.statistics.trials import ItemSums, reduce_trials
from app.statistics.verdict_rules import (
    ChangeVerdict,
    Note,
    Remedy,
    Scale,
    Side,
    Verdict,
    VerdictRule,
    decide_verdict,
    without_change,
)
from tests.support.bash_eval import GPT, HAIKU, OPUS, recorded_report

RATE = VerdictRule(side=Side.LOW)


def run_of(values: Sequence[float], trials: int = 1) -> ItemSums:
    """A run whose items have these values, the same in every trial; NaN for none."""
    items = np.repeat(np.arange(len(values)), trials)
    return reduce_trials(items, np.repeat(np.array(values, dtype=float), trials), len(values))


def change_of(differences: Sequence[float], rule: VerdictRule = RATE) -> ChangeVerdict:
    """Items that stood at 0.5, and how each changed."""
    return compare_items(
        run_of([0.5] * len(differences)),
        run_of([0.5 + difference for difference in differences]),
        rule,
    )


def test_verdict__significant_large_drop_is_a_regression() -> None:
    # All of twelve fell: 2 of 4096 ways to choose the signs. Mean -.15; the squares of ±.05 add up
    # to .03, so the standard error is sqrt(.03 / 11 / 12), and t of 11 degrees 2.201.
    change = change_of([-0.1, -0.2] * 6)
    assert change.verdict is Verdict.REGRESSED
    assert change.p == 2 / 4096
    assert change.effect == pytest.approx(-0.15)
    error = math.sqrt(0.03 / 11 / 12)
    assert change.low == pytest.approx(-0.15 - 2.2009851 * error)
    assert change.high == pytest.approx(-0.15 + 2.2009851 * error)
    assert change.mde == pytest.approx(2.8 * error)
    assert (change.baseline_value, change.value) == pytest.approx((0.5, 0.35))
    assert (change.n_items, change.trials, change.method) == (12, 1.0, "sign-flip permutation")


def test_verdict__direction_decides_about_harm() -> None:
    fell = [-0.1, -0.2] * 6
    assert change_of(fell, VerdictRule(side=Side.HIGH)).verdict is Verdict.IMPROVED
    assert change_of([-difference for difference in fell]).verdict is Verdict.IMPROVED
    undirected = change_of(fell, VerdictRule(side=Side.BOTH))
    assert (undirected.verdict, undirected.notes) == (Verdict.NO_EVIDENCE, (Note.NO_DIRECTION,))


def test_verdict__significant_small_change_is_no_evidence() -> None:
    change = change_of([-0.01, -0.011] * 6)
    assert (change.verdict, change.notes) == (Verdict.NO_EVIDENCE, (Note.DETECTABLE_BUT_SMALL,))


def test_verdict__interval_within_the_margin_is_no_evidence() -> None:
    # ±.01 around 0: the interval reaches 2.2 · .0104 / sqrt(12) = .0066 to both sides.
    change = change_of([-0.01, 0.01] * 6)
    assert (change.verdict, change.notes, change.p) == (Verdict.NO_EVIDENCE, (), 1.0)


def test_verdict__inconclusive_change_has_a_remedy() -> None:
    # One trial an item: at best all is noise of it. Variance 12 · .09 / 11; 2.8² · that / 12 / .05²
    # = 25.7 trials, so 25 more.
    change = change_of([-0.3, 0.3] * 6)
    assert (change.verdict, change.notes) == (Verdict.INCONCLUSIVE, (Note.AT_BEST,))
    assert change.more_trials == 25


def test_remedy__items_when_they_differ_more_than_trials() -> None:
    # Trials of an item agree: the variance lies between the items, whatever their number.
    base, other = run_of([0.5] * 12, trials=3), run_of([0.2, 0.8] * 6, trials=3)
    change = compare_items(base, other, RATE)
    assert (change.verdict, change.remedy) == (Verdict.INCONCLUSIVE, Remedy(None))
    assert change.notes == (Note.ADD_ITEMS,)
    assert change.more_trials is None


def test_compare_items__trials_are_not_pooled() -> None:
    once = change_of([-0.1, -0.2, 0.1] * 4)
    base, other = run_of([0.5] * 12, trials=5), run_of([0.4, 0.3, 0.6] * 4, trials=5)
    five = compare_items(base, other, RATE)
    assert five.trials == 5.0
    assert (five.p, five.low, five.high) == pytest.approx((once.p, once.low, once.high))


def test_compare_items__fixed_interval_from_three_trials() -> None:
    # Items differ, trials do not: for these very items the change is known for sure.
    base, other = run_of([0.5] * 6, trials=3), run_of([0.25, 0.75] * 3, trials=3)
    interval = compare_items(base, other, RATE).fixed
    assert interval is not None
    assert interval.low == interval.high == 0.0
    assert compare_items(run_of([0.5] * 6, 2), run_of([0.5] * 6, 2), RATE).fixed is None


def test_verdict__four_items_are_inconclusive() -> None:
    change = change_of([-0.4, -0.5, -0.4, -0.5])
    assert (change.verdict, change.notes) == (Verdict.INCONCLUSIVE, (Note.FEW_ITEMS,))


def test_compare_items__without_common_items_is_invalid() -> None:
    change = compare_items(run_of([0.5, math.nan]), run_of([math.nan, 0.5]), RATE)
    assert (change.verdict, change.notes) == (Verdict.INVALID, (Note.NO_ITEMS,))
    assert compare_items(run_of([]), run_of([]), RATE).verdict is Verdict.INVALID


def test_compare_items__leaves_out_items_of_one_run() -> None:
    change = compare_items(
        run_of([0.5] * 7), run_of([0.4, 0.3, 0.4, 0.3, 0.4, 0.3, math.nan]), RATE
    )
    assert (change.n_items, change.effect) == pytest.approx((6, -0.15))


def test_compare_items__same_scores_are_no_evidence() -> None:
    change = change_of([0.0] * 12)
    assert (change.verdict, change.notes) == (Verdict.NO_EVIDENCE, (Note.DEGENERATE,))
    assert (change.p, change.low, change.high, change.mde) == (1.0, 0.0, 0.0, None)


def test_compare_items__all_passes_have_a_wide_interval() -> None:
    # No discordant pair; both Wilson intervals reach down by w, at right angles: w · sqrt(2).
    change = compare_items(run_of([1.0] * 37), run_of([1.0] * 37), RATE)
    w = 1 - wilson_interval(37, 37).low
    assert (change.p, change.method) == (1.0, "McNemar mid-p")
    assert (change.low, change.high) == pytest.approx((-w, w))
    assert change.verdict is Verdict.INCONCLUSIVE
    assert change.mde == pytest.approx(2.8 * w / 1.96)


def test_compare_items__one_item_has_no_interval() -> None:
    change = change_of([-0.2])
    assert (change.verdict, change.low, change.mde) == (Verdict.INCONCLUSIVE, None, None)


def test_verdict_rule__limits_of_numbers_are_relative() -> None:
    # ±.01 around 0 of 0.1: the margin is .005, and the interval reaches .0066.
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    change = compare_items(run_of([0.1] * 12), run_of([0.09, 0.11] * 6), rule)
    assert (change.margin, change.min_effect) == pytest.approx((0.005, 0.002))
    assert change.verdict is Verdict.INCONCLUSIVE
    assert (
        compare_items(run_of([1.1] * 12), run_of([1.09, 1.11] * 6), rule).verdict
        is Verdict.NO_EVIDENCE
    )


def test_compare_items__latency_is_a_ratio() -> None:
    # Geometric means: of 1 and 4 it is 2, and 2 · sqrt(1.5 · 6/4) = 3.
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    change = compare_items(run_of([1.0, 4.0] * 6), run_of([1.5, 6.0] * 6), rule)
    assert change.verdict is Verdict.REGRESSED
    assert change.effect == pytest.approx(0.5)
    assert (change.baseline_value, change.value) == pytest.approx((2.0, 3.0))
    assert compare_items(run_of([0.0] * 6), run_of([1.0] * 6), rule).notes == (Note.UNDEFINED,)


def test_remedy__resampled_kpi_multiplies_its_trials() -> None:
    random = np.random.default_rng(4)
    draws = draw_items(40)
    base, other = (
        resampled_statistic("mean", random.random(40), np.arange(40), draws) for _ in range(2)
    )
    change = compare_resampled(base, other, RATE, draws, trials=5.0)
    assert change.verdict is Verdict.INCONCLUSIVE
    assert change.mde is not None
    assert change.more_trials == math.ceil(5 * (change.mde / 0.05) ** 2) - 5
    assert Note.AT_BEST in change.notes


def test_remedy__noisy_latency_needs_more_trials() -> None:
    # Trials of half, once and half again the item's mean explain more than the items differ by: all
    # is noise, which falls with the number of trials, 3 · (mde / margin)² of them.
    items = np.repeat(np.arange(20), 3)
    base = reduce_trials(items, np.tile([0.5, 1.0, 1.5], 20), 20)
    scale = np.repeat([1.2, 0.8] * 10, 3)
    other = reduce_trials(items, scale * np.tile([0.5, 1.0, 1.5], 20), 20)
    change = compare_items(base, other, VerdictRule(side=Side.HIGH, scale=Scale.RATIO))
    assert change.verdict is Verdict.INCONCLUSIVE
    assert change.mde is not None
    assert change.mde == pytest.approx(0.13, abs=0.01)
    assert change.more_trials == math.ceil(3 * (change.mde / 0.05) ** 2) - 3


def test_compare_items__few_clusters_are_flipped() -> None:
    base, other = run_of([0.5] * 30), run_of([0.4, 0.3] * 15)
    names = [f"repository {item // 10}" for item in range(30)]
    change = compare_items(base, other, RATE, clusters=names)
    # Three clusters that all fell: two of eight ways.
    assert (change.p, change.clusters, change.verdict) == (0.25, 3, Verdict.INCONCLUSIVE)
    assert Note.FEW_CLUSTERS in change.notes
    assert compare_items(base, other, RATE).verdict is Verdict.REGRESSED
    assert compare_items(base, other, RATE, clusters=["one"] * 30).low is None


def test_compare_items__many_clusters_use_the_clustered_t_test() -> None:
    names = [f"category {item // 2}" for item in range(24)]
    change = compare_items(run_of([0.5] * 24), run_of([0.4, 0.3, 0.2] * 8), RATE, clusters=names)
    assert (change.method, change.clusters, change.verdict) == ("cluster t", 12, Verdict.REGRESSED)


def judgement(p: float) -> ChangeVerdict:
    return decide_verdict(
        ChangeVerdict(
            verdict=Verdict.INCONCLUSIVE,
            effect=-0.1,
            low=-0.2,
            high=-0.001,
            p=p,
            p_adjusted=p,
            mde=0.1,
            n_items=50,
            trials=1.0,
            method="by hand",
            min_effect=0.02,
            margin=0.05,
        )
    )


def test_adjust_verdicts__several_verdicts_are_adjusted() -> None:
    # Benjamini and Hochberg: .001·3, .03·3/2 and .04·3/3 = .04, which .03 may not exceed. Holm:
    # .003, .06, .06.
    alone = [judgement(0.001), judgement(0.03), judgement(0.04)]
    assert {change.verdict for change in alone} == {Verdict.REGRESSED}
    shared = adjust_verdicts(alone, benjamini_hochberg)
    assert [change.p_adjusted for change in shared] == pytest.approx([0.003, 0.04, 0.04])
    strict = adjust_verdicts(alone, holm)
    assert [change.verdict for change in strict] == [
        Verdict.REGRESSED,
        Verdict.INCONCLUSIVE,
        Verdict.INCONCLUSIVE,
    ]
    assert [change.p for change in strict] == [0.001, 0.03, 0.04]


def test_adjust_verdicts__changes_without_p_do_not_count() -> None:
    invalid = without_change(Verdict.INVALID)
    assert adjust_verdicts([invalid, judgement(0.04)], holm) == [invalid, judgement(0.04)]


def test_notes__all_have_a_sentence() -> None:
    assert all(note.sentence.endswith(".") for note in Note)


@given(st.lists(st.integers(-10, 10), min_size=1, max_size=40), st.sampled_from(list(Scale)))
def test_compare_items__is_symmetric(twentieths: list[int], scale: Scale) -> None:
    differences = [steps / 20 for steps in twentieths]
    rule = VerdictRule(side=Side.LOW, scale=scale)
    change = change_of(differences, rule)
    assert change == change_of(differences, rule)
    if scale is Scale.RATE:
        mirrored = change_of([-difference for difference in differences], rule)
        turned = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
        assert change.effect == pytest.approx(-(mirrored.effect or 0.0))
        assert change.verdict is turned.get(mirrored.verdict, mirrored.verdict)
    if change.effect is not None and change.low is not None and change.high is not None:
        assert change.low - 1e-9 <= change.effect <= change.high + 1e-9


def resampled(
    formula: str, base: Sequence[float], other: Sequence[float], rule: VerdictRule = RATE
) -> ChangeVerdict:
    """A KPI of one metric A, whose items have these values in the two runs."""
    draws, items = draw_items(len(base)), np.arange(len(base))
    both = []
    for values in (base, other):
        column = resampled_statistic("mean", np.array(values, dtype=float), items, draws)
        both.append(evaluate_rows(compile_formula(formula), {Reference("A", "mean"): column}))
    notes = tuple(
        {
            Note(InstabilityKind(instability.kind))
            for rows in both
            for instability in rows.instabilities
        }
    )
    return compare_resampled(both[0].values, both[1].values, rule, draws, notes=notes)


def test_compare_resampled__extremes_have_no_p_value() -> None:
    draws = draw_items(30)
    base, other = (
        resampled_statistic("max", np.linspace(0, top, 30), np.arange(30), draws) for top in (1, 5)
    )
    change = compare_resampled(base, other, RATE, draws, notes=[Note.EXTREME])
    assert (change.effect, change.verdict) == (4.0, Verdict.INCONCLUSIVE)
    assert (change.p, change.low, change.high, change.mde) == (None, None, None, None)
    assert change.notes == (Note.EXTREME,)


def test_compare_resampled__mean_agrees_with_compare_items() -> None:
    random = np.random.default_rng(11)
    base = random.random(40)
    other = base - 0.1 + random.normal(0, 0.1, 40)
    kpi, mean = (
        resampled("A", base.tolist(), other.tolist()),
        compare_items(run_of(base.tolist()), run_of(other.tolist()), RATE),
    )
    assert kpi.verdict is mean.verdict is Verdict.REGRESSED
    assert kpi.effect == pytest.approx(mean.effect)
    assert (kpi.low, kpi.high) == pytest.approx((mean.low, mean.high), abs=0.01)
    assert kpi.mde == pytest.approx(mean.mde, rel=0.1)


def test_compare_resampled__cliff_is_inconclusive() -> None:
    # From just above the threshold to just below it, by items that vary a lot.
    base, other = [0.0, 1.0, 1.0, 1.0, 1.0] * 6, [0.0, 0.99, 1.0, 1.0, 1.0] * 6
    change = resampled("THRESHOLD(A, 0.8)", base, other)
    assert (change.effect, change.verdict) == (-1.0, Verdict.INCONCLUSIVE)
    assert Note.CLIFF in change.notes


def test_compare_resampled__undefined_value_is_inconclusive() -> None:
    change = resampled("1 / A", [0.0] * 10, [1.0] * 10)
    assert (change.verdict, change.effect, change.notes) == (
        Verdict.INCONCLUSIVE,
        None,
        (Note.UNDEFINED,),
    )


def test_compare_resampled__undefined_resamples_are_noted() -> None:
    # A resample that draws none of the two items that passed has nothing to divide by.
    change = resampled("1 / A", [1.0, 1.0, 0, 0, 0, 0], [1.0, 1.0, 0, 0, 0, 0])
    assert Note.UNDEFINED_SOMETIMES in change.notes


def test_compare_resampled__latency_is_a_ratio() -> None:
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    change = resampled("A", [1.0, 2.0] * 10, [1.5, 3.0] * 10, rule)
    assert (change.effect, change.margin) == pytest.approx((0.5, 0.05))
    assert change.verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("better", "worse", "passed", "p_exact"),
    [(HAIKU, OPUS, (32, 29), 0.45), (HAIKU, GPT, (32, 23), 0.022), (OPUS, GPT, (29, 23), 0.18)],
)
def test_compare_items__verdicts_of_recorded_runs(
    better: str, worse: str, passed: tuple[int, int], p_exact: float
) -> None:
    runs = [
        {
            task_result.task.id: float(task_result.passed())
            for task_result in recorded_report(name).results
        }
        for name in (better, worse)
    ]
    ids = sorted(runs[0])
    base, other = (run_of([run[task] for task in ids]) for run in runs)
    change = compare_items(base, other, RATE)
    assert (base.total.sum(), other.total.sum(), change.n_items) == (*passed, 37)
    assert change.p is not None
    assert change.p < p_exact
    expected = Verdict.REGRESSED if p_exact < 0.05 else Verdict.INCONCLUSIVE
    assert change.verdict is expected
