"""The test of a change: by hand, against scipy and McNemar, then monotone for any data."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mosaico.statistics.change import (
    ChangeTest,
    UnitInfluences,
    compare_passes,
    paired_change_test,
    satterthwaite,
    unpaired_change_test,
)
from mosaico.statistics.trials import skewness_of_blocks
from mosaico.statistics.verdict_rules import MIN_UNITS
from tests.support.bash_eval import (
    GPT,
    GPT_BEFORE,
    HAIKU,
    HAIKU_BEFORE,
    OPUS,
    recorded_report,
)
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")


def change_of(
    changes: Sequence[float],
    clusters: Sequence[int] | None = None,
    *,
    width: float | None = 1.0,
) -> ChangeTest:
    """The test of a mean whose items changed by these amounts."""
    shares = np.array(changes, dtype=float) / len(changes)
    units = np.arange(len(changes)) if clusters is None else np.array(clusters)
    effect = float(shares.sum())
    return paired_change_test(effect, shares, shares - shares.mean(), units, width=width)


def falls(count: int, items: int, rises: int = 0) -> list[float]:
    return [-1.0] * count + [1.0] * rises + [0.0] * (items - count - rises)


def test_paired_change__of_ten_items_by_hand() -> None:
    # Two of ten fall. Mean -.2, squares of the deviations 2·.64 + 8·.04 = 1.6, CR2 divides by
    # 1 - 1/10: 1.6 / .9 / 100 = .017778. The pad: two of ten changed by 1, and 8/10 did not:
    # 1 · .8 · 10/9 / 100 = .008889. Together .026667, the root is .163299.
    test = change_of(falls(2, 10))
    assert test.effect == pytest.approx(-0.2)
    assert test.error == pytest.approx(0.163299, abs=1e-6)
    assert test.degrees == pytest.approx(9)
    interval = test.interval(0.05)
    assert interval is not None
    assert interval.high == pytest.approx(-0.2 + 2.262157 * 0.163299, abs=1e-5)


def test_paired_change__all_units_alike_count_as_if_one_had_not_changed() -> None:
    # V = 1 · 5/4 / 25 = .05, t = 1 / sqrt(.05) = 4.472 of four degrees: p = .0111.
    test = change_of(falls(5, 5))
    assert test.error == pytest.approx(math.sqrt(0.05))
    assert test.p == pytest.approx(0.01106, abs=1e-5)


def test_paired_change__many_varied_changes_are_student_t() -> None:
    changes = np.random.default_rng(5).normal(-0.1, 1, 400)
    test = change_of(changes.tolist(), width=None)
    assert test.p == pytest.approx(stats.ttest_1samp(changes, 0).pvalue, rel=0.02)


@pytest.mark.parametrize(("fallen", "is_called"), [(4, False), (5, True)])
def test_paired_change__of_37_passes_calls_five_falls_and_not_four(
    fallen: int, is_called: bool
) -> None:
    # As McNemar's mid-p, which is 1/2⁴ = .0625 for four falls and 1/2⁵ = .0313 for five.
    assert (change_of(falls(fallen, 37)).p < 0.05) is is_called


def test_paired_change__agrees_with_mcnemar_mid_p() -> None:
    tables = [
        (fallen, risen, items)
        for items in (10, 20, 37, 58, 100, 200)
        for fallen, risen in combinations(range(min(items, 18)), 2)
        if fallen + risen <= items
    ]
    differing = [
        table
        for table in tables
        if (change_of(falls(table[0], table[2], table[1])).p < 0.05)
        is not (_mcnemar_mid_p(table[0], table[1]) < 0.05)
    ]
    assert len(tables) > 700
    # A continuous and a discrete distribution may differ where p is close to .05.
    assert len(differing) <= 0.01 * len(tables), differing


def _mcnemar_mid_p(fallen: int, risen: int) -> float:
    n, least = fallen + risen, min(fallen, risen)
    if n == 0:
        return 1.0
    below = stats.binom.cdf(least - 1, n, 0.5)
    return float(min(1.0, 2 * (below + stats.binom.pmf(least, n, 0.5) / 2)))


def test_paired_change__interval_is_that_of_the_test() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        changes = random.choice([-1.0, -0.5, 0.0, 0.25, 1.0], random.integers(4, 40))
        test = change_of(changes.tolist())
        interval = test.interval(0.05)
        assert interval is not None
        assert (test.p < 0.05) is not (interval.low <= 0 <= interval.high)
        at_p = test.interval(test.p)
        # Elsewhere the end may be cut off at the largest possible
        # change, and is not that of the test.
        if 0.001 < test.p < 1 and at_p is not None and abs(test.effect) < 0.5:
            assert min(abs(at_p.low), abs(at_p.high)) == pytest.approx(0, abs=1e-6)


def test_paired_change__five_clusters_that_all_fall_are_called() -> None:
    clusters = [item // 12 for item in range(60)]
    # p is .011, that of five units alike: sixty items in five clusters are no more evidence.
    test = change_of(falls(60, 60), clusters)
    assert test.p < 0.05
    assert test.can_decide


@pytest.mark.parametrize("units", [2, 3])
def test_paired_change__too_few_units_cannot_decide(units: int) -> None:
    # Even changes that are nearly equal: their small spread may be chance.
    test = change_of([-0.9, -0.8, -0.85][:units])
    assert not test.can_decide
    assert test.p > 0.05


def test_paired_change__four_units_are_the_fewest_that_decide() -> None:
    assert MIN_UNITS == 4
    assert change_of([-0.9, -0.8, -0.85, -0.9]).can_decide


def test_paired_change__two_large_clusters_cannot_decide() -> None:
    clusters = [0] * 40 + [1] * 40 + [2, 3, 4, 5]
    test = change_of(falls(84, 84), clusters)
    assert test.degrees < 2
    assert not test.can_decide


def test_paired_change__identical_runs_allow_an_unseen_change() -> None:
    # 1 - .025^(1/37) = .0949 of all items may change although none of 37 did.
    test = change_of([0.0] * 37)
    interval = test.interval(0.05)
    assert test.p == 1.0
    assert interval is not None
    assert interval.high == pytest.approx(0.0949, abs=1e-4)
    assert change_of([0.0] * 37, width=None).interval(0.05) is None


def test_paired_change__interval_stays_inside_the_possible_change() -> None:
    interval = change_of(falls(36, 37)).interval(0.05)
    assert interval is not None
    assert -1.0 <= interval.low < interval.high < 0


def test_satterthwaite__equal_units_have_one_degree_less() -> None:
    assert satterthwaite(np.full(10, 0.1)) == pytest.approx(9)
    # Two of three equal shares and two small ones: nearly one degree.
    assert satterthwaite(np.array([0.49, 0.49, 0.01, 0.01])) < 1.2


def test_unpaired_change__is_welch_when_both_runs_vary() -> None:
    random = np.random.default_rng(2)
    # A small change: the distance of each run from the mean of
    # both adds little to Welch's variance.
    first, second = random.normal(0, 1, 200), random.normal(0.05, 2, 150)
    runs = [
        UnitInfluences.of_items((values - values.mean()) / len(values), np.arange(len(values)))
        for values in (first, second)
    ]
    test = unpaired_change_test(float(second.mean() - first.mean()), *runs)
    welch = stats.ttest_ind(second, first, equal_var=False)
    assert test.p == pytest.approx(welch.pvalue, rel=0.01)


def test_unpaired_change__all_pass_against_all_fail() -> None:
    runs = [UnitInfluences.of_items(np.zeros(20), np.arange(20)) for _ in range(2)]
    test = unpaired_change_test(-1.0, *runs, width=1.0)
    assert test.p < 0.001
    assert unpaired_change_test(0.0, *runs, width=1.0).p == 1.0


def test_skewness_of_blocks__by_hand() -> None:
    # Two items, two baseline runs and a candidate; deviations (1, 1, -2) and 0. v = 2 · 1.5² = 4.5,
    # k3 = (1 + 1 - 8)/3 · 1.5³ = -6.75, gamma = sqrt(2) · -6.75 / 4.5^1.5 = -1.
    deviations = np.array([[1.0, 1.0, -2.0], [0.0, 0.0, 0.0]])
    assert skewness_of_blocks(deviations, np.arange(2)) == pytest.approx(-1.0)
    assert skewness_of_blocks(deviations[:, :2], np.arange(2)) == 0.0


@given(st.floats(-0.9, 0.9), st.lists(st.floats(-1, 1), min_size=5, max_size=30))
def test_paired_change__skewed_interval_agrees_with_its_p(
    skewness: float, changes: list[float]
) -> None:
    shares = np.array(changes) / len(changes)
    assume(np.abs(shares).max() > 1e-3)
    test = paired_change_test(
        float(shares.sum()),
        shares,
        shares - shares.mean(),
        np.arange(len(shares)),
        skewness=skewness,
    )
    interval = test.interval(0.05)
    assert interval is not None
    assume(abs(test.p - 0.05) > 1e-9)
    assert (test.p < 0.05) is not (interval.low <= 0 <= interval.high)


@given(st.integers(4, 60), st.data())
def test_paired_change__one_more_failed_item_never_undoes_a_call(
    items: int, data: st.DataObject
) -> None:
    fallen = data.draw(st.integers(1, items))
    risen = data.draw(st.integers(0, items - fallen))
    is_called = change_of(falls(fallen, items, risen)).p < 0.05
    effect_is_fall = fallen > risen
    # When every item has fallen or risen, none is left to fall: one that rose does not.
    worse = (
        falls(fallen + 1, items, risen)
        if fallen + risen < items
        else falls(fallen, items, max(0, risen - 1))
    )
    if is_called and effect_is_fall:
        assert change_of(worse).p < 0.05


# From MONOTONE_UNITS on: fewer units are not limited, because their level would exceed 5 %.
CHANGES = st.lists(
    st.sampled_from([-1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2]), min_size=10, max_size=40
)


@given(CHANGES, st.data())
def test_paired_change__a_larger_fall_of_an_item_never_undoes_a_call(
    changes: list[float], data: st.DataObject
) -> None:
    item = data.draw(st.integers(0, len(changes) - 1))
    farther = data.draw(st.floats(-1.0, changes[item]))
    before = change_of(changes)
    assume(before.effect < 0)
    if before.p < 0.05:
        changes[item] = farther
        assert change_of(changes).p < 0.05


@given(CHANGES, st.floats(1.0, 3.0), st.floats(0.0, 1.0))
def test_paired_change__a_drop_of_all_items_never_undoes_a_call(
    changes: list[float], factor: float, shift: float
) -> None:
    before = change_of(changes, width=None)
    if before.effect < 0 and before.p < 0.05:
        assert change_of([factor * change for change in changes], width=None).p < 0.05
        assert change_of([change - shift for change in changes], width=None).p < 0.05


def test_paired_change__spread_of_logarithms_is_between_both_estimates() -> None:
    # Contributions with the spread 1 and influences with the spread 0: the first counts two thirds.
    changes = np.array([1.0, -1.0] * 10) / 20
    tests = [
        paired_change_test(0.1, changes, np.zeros(20), np.arange(20), is_logarithm=is_logarithm)
        for is_logarithm in (False, True)
    ]
    assert (tests[1].error / tests[0].error) ** 2 == pytest.approx(2 / 3)


def test_compare_passes__by_item() -> None:
    passes = compare_passes([True, True, False, False], [True, False, False, True])
    assert (passes.only_first, passes.only_second, passes.difference) == (1, 1, 0.0)
    assert passes.p == 1.0
    with pytest.raises(ValueError, match="shorter"):
        compare_passes([True], [])


def recorded_p(first: str, second: str) -> float:
    runs = [
        {task_result.task.id: task_result.passed() for task_result in recorded_report(name).results}
        for name in (first, second)
    ]
    tasks = sorted(runs[0].keys() & runs[1].keys())
    return compare_passes(*([run[task] for task in tasks] for run in runs)).p


def test_compare_passes__32_of_37_against_29_is_no_regression() -> None:
    assert recorded_p(HAIKU, OPUS) > 0.05


def test_compare_passes__runs_of_one_model_are_not_called() -> None:
    assert recorded_p(HAIKU_BEFORE, HAIKU) > 0.05
    assert recorded_p(GPT_BEFORE, GPT) > 0.05


@pytest.mark.parametrize(
    ("first", "second"), list(combinations((HAIKU, OPUS, GPT, HAIKU_BEFORE, GPT_BEFORE), 2))
)
def test_compare_passes__agrees_with_mcnemar_on_recorded_runs(first: str, second: str) -> None:
    runs = [
        {task_result.task.id: task_result.passed() for task_result in recorded_report(name).results}
        for name in (first, second)
    ]
    tasks = sorted(runs[0].keys() & runs[1].keys())
    passes = compare_passes(*([run[task] for task in tasks] for run in runs))
    mid_p = _mcnemar_mid_p(passes.only_first, passes.only_second)
    assert (passes.p < 0.05) is (mid_p < 0.05)
