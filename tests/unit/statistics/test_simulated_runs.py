"""Simulated runs whose truth is known: how often a verdict is wrong, and how often it is missed.

`make test` plays a hundred nights, with room for chance (five standard errors); `make prove` plays
2000 and more, and holds them against the bounds themselves: at least 93 % of the intervals hold the
truth, at least 75 % of the drops are found. Of false alarms a test that keeps its 5 % exactly has
more than 5 % in every second series of nights, so two standard errors (1 % of 2000) are let pass.
Seeds are fixed: what passes once passes always. The shares stand in the log (`--log-cli-level=INFO`).
"""

import logging
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from app.formula import Reference, compile_formula
from app.formula.rows import evaluate_rows
from app.statistics.means import estimate_mean
from app.statistics.paired_change import compare_items, compare_resampled
from app.statistics.resampling import draw_items, resampled_statistic
from app.statistics.trials import FloatArray, ItemSums
from app.statistics.verdict import ChangeVerdict, Scale, Side, Verdict, VerdictRule

log = logging.getLogger(__name__)

PASS_RATE = 0.8
ALARMS, COVERED, POWER = 0.05, 0.93, 0.75
ANY = VerdictRule(side=Side.LOW, min_effect=0.0)

Play: TypeAlias = Callable[[np.random.Generator], ChangeVerdict]


class Night(NamedTuple):
    """So many items of varying difficulty, each tried so often."""

    items: int
    trials: int


NIGHTS = (Night(37, 1), Night(37, 5), Night(100, 3))
SAMPLE = 100
LENGTHS = (
    pytest.param(SAMPLE, id="sample"),
    pytest.param(2000, id="campaign", marks=pytest.mark.prove),
)


def trials_of(chances: FloatArray, trials: int, random: np.random.Generator) -> ItemSums:
    passed = random.binomial(trials, chances).astype(np.float64)
    return ItemSums(n=np.full(len(chances), float(trials)), total=passed, squares=passed)


def two_runs(night: Night, drop: float, random: np.random.Generator) -> ChangeVerdict:
    chances = random.beta(4, 1, night.items)
    base = trials_of(chances, night.trials, random)
    other = trials_of(np.clip(chances - drop, 0.0, 1.0), night.trials, random)
    return compare_items(base, other, ANY, seed=int(random.integers(1 << 30)))


def share(nights: int, seen: Callable[[np.random.Generator], bool]) -> float:
    random = np.random.default_rng(nights)
    found = sum(seen(random) for _ in range(nights)) / nights
    log.info("%.4f of %d nights", found, nights)
    return found


def alarms_at_most(nights: int) -> float:
    return ALARMS + (2 if nights > SAMPLE else 5) * _by_chance(ALARMS, nights)


def missed_at_most(bound: float, nights: int) -> float:
    """The share of what may be missed; there is room for chance in a sample only."""
    return 1 - bound + (0 if nights > SAMPLE else 5) * _by_chance(bound, nights)


def _by_chance(rate: float, nights: int) -> float:
    return math.sqrt(rate * (1 - rate) / nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", NIGHTS, ids=str)
def test_nights_without_a_change_are_hardly_ever_called_one(night: Night, nights: int) -> None:
    found = share(nights, lambda random: (two_runs(night, 0.0, random).p or 0.0) < 0.05)
    assert found <= alarms_at_most(nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", NIGHTS, ids=str)
def test_the_interval_of_a_change_holds_the_change(night: Night, nights: int) -> None:
    def missed(random: np.random.Generator) -> bool:
        found = two_runs(night, 0.0, random)
        return not (found.low or 0.0) <= 0.0 <= (found.high or 0.0)

    assert share(nights, missed) <= missed_at_most(COVERED, nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", [Night(20, 5), *NIGHTS], ids=str)
def test_the_interval_of_a_pass_rate_holds_the_rate(night: Night, nights: int) -> None:
    def missed(random: np.random.Generator) -> bool:
        run = trials_of(random.beta(4, 1, night.items), night.trials, random)
        found = estimate_mean(run, scale=Scale.RATE)
        assert found is not None
        assert found.interval is not None
        return not found.interval.low <= PASS_RATE <= found.interval.high

    assert share(nights, missed) <= missed_at_most(COVERED, nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize(("night", "drop"), [(Night(37, 5), 0.116), (Night(100, 3), 0.09)])
def test_drops_as_large_as_what_the_verdict_calls_visible_are_found(
    night: Night, drop: float, nights: int
) -> None:
    stated = list[float]()

    def seen(random: np.random.Generator) -> bool:
        found = two_runs(night, drop, random)
        stated.append(found.mde or math.inf)
        return found.verdict is Verdict.REGRESSED

    assert 1 - share(nights, seen) <= missed_at_most(POWER, nights)
    assert sum(stated) / nights == pytest.approx(drop, abs=0.005)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("clusters", [5, 12])
def test_items_that_move_together_do_not_make_a_verdict_more_certain(
    clusters: int, nights: int
) -> None:
    # What an evening does to a whole category is chance, too; blind to it, every third night alarms.
    names = [str(item % clusters) for item in range(10 * clusters)]
    places = np.arange(10 * clusters) % clusters

    def night(random: np.random.Generator) -> tuple[ItemSums, ItemSums]:
        chances = random.uniform(0.3, 0.7, len(names))
        moved = chances + random.normal(0.0, 0.2, clusters)[places]
        return trials_of(chances, 3, random), trials_of(np.clip(moved, 0, 1), 3, random)

    def alarm(random: np.random.Generator) -> bool:
        base, other = night(random)
        return (compare_items(base, other, ANY, clusters=names).p or 0.0) < 0.05

    def blind(random: np.random.Generator) -> bool:
        base, other = night(random)
        return (compare_items(base, other, ANY).p or 0.0) < 0.05

    assert share(nights, alarm) <= alarms_at_most(nights)
    assert share(100, blind) > 0.2


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize(
    "text", ["WEIGHTED_SUM(A:0.5, B:0.5)", "2 * A * B / (A + B)", "MIN(A, B)", "THRESHOLD(A, 0.8)"]
)
def test_kpis_without_a_change_are_hardly_ever_called_one(text: str, nights: int) -> None:
    formula, items = compile_formula(text), np.arange(37)

    def alarm(random: np.random.Generator) -> bool:
        chances = random.beta(4, 1, (2, 37))
        draws = draw_items(37, resamples=1000, seed=int(random.integers(1 << 30)))
        base, other = (
            evaluate_rows(
                formula,
                {
                    Reference(key, "mean"): resampled_statistic(
                        "mean", random.binomial(5, each) / 5, items, draws
                    )
                    for key, each in zip("AB", chances, strict=True)
                },
            ).values
            for _ in range(2)
        )
        return (compare_resampled(base, other, ANY, draws).p or 0.0) < 0.05

    assert share(nights, alarm) <= alarms_at_most(nights)
