"""Intervals of shares: by hand, then against scipy, then for any counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.intervals import score_interval, unseen_share
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")


# The 97.5 % quantile of the normal distribution.
Z = 1.959963984540054


def test_score_interval__of_one_half() -> None:
    # p = 1/2: the middle stays 1/2 and half = z / (2 sqrt(n + z²)).
    interval = score_interval(0.5, 10, Z)
    assert interval.low == pytest.approx(0.5 - Z / (2 * math.sqrt(10 + Z * Z)), rel=1e-12)
    assert interval.high == pytest.approx(0.5 + Z / (2 * math.sqrt(10 + Z * Z)), rel=1e-12)


def test_score_interval__without_trials_is_everything() -> None:
    interval = score_interval(0.25, 0, Z)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_score_interval__ends_at_zero_and_one() -> None:
    assert score_interval(0.0, 10, Z).low == 0.0
    assert score_interval(1.0, 10, Z).high == 1.0


@given(st.integers(min_value=1, max_value=500), st.data())
def test_score_interval__equals_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(min_value=0, max_value=n))
    reference = stats.binomtest(k, n).proportion_ci(method="wilson")
    interval = score_interval(k / n, n, Z)
    assert interval.low == pytest.approx(reference.low, abs=1e-12)
    assert interval.high == pytest.approx(reference.high, abs=1e-12)


def test_unseen_share__equals_clopper_pearson() -> None:
    assert unseen_share(1) == pytest.approx(0.975)
    assert unseen_share(20) == pytest.approx(0.16843, abs=1e-5)  # 1 - 0.025 ** 0.05
    assert unseen_share(0) == 1.0
    for n in (1, 2, 37, 1000):
        exact = stats.binomtest(0, n).proportion_ci(method="exact")
        assert unseen_share(n) == pytest.approx(exact.high, abs=1e-12)
