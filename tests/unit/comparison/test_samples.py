"""Two runs of different items of unequal number, and items in clusters of unequal size.

One rate of false calls is simulated each time, the others by `make prove`: they are the sum of what the other
tests compute exactly.
"""

import math

import numpy as np
import pytest

from benchmarks.calibration import measure_samples
from benchmarks.simulated_pairs import (
    CALLED,
    COST,
    COST_PER_PASS,
    PASSED,
    PER_PASS,
    judge,
    passes,
    run_of,
)
from mosaico.comparison.verdict_text import render_verdict
from mosaico.statistics.change import UnitInfluences
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.two_samples import SampledShare, share_change_test
from mosaico.statistics.verdict_rules import ALPHA, ChangeVerdict, Scale, Verdict, VerdictNote
from mosaico.statistics.whole_runs import RunEffect
from tests.support.references import IN_ONE_PROCESS, Reference

stats = Reference("scipy.stats")

SEED = 43
PAIRS = 400
# 5.5 %, and three standard errors of the simulation.
MOST_CALLED = 0.055 + 3 * math.sqrt(0.055 * 0.945 / PAIRS)
CLUSTERS = (30, 12, 8, 6, 4)


def change_of_samples(before: FloatArray, after: FloatArray, *, is_cost: bool) -> ChangeVerdict:
    runs = run_of(before, prefix="a"), run_of(after, prefix="b")
    return judge(*runs, COST if is_cost else PASSED, is_paired=False)


@pytest.mark.prove
@pytest.mark.parametrize("sizes", [(40, 400), (400, 40)])
def test_unchanged_costs_of_unequal_samples__are_called_in_at_most_one_of_twenty(
    sizes: tuple[int, int],
) -> None:
    random, called = np.random.default_rng(SEED), 0
    for _ in range(PAIRS):
        samples = [
            # Two of a hundred traces cost 30 times as much.
            np.exp(random.normal(0, 1, (n, 1))) * np.where(random.random((n, 1)) < 0.02, 30, 1)
            for n in sizes
        ]
        called += change_of_samples(samples[0], samples[1], is_cost=True).verdict in CALLED
    assert called / PAIRS < MOST_CALLED


