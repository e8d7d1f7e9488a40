"""Verdicts: one by hand for every way to reach it, then the recorded runs."""

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
from app.statistics.verdict import (
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
        run_of([0.5] * len(differences)), run_of([0.5 + each for each in differences]), rule
    )


def test_a_drop_that_is_certain_and_matters_is_a_regression() -> None:
    # All of twelve fell: 2 of 4096 ways to choose the signs. Mean -.15; the squares of ±.05 add up
    # to .03, so the standard error is sqrt(.03 / 11 / 12), and t of 11 degrees 2.201.
    found = change_of([-0.1, -0.2] * 6)
    assert found.verdict is Verdict.REGRESSED
    assert found.p == 2 / 4096
    assert found.effect == pytest.approx(-0.15)
    error = math.sqrt(0.03 / 11 / 12)
    assert found.low == pytest.approx(-0.15 - 2.2009851 * error)
    assert found.high == pytest.approx(-0.15 + 2.2009851 * error)
    assert found.mde == pytest.approx(2.8 * error)
    assert (found.baseline_value, found.value) == pytest.approx((0.5, 0.35))
    assert (found.n_items, found.trials, found.method) == (12, 1.0, "sign-flip permutation")


def test_the_direction_says_whether_a_change_does_harm() -> None:
    fell = [-0.1, -0.2] * 6
    assert change_of(fell, VerdictRule(side=Side.HIGH)).verdict is Verdict.IMPROVED
    assert change_of([-each for each in fell]).verdict is Verdict.IMPROVED
    undirected = change_of(fell, VerdictRule(side=Side.BOTH))
    assert (undirected.verdict, undirected.notes) == (Verdict.NO_EVIDENCE, (Note.NO_DIRECTION,))


def test_a_change_that_is_certain_and_small_is_no_evidence() -> None:
    found = change_of([-0.01, -0.011] * 6)
    assert (found.verdict, found.notes) == (Verdict.NO_EVIDENCE, (Note.DETECTABLE_BUT_SMALL,))


def test_an_interval_inside_the_margin_is_no_evidence() -> None:
    # ±.01 around 0: the interval reaches 2.2 · .0104 / sqrt(12) = .0066 to both sides.
    found = change_of([-0.01, 0.01] * 6)
    assert (found.verdict, found.notes, found.p) == (Verdict.NO_EVIDENCE, (), 1.0)


def test_what_is_uncertain_is_inconclusive_and_says_what_would_help() -> None:
    # One trial an item: at best all is noise of it. Variance 12 · .09 / 11; 2.8² · that / 12 / .05²
    # = 25.7 trials, so 25 more.
    found = change_of([-0.3, 0.3] * 6)
    assert (found.verdict, found.notes) == (Verdict.INCONCLUSIVE, (Note.AT_BEST,))
    assert found.more_trials == 25


def test_items_that_differ_more_than_trials_do_ask_for_more_items() -> None:
    # Trials of an item agree: the variance lies between the items, whatever their number.
    base, other = run_of([0.5] * 12, trials=3), run_of([0.2, 0.8] * 6, trials=3)
    found = compare_items(base, other, RATE)
    assert (found.verdict, found.remedy) == (Verdict.INCONCLUSIVE, Remedy(None))
    assert found.notes == (Note.ADD_ITEMS,)
    assert found.more_trials is None


def test_trials_are_never_pooled() -> None:
    once = change_of([-0.1, -0.2, 0.1] * 4)
    base, other = run_of([0.5] * 12, trials=5), run_of([0.4, 0.3, 0.6] * 4, trials=5)
    five = compare_items(base, other, RATE)
    assert five.trials == 5.0
    assert (five.p, five.low, five.high) == pytest.approx((once.p, once.low, once.high))


def test_from_three_trials_on_these_very_items_are_a_second_estimand() -> None:
    # Items differ, trials do not: for these very items the change is known for sure.
    base, other = run_of([0.5] * 6, trials=3), run_of([0.25, 0.75] * 3, trials=3)
    found = compare_items(base, other, RATE).fixed
    assert found is not None
    assert found.low == found.high == 0.0
    assert compare_items(run_of([0.5] * 6, 2), run_of([0.5] * 6, 2), RATE).fixed is None


def test_four_items_are_too_few_whatever_they_say() -> None:
    found = change_of([-0.4, -0.5, -0.4, -0.5])
    assert (found.verdict, found.notes) == (Verdict.INCONCLUSIVE, (Note.FEW_ITEMS,))


def test_no_item_in_common_is_invalid_and_never_a_pass() -> None:
    found = compare_items(run_of([0.5, math.nan]), run_of([math.nan, 0.5]), RATE)
    assert (found.verdict, found.notes) == (Verdict.INVALID, (Note.NO_ITEMS,))
    assert compare_items(run_of([]), run_of([]), RATE).verdict is Verdict.INVALID


def test_items_that_one_run_lacks_are_left_out() -> None:
    found = compare_items(run_of([0.5] * 7), run_of([0.4, 0.3, 0.4, 0.3, 0.4, 0.3, math.nan]), RATE)
    assert (found.n_items, found.effect) == pytest.approx((6, -0.15))


