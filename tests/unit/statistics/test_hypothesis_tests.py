"""Tests of differences: by hand, then against scipy and statsmodels."""

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


def test_sign_flip__five_regressions_are_two_of_32_patterns() -> None:
    assert sign_flip_p(np.array([-0.1, -0.2, -0.1, -0.3, -0.2])) == 2 / 32


def test_sign_flip__unchanged_items_do_not_count() -> None:
    assert sign_flip_p(np.array([0.0, -0.1, 0.0, -0.2])) == 2 / 4
    assert sign_flip_p(np.zeros(20)) == 1.0


def test_sign_flip__cancelling_differences_are_no_evidence() -> None:
    assert sign_flip_p(np.array([0.1, 0.2, -0.3])) == 1.0


@given(st.lists(EIGHTHS, min_size=2, max_size=7).map(np.array))
@settings(max_examples=15)
def test_sign_flip__exact_p_equals_scipy(differences: np.ndarray) -> None:
    reference = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert sign_flip_p(differences) == pytest.approx(min(1.0, reference.pvalue), abs=1e-12)


def test_sign_flip__drawn_p_is_reproducible_and_near_the_t_test() -> None:
    differences = np.random.default_rng(3).normal(0.1, 0.3, 60)
    p = sign_flip_p(differences)
    assert p == pytest.approx(paired_t_p(differences), abs=0.01)
    assert sign_flip_p(differences) == p


def test_sign_flip__ties_count_by_half() -> None:
    # 16 rose and 4 fell, all by as much: of the ways to choose 20 signs, P[X ≤ 3] + ½ P[X = 4] on both
    # sides, which is McNemar's mid-p.
    p = sign_flip_p(np.array([0.5] * 16 + [-0.5] * 4))
    exact = mcnemar(16, 4).mid_p
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9999))


def test_paired_t__by_hand() -> None:
    # Mean 2, deviation sqrt(2): t = 2 / (sqrt(2) / sqrt(2)) = 2 with one degree of freedom, where
    # the tail is 1/2 - atan(t)/π on each side.
    assert paired_t_p(np.array([1.0, 3.0])) == pytest.approx(1 - 2 * math.atan(2) / math.pi)


@given(st.lists(st.tuples(TENTHS, TENTHS), min_size=2, max_size=30))
@settings(max_examples=30)
def test_paired_t__equals_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    differences = second - first
    if standard_error(differences) > 1e-9:
        expected = stats.ttest_rel(second, first).pvalue
        assert paired_t_p(differences) == pytest.approx(expected, abs=1e-12)


def test_paired_t__without_variance() -> None:
    assert paired_t_p(np.array([0.5, 0.5, 0.5])) == 0.0
    assert paired_t_p(np.zeros(3)) == 1.0


@given(DIFFERENCES)
@settings(max_examples=30)
def test_wilcoxon__equals_scipy(differences: np.ndarray) -> None:
    if differences.any():
        reference = stats.wilcoxon(
            differences, zero_method="pratt", method="asymptotic", correction=False
        )
        assert wilcoxon_p(differences) == pytest.approx(reference.pvalue, abs=1e-9)
    else:
        assert wilcoxon_p(differences) == 1.0


def test_clustered_error__of_single_items_is_the_standard_error() -> None:
    differences = np.array([0.1, -0.2, 0.4, 0.3, -0.1])
    clusters = np.arange(5)
    assert clustered_error(differences, clusters) == pytest.approx(standard_error(differences))
    assert cluster_t_p(differences, clusters) == pytest.approx(paired_t_p(differences))


def test_clustered_error__by_hand() -> None:
    # Mean 1/2; the clusters deviate by +1 and -1: sqrt(2/1 · (1 + 1)) / 4 = 1/2, where s/√n is 0.29.
    values = np.array([1.0, 1.0, 0.0, 0.0])
    assert clustered_error(values, np.array([0, 0, 1, 1])) == pytest.approx(0.5)
    assert standard_error(values) == pytest.approx(math.sqrt(1 / 3) / 2)


def test_clustered_error__equals_statsmodels() -> None:
    random = np.random.default_rng(7)
    clusters = random.integers(0, 8, 50)
    clusters[:8] = np.arange(8)
    values = random.normal(size=50) + random.normal(size=8)[clusters]
    fit = linear_model.OLS(values, np.ones(50)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": True}
    )
    # statsmodels multiplies by (n - 1)/(n - 1) for a lone constant, and by C/(C - 1) as we do.
    assert clustered_error(values, clusters) == pytest.approx(float(fit.bse[0]), rel=1e-9)


def test_cluster_flip__flips_whole_clusters() -> None:
    # Three clusters that all fell: two of eight ways, however many items they hold.
    differences = np.full(30, -0.1)
    assert cluster_flip_p(differences, np.repeat(np.arange(3), 10)) == 2 / 8
    assert sign_flip_p(differences) < 0.001
