"""Changes between different items: by hand, then against scipy and statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.statistics.intervals import Interval, difference_interval, wilson_interval
from app.statistics.trials import ItemSums
from app.statistics.unpaired_change import compare_unpaired
from app.statistics.verdict_rules import Note, Scale, Side, Verdict, VerdictRule
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


def test_difference_interval__by_hand() -> None:
    w = wilson_interval(5, 10).high - 0.5
    interval = difference_interval(5, 10, 5, 10)
    assert (interval.low, interval.high) == pytest.approx((-w * math.sqrt(2), w * math.sqrt(2)))


@pytest.mark.parametrize(("first", "second"), [((8, 10), (4, 12)), ((30, 37), (20, 40))])
def test_difference_interval__equals_statsmodels(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    low, high = proportion.confint_proportions_2indep(*second, *first, method="newcomb")
    interval = difference_interval(*first, *second)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)


def test_difference_interval__without_items_is_everything() -> None:
    assert difference_interval(0, 0, 0, 0) == Interval(low=-math.sqrt(0.5), high=math.sqrt(0.5))


@given(COUNTS, COUNTS)
@settings(max_examples=30)
def test_compare_unpaired__passes_use_fisher(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    change = compare_unpaired(passes(*first), passes(*second), RATE)
    assert change.p == pytest.approx(stats.fisher_exact([first, second]).pvalue, abs=1e-12)
    assert Note.UNPAIRED in change.notes
    assert change.n_items == min(sum(first), sum(second))


def test_compare_unpaired__detects_large_drops_only() -> None:
    assert compare_unpaired(passes(37, 3), passes(20, 20), RATE).verdict is Verdict.REGRESSED
    assert compare_unpaired(passes(32, 5), passes(29, 8), RATE).verdict is Verdict.INCONCLUSIVE


def test_compare_unpaired__means_use_welch() -> None:
    random = np.random.default_rng(9)
    first, second = random.normal(5, 1, 30), random.normal(4, 3, 12)
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    change = compare_unpaired(run_of(first), run_of(second), rule)
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval()
    assert change.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (change.low, change.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert change.margin == pytest.approx(0.05 * first.mean())


def test_compare_unpaired__latency_is_a_ratio() -> None:
    rule = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
    first, second = np.tile([1.0, 1.1], 10), np.tile([2.0, 2.2], 8)
    change = compare_unpaired(run_of(first), run_of(second), rule)
    assert change.effect == pytest.approx(1.0)
    assert change.verdict is Verdict.REGRESSED
    assert change.baseline_value == pytest.approx(math.sqrt(1.1))
    assert compare_unpaired(run_of(first - 1), run_of(second), rule).notes == (Note.UNDEFINED,)


def test_compare_unpaired__degenerate_samples_are_inconclusive() -> None:
    assert compare_unpaired(run_of(np.empty(0)), passes(1, 1), RATE).verdict is Verdict.INVALID
    rule = VerdictRule(side=Side.LOW, scale=Scale.NUMBER)
    for constant in (np.array([2.0]), np.full(9, 2.0)):
        change = compare_unpaired(run_of(np.full(9, 3.0)), run_of(constant), rule)
        assert (change.verdict, change.low) == (Verdict.INCONCLUSIVE, None)
