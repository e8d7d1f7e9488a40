"""Two runs over the same items: derived by hand, then compared with scipy, then for any counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.statistics.hypothesis_tests import compare_passes, mcnemar
from app.statistics.intervals import (
    Interval,
    paired_difference_interval,
    unseen_share,
    wilson_interval,
)
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")

COUNTS = st.integers(min_value=0, max_value=60)


def test_mcnemar_counts_the_ways_in_which_coins_fall_as_unevenly() -> None:
    # Five and two of seven: C(7,0)+C(7,1) = 8 below, C(7,2) = 21 at two, of 128.
    found = mcnemar(5, 2)
    assert found.exact == pytest.approx(2 * (8 + 21) / 128, rel=1e-12)
    assert found.mid_p == pytest.approx(2 * (8 + 21 / 2) / 128, rel=1e-12)


def test_mcnemar_of_even_counts_is_one() -> None:
    # Two of four: below 1+4, at two 6, of 16: exact 22/16 is cut, mid-p is (10+6)/16.
    assert mcnemar(2, 2).exact == 1.0
    assert mcnemar(2, 2).mid_p == 1.0
    assert mcnemar(0, 0).exact == mcnemar(0, 0).mid_p == 1.0


def test_the_recorded_models_cannot_all_be_ranked() -> None:
    # Of 37 tasks: 5 against 2, 11 against 2, 10 against 4.
    assert mcnemar(5, 2).exact == pytest.approx(0.45, abs=0.005)
    assert mcnemar(11, 2).exact == pytest.approx(0.022, abs=0.0005)
    assert mcnemar(10, 4).exact == pytest.approx(0.18, abs=0.005)


@given(COUNTS, COUNTS)
def test_mcnemar_equals_the_binomial_test(b: int, c: int) -> None:
    found = mcnemar(b, c)
    assert found.mid_p <= found.exact <= 1.0
    assert mcnemar(c, b) == found
    if b + c:
        assert found.exact == pytest.approx(stats.binomtest(b, b + c).pvalue, rel=1e-12)


def test_mcnemar_of_thousands_is_still_a_number() -> None:
    assert 0.0 <= mcnemar(3000, 2000).exact < 1e-40
    assert mcnemar(5000, 5000).exact == 1.0


def test_the_wilson_interval_of_one_half() -> None:
    # p = 1/2: the middle stays 1/2 and half = z / (2 sqrt(n + z²)).
    z = 1.959963984540054
    found = wilson_interval(5, 10)
    assert found.low == pytest.approx(0.5 - z / (2 * math.sqrt(10 + z * z)), rel=1e-12)
    assert found.high == pytest.approx(0.5 + z / (2 * math.sqrt(10 + z * z)), rel=1e-12)


def test_wilson_intervals_end_at_zero_and_one() -> None:
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(10, 10).high == 1.0
    assert wilson_interval(0, 0) == Interval(low=0.0, high=1.0)


@given(st.integers(min_value=1, max_value=500), st.data())
def test_the_wilson_interval_equals_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(min_value=0, max_value=n))
    reference = stats.binomtest(k, n).proportion_ci(method="wilson")
    found = wilson_interval(k, n)
    assert found.low == pytest.approx(reference.low, abs=1e-12)
    assert found.high == pytest.approx(reference.high, abs=1e-12)


def test_what_no_item_did_a_share_of_the_others_may_do() -> None:
    assert unseen_share(1) == pytest.approx(0.975)
    assert unseen_share(20) == pytest.approx(0.16843, abs=1e-5)  # 1 - 0.025 ** 0.05
    assert unseen_share(0) == 1.0
    for n in (1, 2, 37, 1000):
        exact = stats.binomtest(0, n).proportion_ci(method="exact")
        assert unseen_share(n) == pytest.approx(exact.high, abs=1e-12)


def test_a_paired_interval_by_hand() -> None:
    # Ten items, five pass both times and five never: shares 1/2 and 1/2, difference 0.
    # product = 25, corrected 25 - 5 = 20, margins 5^4, phi = 20/25 = 0.8.
    # Each arm reaches w = half of the Wilson interval: sqrt(w² - 1.6 w² + w²) = w sqrt(0.4).
    w = 0.5 - wilson_interval(5, 10).low
    found = paired_difference_interval(both=5, only_first=0, only_second=0, neither=5)
    assert found.low == pytest.approx(-w * math.sqrt(0.4), rel=1e-12)
    assert found.high == pytest.approx(w * math.sqrt(0.4), rel=1e-12)


def test_pairs_that_differ_without_pattern_have_no_correlation() -> None:
    # product = 4 - 4 = 0, so phi = 0 and the arms join at right angles.
    found = paired_difference_interval(both=2, only_first=2, only_second=2, neither=2)
    w = 0.5 - wilson_interval(4, 8).low
    assert found.high == pytest.approx(w * math.sqrt(2), rel=1e-12)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_paired_interval_holds_the_difference_and_turns_with_the_order(
    both: int, first: int, second: int, neither: int
) -> None:
    found = paired_difference_interval(
        both=both, only_first=first, only_second=second, neither=neither
    )
    turned = paired_difference_interval(
        both=both, only_first=second, only_second=first, neither=neither
    )
    n = both + first + second + neither
    difference = (second - first) / n if n else 0.0
    assert -1.0 <= found.low <= difference + 1e-12
    assert difference - 1e-12 <= found.high <= 1.0
    assert turned.low == pytest.approx(-found.high, abs=1e-12)


def test_runs_are_compared_item_by_item() -> None:
    found = compare_passes([True, True, False, False], [True, False, False, True])
    assert (found.items, found.only_first, found.only_second) == (4, 1, 1)
    assert found.difference == 0.0
    assert compare_passes([], []).difference == 0.0


def test_runs_of_different_length_are_not_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare_passes([True], [])
