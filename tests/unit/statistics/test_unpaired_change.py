"""Two runs of different items: by hand, then as scipy and statsmodels have it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.statistics.intervals import Interval, difference_interval, wilson_interval
from app.statistics.trials import ItemSums
from app.statistics.unpaired_change import compare_unpaired
from app.statistics.verdict import Note, Scale, Side, Verdict, VerdictRule
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")
proportion = Reference("statsmodels.stats.proportion")

RATE = VerdictRule(side=Side.LOW)
COUNTS = st.tuples(st.integers(0, 20), st.integers(0, 20)).filter(any)


def run_of(values: np.ndarray) -> ItemSums:
    return ItemSums(n=np.ones(len(values)), total=values, squares=values**2)


def passes(passed: int, failed: int) -> ItemSums:
    return run_of(np.repeat([1.0, 0.0], [passed, failed]))


def test_the_interval_of_two_shares_joins_those_of_each_at_a_right_angle() -> None:
    w = wilson_interval(5, 10).high - 0.5
    found = difference_interval(5, 10, 5, 10)
    assert (found.low, found.high) == pytest.approx((-w * math.sqrt(2), w * math.sqrt(2)))


@pytest.mark.parametrize(("first", "second"), [((8, 10), (4, 12)), ((30, 37), (20, 40))])
def test_the_interval_of_two_shares_equals_statsmodels(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    low, high = proportion.confint_proportions_2indep(*second, *first, method="newcomb")
    found = difference_interval(*first, *second)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_of_no_items_every_difference_is_possible() -> None:
    assert difference_interval(0, 0, 0, 0) == Interval(low=-math.sqrt(0.5), high=math.sqrt(0.5))


@given(COUNTS, COUNTS)
@settings(max_examples=30)
def test_passes_of_other_items_are_told_apart_by_fisher(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    found = compare_unpaired(passes(*first), passes(*second), RATE)
    assert found.p == pytest.approx(stats.fisher_exact([first, second]).pvalue, abs=1e-12)
    assert Note.UNPAIRED in found.notes
    assert found.n_items == min(sum(first), sum(second))


def test_a_drop_between_other_items_is_a_regression_only_when_it_is_large() -> None:
    assert compare_unpaired(passes(37, 3), passes(20, 20), RATE).verdict is Verdict.REGRESSED
    assert compare_unpaired(passes(32, 5), passes(29, 8), RATE).verdict is Verdict.INCONCLUSIVE


def test_means_of_other_items_are_told_apart_by_welch() -> None:
    random = np.random.default_rng(9)
    first, second = random.normal(5, 1, 30), random.normal(4, 3, 12)
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    found = compare_unpaired(run_of(first), run_of(second), rule)
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert found.margin == pytest.approx(0.05 * first.mean())


def test_latency_of_other_items_is_a_ratio() -> None:
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    first, second = np.tile([1.0, 1.1], 10), np.tile([2.0, 2.2], 8)
    found = compare_unpaired(run_of(first), run_of(second), rule)
    assert found.effect == pytest.approx(1.0)
    assert found.verdict is Verdict.REGRESSED
    assert found.baseline_value == pytest.approx(math.sqrt(1.1))
    assert compare_unpaired(run_of(first - 1), run_of(second), rule).notes == (Note.UNDEFINED,)


def test_what_says_nothing_concludes_nothing() -> None:
    assert compare_unpaired(run_of(np.empty(0)), passes(1, 1), RATE).verdict is Verdict.INVALID
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    for one in (np.array([2.0]), np.full(9, 2.0)):
        found = compare_unpaired(run_of(np.full(9, 3.0)), run_of(one), rule)
        assert (found.verdict, found.low) == (Verdict.INCONCLUSIVE, None)
