"""Pass rates over the same items: by hand, then against scipy, then for any counts."""

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


def test_mcnemar__by_hand() -> None:
    # Five and two of seven: C(7,0)+C(7,1) = 8 below, C(7,2) = 21 at two, of 128.
    test = mcnemar(5, 2)
    assert test.exact == pytest.approx(2 * (8 + 21) / 128, rel=1e-12)
    assert test.mid_p == pytest.approx(2 * (8 + 21 / 2) / 128, rel=1e-12)


def test_mcnemar__even_counts_are_one() -> None:
    # Two of four: below 1+4, at two 6, of 16: exact 22/16 is cut, mid-p is (10+6)/16.
    assert mcnemar(2, 2).exact == 1.0
    assert mcnemar(2, 2).mid_p == 1.0
    assert mcnemar(0, 0).exact == mcnemar(0, 0).mid_p == 1.0


def test_mcnemar__recorded_models() -> None:
    # Of 37 tasks: 5 against 2, 11 against 2, 10 against 4.
    assert mcnemar(5, 2).exact == pytest.approx(0.45, abs=0.005)
    assert mcnemar(11, 2).exact == pytest.approx(0.022, abs=0.0005)
    assert mcnemar(10, 4).exact == pytest.approx(0.18, abs=0.005)


@given(COUNTS, COUNTS)
def test_mcnemar__equals_the_binomial_test(b: int, c: int) -> None:
    test = mcnemar(b, c)
    assert test.mid_p <= test.exact <= 1.0
    assert mcnemar(c, b) == test
    if b + c:
        assert test.exact == pytest.approx(stats.binomtest(b, b + c).pvalue, rel=1e-12)


def test_mcnemar__large_counts_are_finite() -> None:
    assert 0.0 <= mcnemar(3000, 2000).exact < 1e-40
    assert mcnemar(5000, 5000).exact == 1.0


def test_wilson_interval__of_one_half() -> None:
    # p = 1/2: the middle stays 1/2 and half = z / (2 sqrt(n + z²)).
    z = 1.959963984540054
    interval = wilson_interval(5, 10)
    assert interval.low == pytest.approx(0.5 - z / (2 * math.sqrt(10 + z * z)), rel=1e-12)
    assert interval.high == pytest.approx(0.5 + z / (2 * math.sqrt(10 + z * z)), rel=1e-12)


def test_wilson_interval__ends_at_zero_and_one() -> None:
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(10, 10).high == 1.0
    assert wilson_interval(0, 0) == Interval(low=0.0, high=1.0)


@given(st.integers(min_value=1, max_value=500), st.data())
def test_wilson_interval__equals_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(min_value=0, max_value=n))
    reference = stats.binomtest(k, n).proportion_ci(method="wilson")
    interval = wilson_interval(k, n)
    assert interval.low == pytest.approx(reference.low, abs=1e-12)
    assert interval.high == pytest.approx(reference.high, abs=1e-12)


def test_unseen_share__equals_clopper_pearson() -> None:
    assert unseen_share(1) == pytest.approx(0.975)
    assert unseen_share(20) == pytest.approx(0.16843, abs=1e-5)  # 1 - 0.025 ** 0.05
    assert unseen_share(0) == 1.0
    for n in (1, 2, 37, 1000):
        exact = stats.binomtest(0, n).proportion_ci(method="exact")
        assert unseen_share(n) == pytest.approx(exact.high, abs=1e-12)


def test_paired_interval__by_hand() -> None:
    # Ten items, five pass both times and five never: shares 1/2 and 1/2, difference 0.
    # product = 25, corrected 25 - 5 = 20, margins 5^4, phi = 20/25 = 0.8.
    # Each arm reaches w = half of the Wilson interval: sqrt(w² - 1.6 w² + w²) = w sqrt(0.4).
    w = 0.5 - wilson_interval(5, 10).low
    interval = paired_difference_interval(both=5, only_first=0, only_second=0, neither=5)
    assert interval.low == pytest.approx(-w * math.sqrt(0.4), rel=1e-12)
    assert interval.high == pytest.approx(w * math.sqrt(0.4), rel=1e-12)


def test_paired_interval__without_correlation() -> None:
    # product = 4 - 4 = 0, so phi = 0 and the arms join at right angles.
    interval = paired_difference_interval(both=2, only_first=2, only_second=2, neither=2)
    w = 0.5 - wilson_interval(4, 8).low
    assert interval.high == pytest.approx(w * math.sqrt(2), rel=1e-12)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_paired_interval__contains_the_difference_and_is_symmetric(
    both: int, first: int, second: int, neither: int
) -> None:
    interval = paired_difference_interval(
        both=both, only_first=first, only_second=second, neither=neither
    )
    turned = paired_difference_interval(
        both=both, only_first=second, only_second=first, neither=neither
    )
    n = both + first + second + neither
    difference = (second - first) / n if n else 0.0
    assert -1.0 <= interval.low <= difference + 1e-12
    assert difference - 1e-12 <= interval.high <= 1.0
    assert turned.low == pytest.approx(-interval.high, abs=1e-12)


def test_compare_passes__by_item() -> None:
    passes = compare_passes([True, True, False, False], [True, False, False, True])
    assert (passes.items, passes.only_first, passes.only_second) == (4, 1, 1)
    assert passes.difference == 0.0
    assert compare_passes([], []).difference == 0.0


def test_compare_passes__refuses_different_lengths() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare_passes([True], [])