@pytest.mark.parametrize("sizes", [(40, 400), pytest.param((400, 40), marks=pytest.mark.prove)])
def test_unchanged_cost_per_pass_of_unequal_samples__is_called_in_at_most_one_of_twenty(
    sizes: tuple[int, int],
) -> None:
    # By the logarithm of the mean 11 and 14 % of the pairs are called.
    found = measure_samples(PER_PASS.name, sizes, 1.0, PAIRS // 2)
    assert found.falls + found.rises < MOST_CALLED
    assert measure_samples(PER_PASS.name, sizes, 2.0, 50).rises > 0.85


def test_cost_per_pass__is_that_of_a_typical_trace_and_counts_passes() -> None:
    costs = np.full((20, 1), 2.0)
    half, all_passed = np.tile([[1.0], [0.0]], (10, 1)), np.ones((20, 1))
    change = judge(
        run_of(costs, prefix="a", passed=all_passed),
        run_of(costs, prefix="b", passed=half),
        COST_PER_PASS,
        is_paired=False,
    )
    # From 2 to 4, because half of the traces fail; no cost differs.
    assert (change.baseline_value, change.value) == (2.0, 4.0)
    assert change.effect == pytest.approx(2.0)
    assert change.verdict is Verdict.REGRESSED
    assert VerdictNote.TYPICAL in change.notes


@pytest.mark.prove
@pytest.mark.parametrize("sizes", [(500, 60), (60, 500)])
def test_unchanged_passes_of_unequal_samples__are_called_in_at_most_one_of_twenty(
    sizes: tuple[int, int],
) -> None:
    random, called = np.random.default_rng(SEED), 0
    for _ in range(PAIRS):
        samples = [passes(random.uniform(0.95, 1, n), 1, random) for n in sizes]
        called += change_of_samples(samples[0], samples[1], is_cost=False).verdict in CALLED
    assert called / PAIRS < MOST_CALLED


def test_samples__find_the_obvious() -> None:
    random = np.random.default_rng(SEED)
    shares = change_of_samples(np.ones((500, 1)), np.zeros((20, 1)), is_cost=False)
    assert shares.verdict is Verdict.REGRESSED
    costs = [np.exp(random.normal(0, 1, (n, 1))) for n in (40, 400)]
    assert change_of_samples(costs[0], 3 * costs[1], is_cost=True).verdict is Verdict.REGRESSED


def test_costs_of_samples__are_those_of_a_typical_trace_and_say_so() -> None:
    # A typical trace costs twice as much; the mean fell, because one trace of 1,000 is gone.
    before = np.array([[1.0]] * 19 + [[1000.0]])
    after = np.array([[2.0]] * 18 + [[2.2], [2.1]])
    change = change_of_samples(before, after, is_cost=True)
    assert change.effect == pytest.approx(
        math.expm1(float(np.log(after).mean() - np.log(before).mean()))
    )
    assert change.value is not None
    assert change.baseline_value is not None
    assert change.value < change.baseline_value
    assert VerdictNote.TYPICAL in change.notes
    text = render_verdict("COST", change, Scale.RATIO).explanation
    assert "typical trace" in text
    assert "fell" not in text


def test_free_traces__count_as_half_of_the_smallest_other() -> None:
    before, after = np.array([[0.0], [1.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [1.0], [2.0]])
    change = change_of_samples(before, after, is_cost=True)
    # One item counts as 0.5: from a mean logarithm of -log(2) / 4 to one of log(2) / 4.
    assert change.effect == pytest.approx(math.sqrt(2) - 1)


@IN_ONE_PROCESS
@pytest.mark.parametrize(
    ("first", "second"), [((56, 70), (48, 80)), ((9, 10), (3, 10)), ((10, 10), (0, 20))]
)
def test_shares__have_newcombes_interval(first: tuple[int, int], second: tuple[int, int]) -> None:
    """The interval of method 10 from scipy's intervals of Wilson; the first pair is that of the article."""
    shares, wilson = [], []
    for passed, n in (first, second):
        values = np.array([1.0] * passed + [0.0] * (n - passed))
        influences = (values - values.mean()) / n
        shares.append(
            SampledShare.of(
                float(values.mean()), UnitInfluences.of_items(influences, np.arange(n)), n
            )
        )
        wilson.append(stats.binomtest(passed, n).proportion_ci(method="wilson"))
    test = share_change_test(*shares)
    assert test is not None
    interval = test.interval(ALPHA)
    assert interval is not None
    (p, q), d = (shares[0].share, shares[1].share), shares[1].share - shares[0].share
    assert interval.low == pytest.approx(d - math.hypot(q - wilson[1].low, wilson[0].high - p))
    assert interval.high == pytest.approx(d + math.hypot(wilson[1].high - q, p - wilson[0].low))
    assert (test.p < ALPHA) is (interval.high < 0)
    at_p = test.interval(test.p)
    assert at_p is not None
    assert at_p.high == pytest.approx(0, abs=1e-6)
    # Whole runs of 2 points each: 2.83 points of the difference.
    widened = test.widened(RunEffect(variance=2 * 0.02**2))
    wider = widened.interval(ALPHA)
    assert wider is not None
    by_runs = 1.959964 * math.sqrt(2) * 0.02
    assert d - wider.low == pytest.approx(math.hypot(d - interval.low, by_runs))
    assert wider.high - d == pytest.approx(math.hypot(interval.high - d, by_runs))
    at_p = widened.interval(widened.p)
    assert at_p is not None
    assert at_p.high == pytest.approx(0, abs=1e-6)


def test_unequal_clusters__that_all_fall_are_a_regression() -> None:
    before, after = (run_of(np.full((60, 1), value), clusters=CLUSTERS) for value in (1.0, 0.0))
    change = judge(before, after, PASSED)
    assert change.verdict is Verdict.REGRESSED
    # As sure as five signs alike can be: 1 of 32.
    assert change.p == pytest.approx(1 / 32, rel=0.1)


def test_one_cluster_that_falls__is_no_regression() -> None:
    after = np.ones((60, 1))
    after[:30] = 0.0
    change = judge(
        run_of(np.ones((60, 1)), clusters=CLUSTERS), run_of(after, clusters=CLUSTERS), PASSED
    )
    assert change.verdict is Verdict.INCONCLUSIVE


@pytest.mark.prove
def test_unchanged_unequal_clusters__are_called_in_at_most_one_of_twenty() -> None:
    random, called = np.random.default_rng(SEED), 0
    units = np.repeat(np.arange(5), CLUSTERS)
    for _ in range(PAIRS):
        abilities = random.normal(1.5, 1, 60)
        runs = [
            run_of(
                passes(1 / (1 + np.exp(-abilities - random.normal(0, 1, 5)[units])), 1, random),
                clusters=CLUSTERS,
            )
            for _ in range(2)
        ]
        called += judge(runs[0], runs[1], PASSED).verdict in CALLED
    assert called / PAIRS < MOST_CALLED
