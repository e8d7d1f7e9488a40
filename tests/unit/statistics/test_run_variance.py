"""The variance model by hand and against scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.run_variance import (
    CORRELATION_DECAY,
    RunVariance,
    estimate_run_variance,
    from_normal,
    prior_sd,
    to_normal,
)
from mosaico.statistics.verdict_rules import Scale
from tests.support.references import Reference

stats = Reference("scipy.stats")


def test_estimate_run_variance__one_run_takes_the_prior_as_it_is() -> None:
    variance = estimate_run_variance(0.0004, 0.0, 0, prior_sd=0.015)
    assert variance == pytest.approx(RunVariance(0.015**2, 0.0004, 0.0, 300.0))


def test_estimate_run_variance__without_known_items_one_run_says_nothing() -> None:
    assert estimate_run_variance(None, 0.0, 0, prior_sd=0.015).degrees == 1


def test_estimate_run_variance__the_prior_counts_as_one_run() -> None:
    variance = estimate_run_variance(0.0004, 0.009, 9, prior_sd=0.015)
    total = (0.0004 + 0.015**2 + 0.009) / 10
    assert variance.between == pytest.approx(total - 0.0004)
    # Satterthwaite: only the variance between runs is uncertain.
    assert variance.degrees == pytest.approx(10 * (total / (total - 0.0004)) ** 2)


def test_estimate_run_variance__runs_vary_at_least_as_their_items() -> None:
    variance = estimate_run_variance(0.0004, 0.0001, 99, prior_sd=0.015)
    assert variance.between == 0.0
    assert variance.of_mean(1, 1.0) == pytest.approx(0.0004)
    assert variance.degrees == 300


def test_estimate_run_variance__runs_of_several_traces_have_less_noise() -> None:
    variance = estimate_run_variance(0.25, 0.0, 0, prior_sd=0.015, inverse_traces=1 / 100)
    assert variance.of_mean(1, 1 / 100) == pytest.approx(0.0025 + 0.015**2)
    # Two runs with 100 and 25 traces: their noises are 0.0025 and 0.01.
    assert variance.of_mean(2, 0.05) == pytest.approx((0.0125 + 2 * 0.015**2) / 4)


def test_estimate_run_variance__a_part_of_the_correlation_is_taken_for_chance() -> None:
    variance = estimate_run_variance(0.0, 0.02, 19, prior_sd=0.0, neighbor_products=0.012)
    total = 0.02 / 20
    correlation = (0.012 - 0.02 * 2.4 / 19) / 19 / total
    assert variance.correlation == pytest.approx(correlation)
    # Two correlated runs: half of the variance, times 1 + correlation, and wider by its cube.
    mean = total / 2 * (1 + correlation) * (1 + correlation) ** 3
    assert variance.of_mean(2, 2.0) == pytest.approx(mean)


@given(st.floats(-0.1, 0.1), st.floats(0, 0.1), st.integers(0, 60))
def test_estimate_run_variance__correlations_are_bounded(
    products: float, squares: float, degrees: int
) -> None:
    variance = estimate_run_variance(
        0.001, squares, degrees, prior_sd=0.015, neighbor_products=products
    )
    assert 0 <= variance.correlation <= CORRELATION_DECAY
    assert variance.of_mean(5, 5.0) > 0
    assert 1 <= variance.degrees <= 300


def test_prior_sd__of_other_numbers_is_a_fraction_of_the_level() -> None:
    assert prior_sd(Scale.RATE, 0.5) == 0.015
    assert prior_sd(Scale.NUMBER, -50.0) == 1.0
    assert prior_sd(Scale.RATIO, 7.0) == 0.05


@given(st.floats(-8, 8), st.floats(5, 300))
def test_to_normal__agrees_with_scipy(t: float, degrees: float) -> None:
    expected = -stats.norm.ppf(stats.t.sf(abs(t), degrees))
    assert abs(to_normal(t, degrees)) == pytest.approx(expected, abs=0.06)


@given(st.floats(-6, 6), st.floats(1, 300))
def test_from_normal__is_the_inverse(z: float, degrees: float) -> None:
    assert to_normal(from_normal(z, degrees), degrees) == pytest.approx(z, abs=1e-6)
