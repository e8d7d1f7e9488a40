"""Differences of the same items: derived by hand, then compared with scipy and statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.statistics.hypothesis_tests import (
    cluster_flip_p,
    cluster_t_p,
    mcnemar,
    paired_t_p,
    sign_flip_p,
    wilcoxon_p,
)
from app.statistics.means import clustered_error, standard_error
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")
linear_model = Reference("statsmodels.regression.linear_model")

TENTHS = st.integers(-10, 10).map(lambda tenths: tenths / 10)
# Their sums are exact, so that what is as far from 0 is so for both.
EIGHTHS = st.integers(-8, 8).map(lambda eighths: eighths / 8)
DIFFERENCES = st.lists(TENTHS, min_size=2, max_size=9).map(np.array)


def test_all_of_five_that_fell_are_two_of_the_32_ways_to_choose_the_signs() -> None:
    assert sign_flip_p(np.array([-0.1, -0.2, -0.1, -0.3, -0.2])) == 2 / 32


def test_items_that_did_not_change_turn_no_sign() -> None:
    assert sign_flip_p(np.array([0.0, -0.1, 0.0, -0.2])) == 2 / 4
    assert sign_flip_p(np.zeros(20)) == 1.0


def test_differences_that_cancel_are_no_evidence() -> None:
    assert sign_flip_p(np.array([0.1, 0.2, -0.3])) == 1.0


@given(st.lists(EIGHTHS, min_size=2, max_size=7).map(np.array))
@settings(max_examples=15)
def test_the_exact_flip_equals_scipy(differences: np.ndarray) -> None:
    reference = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert sign_flip_p(differences) == pytest.approx(min(1.0, reference.pvalue), abs=1e-12)


def test_drawn_flips_come_near_the_t_test_and_are_the_same_each_time() -> None:
    differences = np.random.default_rng(3).normal(0.1, 0.3, 60)
    p = sign_flip_p(differences)
    assert p == pytest.approx(paired_t_p(differences), abs=0.01)
    assert sign_flip_p(differences) == p


def test_drawn_flips_that_are_just_as_far_count_by_half() -> None:
    # 16 rose and 4 fell, all by as much: of the ways to choose 20 signs, P[X ≤ 3] + ½ P[X = 4] on both
    # sides, which is McNemar's mid-p.
    p = sign_flip_p(np.array([0.5] * 16 + [-0.5] * 4))
    exact = mcnemar(16, 4).mid_p
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9999))


def test_the_paired_t_test_by_hand() -> None:
    # Mean 2, deviation sqrt(2): t = 2 / (sqrt(2) / sqrt(2)) = 2 with one degree of freedom, where
    # the tail is 1/2 - atan(t)/π on each side.
    assert paired_t_p(np.array([1.0, 3.0])) == pytest.approx(1 - 2 * math.atan(2) / math.pi)


@given(st.lists(st.tuples(TENTHS, TENTHS), min_size=2, max_size=30))
@settings(max_examples=30)
def test_the_paired_t_test_equals_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    differences = second - first
    if standard_error(differences) > 1e-9:
        expected = stats.ttest_rel(second, first).pvalue
        assert paired_t_p(differences) == pytest.approx(expected, abs=1e-12)


def test_items_that_all_changed_alike_are_certain_and_those_that_did_not_are_not() -> None:
    assert paired_t_p(np.array([0.5, 0.5, 0.5])) == 0.0
    assert paired_t_p(np.zeros(3)) == 1.0


@given(DIFFERENCES)
@settings(max_examples=30)
def test_wilcoxon_equals_scipy(differences: np.ndarray) -> None:
    if differences.any():
        reference = stats.wilcoxon(
            differences, zero_method="pratt", method="asymptotic", correction=False
        )
        assert wilcoxon_p(differences) == pytest.approx(reference.pvalue, abs=1e-9)
    else:
        assert wilcoxon_p(differences) == 1.0


def test_clusters_of_one_are_no_clusters() -> None:
    differences = np.array([0.1, -0.2, 0.4, 0.3, -0.1])
    places = np.arange(5)
    assert clustered_error(differences, places) == pytest.approx(standard_error(differences))
    assert cluster_t_p(differences, places) == pytest.approx(paired_t_p(differences))


def test_the_clustered_error_by_hand() -> None:
    # Mean 1/2; the clusters deviate by +1 and -1: sqrt(2/1 · (1 + 1)) / 4 = 1/2, where s/√n is 0.29.
    values = np.array([1.0, 1.0, 0.0, 0.0])
    assert clustered_error(values, np.array([0, 0, 1, 1])) == pytest.approx(0.5)
    assert standard_error(values) == pytest.approx(math.sqrt(1 / 3) / 2)


def test_the_clustered_error_equals_statsmodels() -> None:
    random = np.random.default_rng(7)
    places = random.integers(0, 8, 50)
    places[:8] = np.arange(8)
    values = random.normal(size=50) + random.normal(size=8)[places]
    fit = linear_model.OLS(values, np.ones(50)).fit(
        cov_type="cluster", cov_kwds={"groups": places, "use_correction": True}
    )
    # statsmodels multiplies by (n - 1)/(n - 1) for a lone constant, and by C/(C - 1) as we do.
    assert clustered_error(values, places) == pytest.approx(float(fit.bse[0]), rel=1e-9)


def test_clusters_turn_as_one() -> None:
    # Three clusters that all fell: two of eight ways, however many items they hold.
    differences = np.full(30, -0.1)
    assert cluster_flip_p(differences, np.repeat(np.arange(3), 10)) == 2 / 8
    assert sign_flip_p(differences) < 0.001