def test_the_same_scores_are_no_evidence_and_the_interval_is_a_point() -> None:
    found = change_of([0.0] * 12)
    assert (found.verdict, found.notes) == (Verdict.NO_EVIDENCE, (Note.DEGENERATE,))
    assert (found.p, found.low, found.high, found.mde) == (1.0, 0.0, 0.0, None)


def test_two_runs_that_pass_everything_once_still_leave_something_possible() -> None:
    # No discordant pair; both Wilson intervals reach down by w, at right angles: w · sqrt(2).
    found = compare_items(run_of([1.0] * 37), run_of([1.0] * 37), RATE)
    w = 1 - wilson_interval(37, 37).low
    assert (found.p, found.method) == (1.0, "McNemar mid-p")
    assert (found.low, found.high) == pytest.approx((-w, w))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.mde == pytest.approx(2.8 * w / 1.96)


def test_one_item_has_no_interval() -> None:
    found = change_of([-0.2])
    assert (found.verdict, found.low, found.mde) == (Verdict.INCONCLUSIVE, None, None)


def test_limits_of_numbers_are_shares_of_the_baseline() -> None:
    # ±.01 around 0 of 0.1: the margin is .005, and the interval reaches .0066.
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    found = compare_items(run_of([0.1] * 12), run_of([0.09, 0.11] * 6), rule)
    assert (found.margin, found.min_effect) == pytest.approx((0.005, 0.002))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (
        compare_items(run_of([1.1] * 12), run_of([1.09, 1.11] * 6), rule).verdict
        is Verdict.NO_EVIDENCE
    )


def test_latency_is_judged_as_a_ratio() -> None:
    # Geometric means: of 1 and 4 it is 2, and 2 · sqrt(1.5 · 6/4) = 3.
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    found = compare_items(run_of([1.0, 4.0] * 6), run_of([1.5, 6.0] * 6), rule)
    assert found.verdict is Verdict.REGRESSED
    assert found.effect == pytest.approx(0.5)
    assert (found.baseline_value, found.value) == pytest.approx((2.0, 3.0))
    assert compare_items(run_of([0.0] * 6), run_of([1.0] * 6), rule).notes == (Note.UNDEFINED,)


def test_an_open_kpi_asks_for_as_many_times_its_trials_as_its_noise_is_too_large() -> None:
    random = np.random.default_rng(4)
    draws = draw_items(40)
    base, other = (
        resampled_statistic("mean", random.random(40), np.arange(40), draws) for _ in range(2)
    )
    found = compare_resampled(base, other, RATE, draws, trials=5.0)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.mde is not None
    assert found.more_trials == math.ceil(5 * (found.mde / 0.05) ** 2) - 5
    assert Note.AT_BEST in found.notes


def test_noisy_latency_asks_for_more_trials() -> None:
    # Trials of half, once and half again the item's mean explain more than the items differ by: all
    # is noise, which falls with the number of trials, 3 · (mde / margin)² of them.
    items = np.repeat(np.arange(20), 3)
    base = reduce_trials(items, np.tile([0.5, 1.0, 1.5], 20), 20)
    scale = np.repeat([1.2, 0.8] * 10, 3)
    other = reduce_trials(items, scale * np.tile([0.5, 1.0, 1.5], 20), 20)
    found = compare_items(base, other, VerdictRule(side=Side.HIGH, scale=Scale.RATIO))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.mde is not None
    assert found.mde == pytest.approx(0.13, abs=0.01)
    assert found.more_trials == math.ceil(3 * (found.mde / 0.05) ** 2) - 3


def test_few_clusters_are_not_many_items() -> None:
    base, other = run_of([0.5] * 30), run_of([0.4, 0.3] * 15)
    names = [f"repository {item // 10}" for item in range(30)]
    found = compare_items(base, other, RATE, clusters=names)
    # Three clusters that all fell: two of eight ways.
    assert (found.p, found.clusters, found.verdict) == (0.25, 3, Verdict.INCONCLUSIVE)
    assert Note.FEW_CLUSTERS in found.notes
    assert compare_items(base, other, RATE).verdict is Verdict.REGRESSED
    assert compare_items(base, other, RATE, clusters=["one"] * 30).low is None


def test_many_clusters_are_judged_by_their_own_t_test() -> None:
    names = [f"category {item // 2}" for item in range(24)]
    found = compare_items(run_of([0.5] * 24), run_of([0.4, 0.3, 0.2] * 8), RATE, clusters=names)
    assert (found.method, found.clusters, found.verdict) == ("cluster t", 12, Verdict.REGRESSED)


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


