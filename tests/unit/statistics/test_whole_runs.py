"""What whole runs add to the error of a change, by hand."""

import math

import pytest

from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import RunsBasis, Scale
from mosaico.statistics.whole_runs import MeasuredRuns, WholeRuns, measure_runs


def variance_of(runs: WholeRuns, level: float, *, is_logarithm: bool = False) -> float:
    return runs.effect(level, is_logarithm=is_logarithm).variance


def test_assumed__for_each_scale() -> None:
    share, number, ratio = (WholeRuns(scale=scale) for scale in Scale)
    # Both runs of a pair vary: 1.5 points of a share, 2 % of another number, 5 % of a cost.
    assert variance_of(share, 0.8) == pytest.approx(2 * 0.015**2)
    assert variance_of(number, 4.0) == pytest.approx(2 * 0.08**2)
    assert variance_of(ratio, 3.0, is_logarithm=True) == pytest.approx(2 * 0.05**2)
    # A cost that was 0 in one run has no logarithm.
    assert variance_of(ratio, 3.0) == pytest.approx(2 * 0.15**2)
    assert variance_of(number, 4.0, is_logarithm=True) == pytest.approx(2 * 0.02**2)
    effect = share.effect(0.8, is_logarithm=False)
    assert effect.variation == (0.015, RunsBasis.ASSUMED, 0)
    assert effect.degrees == math.inf


def test_assumed__a_mean_of_baseline_runs_varies_less() -> None:
    effect = WholeRuns(scale=Scale.RATE).effect(0.8, is_logarithm=False, baseline_runs=5)
    assert effect.variance == pytest.approx((1 + 1 / 5) * 0.015**2)


def test_stated__replaces_what_was_measured() -> None:
    measured = MeasuredRuns(Scale.RATE, 0.04**2, 12.0, 8)
    runs = WholeRuns(scale=Scale.RATE, measured=measured, given_sd=0.01)
    effect = runs.effect(0.8, is_logarithm=False)
    assert effect.variance == pytest.approx(2 * 0.01**2)
    assert effect.variation is not None
    assert effect.variation.basis is RunsBasis.GIVEN
    assert effect.variation.sd == pytest.approx(0.01)


def test_measured__ten_runs_by_hand() -> None:
    # Alternately 0.78 and 0.82, by items that do not vary: the squares about the mean are 10 * 0.02².
    levels = [RunLevel(run, 0.8 + 0.02 * (-1) ** run, noise=1e-12) for run in range(10)]
    measured = measure_runs(levels, Scale.RATE)
    assert measured is not None
    # The assumption counts as one run.
    assert measured.between == pytest.approx((10 * 0.02**2 + 0.015**2) / 10, rel=1e-6)
    assert measured.runs == 10
    assert measured.degrees == pytest.approx(10)
    effect = WholeRuns(scale=Scale.RATE, measured=measured).effect(0.8, is_logarithm=False)
    assert effect.variance == pytest.approx(2 * measured.between)
    assert effect.degrees == measured.degrees


def test_measured__few_quiet_runs_are_no_worse_than_the_assumption() -> None:
    levels = [RunLevel(0, 0.8), RunLevel(1, 0.801, noise=0.0004)]
    measured = measure_runs(levels, Scale.RATE)
    assert measured is not None
    assert measured.degrees < 10
    runs = WholeRuns(scale=Scale.RATE, measured=measured)
    kept = runs.effect(0.8, is_logarithm=False, error=0.06)
    assert kept.degrees == math.inf
    # What was used is what is said.
    assert kept.variation == (0.015, RunsBasis.ASSUMED, 2)
    # With runs that vary more, few of them are as uncertain as they are.
    wild = measure_runs([RunLevel(0, 0.8), RunLevel(1, 0.9, noise=0.0004)], Scale.RATE)
    effect = WholeRuns(scale=Scale.RATE, measured=wild).effect(0.8, is_logarithm=False, error=0.03)
    assert wild is not None
    assert effect.degrees == wild.degrees


def test_measured__values_without_items_do_not_count_their_noise_twice() -> None:
    levels = [RunLevel(run, 0.8 + 0.02 * (-1) ** run) for run in range(10)]
    measured = measure_runs(levels, Scale.RATE)
    assert measured is not None
    assert not measured.has_items
    runs = WholeRuns(scale=Scale.RATE, measured=measured)
    effect = runs.effect(0.8, is_logarithm=False, error=math.sqrt(2) * 0.01)
    assert effect.variance == pytest.approx(2 * (measured.between - 0.01**2))


def test_measured__needs_two_runs_with_a_level() -> None:
    assert measure_runs([RunLevel(0, 0.8)], Scale.RATE) is None
    zero = RunLevel(1, -9.0, is_zero=True)
    assert measure_runs([RunLevel(0, -1.0), zero], Scale.RATIO) is None
