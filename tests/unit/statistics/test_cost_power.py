"""The fit of costs and the effect that its simulated runs detect."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaico.statistics.change import paired_change_test
from mosaico.statistics.cost_power import LogNormalItems, fit_log_normal
from mosaico.statistics.power import ChangeModel, settle_equivalence
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.verdict_rules import Remedy, Scale


def draw(
    random: np.random.Generator, items: int, *, level: float, noise: float, factor: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    levels = random.normal(0, level, items)
    runs = np.exp(levels + random.normal(0, noise, (2, items)))
    return runs[0], factor * runs[1]


def test_fit_log_normal__finds_the_spreads() -> None:
    baseline, candidate = draw(np.random.default_rng(3), 4000, level=1.0, noise=0.5, factor=3.0)
    fit = fit_log_normal(baseline, candidate, np.arange(4000), trial=None, trials=1)
    assert fit is not None
    assert fit.levels == pytest.approx(1.0, rel=0.1)
    assert fit.runs == pytest.approx(0.25, rel=0.1)


def test_fit_log_normal__finds_what_clusters_share() -> None:
    random = np.random.default_rng(4)
    units = np.repeat(np.arange(400), 10)
    baseline, candidate = draw(random, 4000, level=1.0, noise=0.5)
    candidate *= np.exp(random.normal(0, 0.6, 400))[units]
    fit = fit_log_normal(baseline, candidate, units, trial=None, trials=1)
    assert fit is not None
    # Of the two runs only one was shifted: 0.36 is the variance of the change.
    assert fit.clusters == pytest.approx(0.36 / 2, rel=0.2)
    assert fit.sizes == (10,) * 400


@pytest.mark.parametrize("baseline", [[1.0, 2.0], [1.0, 0.0, 2.0, 3.0]])
def test_fit_log_normal__needs_three_positive_items(baseline: list[float]) -> None:
    values = np.array(baseline)
    units = np.arange(len(values))
    assert fit_log_normal(values, values, units, trial=None, trials=1) is None


def test_detectable_effect__is_found_by_the_test_in_four_of_five_runs() -> None:
    # 0.36 is the variance of the noise 0.6 with which `draw` makes the runs below.
    fit = LogNormalItems(levels=1.0, runs=0.36)
    effect = fit.detectable_effect(30, 1)
    random, detected_count = np.random.default_rng(5), 0
    for _ in range(400):
        baseline, candidate = draw(random, 30, level=1.0, noise=0.6, factor=math.exp(effect))
        change = math.log(candidate.mean() / baseline.mean())
        slope = change / (candidate.mean() - baseline.mean())
        relative = candidate / candidate.mean() - baseline / baseline.mean()
        test = paired_change_test(
            change, slope * (candidate - baseline) / 30, relative / 30, np.arange(30),
            is_logarithm=True,
        )  # fmt: skip
        detected_count += test.p < 0.05 and change > 0
    # The standard error of 80 % of 400 is 2 %.
    assert 0.75 <= detected_count / 400 <= 0.89


def test_detectable_effect__of_few_items_with_heavy_tails_is_infinite() -> None:
    fit = LogNormalItems(levels=2.0, runs=1.0)
    assert fit.detectable_effect(8, 1) == math.inf
    assert fit.detectable_effect(2, 1) == math.inf
    assert math.isfinite(fit.detectable_effect(100, 1))


def test_detectable_effect__of_many_items_falls_with_the_root() -> None:
    fit = LogNormalItems(levels=1.0, runs=0.3)
    assert fit.detectable_effect(4000, 1) == pytest.approx(
        fit.detectable_effect(1000, 1) / 2, rel=0.01
    )


def test_detectable_effect__repeats_the_measured_clusters() -> None:
    fit = LogNormalItems(levels=0.5, runs=0.2, clusters=0.1, sizes=(10,) * 6)
    assert fit.detectable_effect(120, 1) < fit.detectable_effect(60, 1)
    # The same variance of an item, 0.2 + 0.1, without clusters.
    without = LogNormalItems(levels=0.5, runs=0.3)
    assert fit.detectable_effect(60, 1) > without.detectable_effect(60, 1)


@given(st.floats(0.1, 1.5), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
# Each effect is found by simulated runs.
@settings(max_examples=10)
def test_detectable_effect__more_trials_never_increase_it(
    levels: float, runs: float, trial: float
) -> None:
    fit = LogNormalItems(levels=levels, runs=runs, trial=trial, measured_trials=2)
    effects = [fit.detectable_effect(60, trials) for trials in (1, 2, 5, 20)]
    # The draws are the same, so that only the grid of effects (6.9 / 15**3) leaves room.
    assert all(after <= before + 0.003 for before, after in pairwise(effects))


def test_settle_equivalence__of_costs_names_the_least_trials_that_settle() -> None:
    costs = LogNormalItems(levels=0.5, runs=0.0, trial=0.36, measured_trials=3)
    model = ChangeModel(scale=Scale.RATIO, items=0.0, trial=0.4, costs=costs)
    remedy = settle_equivalence(model, items=60, trials=3, margin=0.1)
    assert remedy is not None
    needed = remedy.more_trials
    assert needed is not None
    assert not remedy.at_best
    assert costs.settles(60, needed, 0.1)
    assert not costs.settles(60, needed - 1, 0.1)
    assert settle_equivalence(model, items=60, trials=needed, margin=0.1) is None


def test_settle_equivalence__of_costs_that_vary_between_runs_needs_items() -> None:
    costs = LogNormalItems(levels=0.5, runs=0.5, trial=0.1, measured_trials=3)
    model = ChangeModel(scale=Scale.RATIO, items=1.0, trial=0.1, costs=costs)
    assert settle_equivalence(model, items=60, trials=3, margin=0.05) == Remedy(None)


def test_noise__unknown_trials_are_the_best_case() -> None:
    fit = LogNormalItems(levels=1.0, runs=0.4, measured_trials=2)
    best = fit.with_noise_of_trials()
    assert best.noise(2) == pytest.approx(fit.noise(2))
    assert best.noise(20) < fit.noise(20) == fit.noise(2)