def test_several_verdicts_at_once_are_held_to_the_share_that_may_be_false() -> None:
    # Benjamini and Hochberg: .001·3, .03·3/2 and .04·3/3 = .04, which .03 may not exceed. Holm:
    # .003, .06, .06.
    alone = [judgement(0.001), judgement(0.03), judgement(0.04)]
    assert {each.verdict for each in alone} == {Verdict.REGRESSED}
    shared = adjust_verdicts(alone, benjamini_hochberg)
    assert [each.p_adjusted for each in shared] == pytest.approx([0.003, 0.04, 0.04])
    strict = adjust_verdicts(alone, holm)
    assert [each.verdict for each in strict] == [
        Verdict.REGRESSED,
        Verdict.INCONCLUSIVE,
        Verdict.INCONCLUSIVE,
    ]
    assert [each.p for each in strict] == [0.001, 0.03, 0.04]


def test_what_has_no_p_value_is_not_counted_among_several() -> None:
    invalid = without_change(Verdict.INVALID)
    assert adjust_verdicts([invalid, judgement(0.04)], holm) == [invalid, judgement(0.04)]


def test_every_note_has_its_words() -> None:
    assert all(note.sentence.endswith(".") for note in Note)


@given(st.lists(st.integers(-10, 10), min_size=1, max_size=40), st.sampled_from(list(Scale)))
def test_the_mirror_image_of_a_judgement(twentieths: list[int], scale: Scale) -> None:
    differences = [each / 20 for each in twentieths]
    rule = VerdictRule(side=Side.LOW, scale=scale)
    found = change_of(differences, rule)
    assert found == change_of(differences, rule)
    if scale is Scale.RATE:
        mirrored = change_of([-each for each in differences], rule)
        turned = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
        assert found.effect == pytest.approx(-(mirrored.effect or 0.0))
        assert found.verdict is turned.get(mirrored.verdict, mirrored.verdict)
    if found.effect is not None and found.low is not None and found.high is not None:
        assert found.low - 1e-9 <= found.effect <= found.high + 1e-9


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
        {Note(InstabilityKind(each.kind)) for rows in both for each in rows.instabilities}
    )
    return compare_resampled(both[0].values, both[1].values, rule, draws, notes=notes)


def test_the_largest_value_of_a_run_is_told_and_not_judged() -> None:
    draws = draw_items(30)
    base, other = (
        resampled_statistic("max", np.linspace(0, top, 30), np.arange(30), draws) for top in (1, 5)
    )
    found = compare_resampled(base, other, RATE, draws, notes=[Note.EXTREME])
    assert (found.effect, found.verdict) == (4.0, Verdict.INCONCLUSIVE)
    assert (found.p, found.low, found.high, found.mde) == (None, None, None, None)
    assert found.notes == (Note.EXTREME,)


def test_a_kpi_that_is_a_mean_is_judged_as_the_mean() -> None:
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


def test_a_jump_over_a_cliff_is_inconclusive_and_says_so() -> None:
    # From just above the threshold to just below it, by items that vary a lot.
    base, other = [0.0, 1.0, 1.0, 1.0, 1.0] * 6, [0.0, 0.99, 1.0, 1.0, 1.0] * 6
    found = resampled("THRESHOLD(A, 0.8)", base, other)
    assert (found.effect, found.verdict) == (-1.0, Verdict.INCONCLUSIVE)
    assert Note.CLIFF in found.notes


def test_a_kpi_without_a_value_has_no_verdict_but_a_reason() -> None:
    found = resampled("1 / A", [0.0] * 10, [1.0] * 10)
    assert (found.verdict, found.effect, found.notes) == (
        Verdict.INCONCLUSIVE,
        None,
        (Note.UNDEFINED,),
    )


def test_resamples_without_a_value_are_left_out_and_named() -> None:
    # A resample that draws none of the two items that passed has nothing to divide by.
    found = resampled("1 / A", [1.0, 1.0, 0, 0, 0, 0], [1.0, 1.0, 0, 0, 0, 0])
    assert Note.UNDEFINED_SOMETIMES in found.notes


def test_a_kpi_of_latency_is_judged_as_a_ratio() -> None:
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    found = resampled("A", [1.0, 2.0] * 10, [1.5, 3.0] * 10, rule)
    assert (found.effect, found.margin) == pytest.approx((0.5, 0.05))
    assert found.verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("better", "worse", "passed", "p_exact"),
    [(HAIKU, OPUS, (32, 29), 0.45), (HAIKU, GPT, (32, 23), 0.022), (OPUS, GPT, (29, 23), 0.18)],
)
def test_the_recorded_runs_are_told_apart_only_where_they_can_be(
    better: str, worse: str, passed: tuple[int, int], p_exact: float
) -> None:
    runs = [
        {each.task.id: float(each.passed()) for each in recorded_report(name).results}
        for name in (better, worse)
    ]
    ids = sorted(runs[0])
    base, other = (run_of([run[task] for task in ids]) for run in runs)
    found = compare_items(base, other, RATE)
    assert (base.total.sum(), other.total.sum(), found.n_items) == (*passed, 37)
    assert found.p is not None
    assert found.p < p_exact
    expected = Verdict.REGRESSED if p_exact < 0.05 else Verdict.INCONCLUSIVE
    assert found.verdict is expected
