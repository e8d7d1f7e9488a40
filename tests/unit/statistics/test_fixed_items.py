"""Did exactly these items change: by hand, and by simulation."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from mosaico.statistics.fixed_items import (
    fixed_items_change,
    fixed_items_power,
)
from mosaico.statistics.trials import FloatArray, ItemSums
from tests.support.references import IN_ONE_PROCESS, Reference

stats = Reference("scipy.stats")
SEED = 43


def passes(counts: Sequence[float], trials: float) -> ItemSums:
    total = np.array(counts, dtype=np.float64)
    return ItemSums(n=np.full(len(total), float(trials)), total=total, squares=total)


@IN_ONE_PROCESS
def test_broken_items__are_more_than_chance() -> None:
    before, after = passes([5] * 10, 5), passes([5] * 6 + [0] * 4, 5)
    change = fixed_items_change(before, after, width=1.0)
    assert change is not None
    # Each of the 4 broken items adds 1 / (2 * 5 - 1) to the variance of a sum of 10.
    assert change.error == pytest.approx(math.sqrt(4 / 9) / 10)
    assert change.effect == pytest.approx(-0.4)
    assert change.p == pytest.approx(2 * stats.norm.sf(6))
    interval = change.interval(0.05)
    assert interval is not None
    assert -0.6 < interval.low < -0.4 < interval.high < 0


@IN_ONE_PROCESS
def test_single_trials__are_mcnemars_test() -> None:
    before, after = passes([1] * 9 + [0] * 11, 1), passes([0] * 8 + [1] * 3 + [0] * 9, 1)
    change = fixed_items_change(before, after, width=1.0)
    assert change is not None
    falls, rises = 8, 2
    assert change.p == pytest.approx(stats.chi2.sf((falls - rises) ** 2 / (falls + rises), 1))


def test_one_failed_trial__is_no_evidence() -> None:
    # With many trials before, the normal distribution would call it.
    before = ItemSums(n=np.full(10, 50.0), total=np.full(10, 50.0), squares=np.full(10, 50.0))
    change = fixed_items_change(before, passes([1] * 9 + [0], 1), width=1.0)
    assert change is not None
    assert abs(change.effect) / change.error > 1.96
    assert change.p >= 0.5
    interval = change.interval(0.05)
    assert interval is not None
    assert interval.high >= 0


def test_equal_trials__have_the_interval_of_what_was_not_seen() -> None:
    change = fixed_items_change(passes([5] * 4, 5), passes([5] * 4, 5), width=1.0)
    assert change is not None
    interval = change.interval(0.05)
    assert interval is not None
    assert change.p == 1.0
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_one_item_of_two_trials__cannot_decide() -> None:
    few, enough = (fixed_items_change(passes([k], k), passes([0], k), width=1.0) for k in (2, 5))
    assert few is not None
    assert enough is not None
    assert (few.can_decide, enough.can_decide) == (False, True)
    assert few.p > 0.05 > enough.p


def draw(levels: FloatArray, trials: int, random: np.random.Generator) -> ItemSums:
    total = random.binomial(trials, levels).astype(np.float64)
    return ItemSums(n=np.full(len(levels), float(trials)), total=total, squares=total)


def levels_of(kind: str, items: int, random: np.random.Generator) -> FloatArray:
    if kind == "near-1":
        return random.uniform(0.95, 1, items)
    if kind == "mix":
        return np.where(
            random.random(items) < 0.8, np.sign(random.random(items) - 0.125).clip(0), 0.5
        )
    return random.beta(1.6, 0.4, items)


@pytest.mark.parametrize("runs", [400, pytest.param(1500, marks=pytest.mark.prove)])
@pytest.mark.parametrize("kind", ["beta", "near-1", "mix"])
@pytest.mark.parametrize(("items", "trials"), [(5, 3), (10, 5), (37, 1), (37, 10), (200, 2)])
def test_unchanged_items__are_called_in_at_most_one_of_twenty(
    kind: str, items: int, trials: int, runs: int
) -> None:
    random = np.random.default_rng(SEED)
    called = 0
    for _ in range(runs):
        levels = levels_of(kind, items, random)
        change = fixed_items_change(draw(levels, trials, random), draw(levels, trials, random))
        called += change is not None and change.p < 0.05
    # 5 %, and three standard errors of the simulation.
    assert called / runs < 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("runs", [150, pytest.param(400, marks=pytest.mark.prove)])
@pytest.mark.parametrize("kind", ["beta", "near-1"])
@pytest.mark.parametrize(("items", "trials"), [(10, 5), (37, 5), (37, 1), (200, 2)])
@pytest.mark.parametrize("is_broken", [False, True])
def test_detectable_drop__is_found_as_often_as_promised(
    kind: str, items: int, trials: int, runs: int, *, is_broken: bool
) -> None:
    random = np.random.default_rng(SEED)
    found, planned = 0, 0
    for _ in range(runs):
        levels = levels_of(kind, items, random)
        before = draw(levels, trials, random)
        # The runs from which the drop is stated are unchanged ones.
        power = fixed_items_power(before, draw(levels, trials, random)).detectable()
        if power is None or power.broken_items is None:
            continue
        planned += 1
        if is_broken:
            # Those that pass most often break.
            later = levels.copy()
            later[np.argsort(-levels)[: power.broken_items]] = 0.0
        else:
            later = levels * max(0.0, 1 - power.effect / levels.mean())
        change = fixed_items_change(before, draw(later, trials, random))
        found += change is not None and change.p < 0.05
    assert planned > runs / 2
    # 80 %, and three standard errors of the simulation; more runs may not miss it by more than 4 %.
    assert found / planned > 0.8 - max(0.04, 3 * math.sqrt(0.8 * 0.2 / planned))
