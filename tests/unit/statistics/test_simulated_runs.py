"""Simulated runs with a known truth: false alarms and missed changes of verdicts.

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
from app.statistics.verdict_rules import ChangeVerdict, Scale, Side, Verdict, VerdictRule

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


def share(nights: int, is_event: Callable[[np.random.Generator], bool]) -> float:
    random = np.random.default_rng(nights)
    event_share = sum(is_event(random) for _ in range(nights)) / nights
    log.info("%.4f of %d nights", event_share, nights)
    return event_share


def alarms_at_most(nights: int) -> float:
    return ALARMS + (2 if nights > SAMPLE else 5) * _by_chance(ALARMS, nights)


def missed_at_most(bound: float, nights: int) -> float:
    """The share of what may be missed; there is room for chance in a sample only."""
    return 1 - bound + (0 if nights > SAMPLE else 5) * _by_chance(bound, nights)


def _by_chance(rate: float, nights: int) -> float:
    return math.sqrt(rate * (1 - rate) / nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", NIGHTS, ids=str)
def test_verdict__false_alarms_are_rare(night: Night, nights: int) -> None:
    alarm_share = share(nights, lambda random: (two_runs(night, 0.0, random).p or 0.0) < 0.05)
    assert alarm_share <= alarms_at_most(nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", NIGHTS, ids=str)
def test_change_interval__contains_the_true_change(night: Night, nights: int) -> None:
    def missed(random: np.random.Generator) -> bool:
        change = two_runs(night, 0.0, random)
        return not (change.low or 0.0) <= 0.0 <= (change.high or 0.0)

    assert share(nights, missed) <= missed_at_most(COVERED, nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("night", [Night(20, 5), *NIGHTS], ids=str)
def test_rate_interval__contains_the_true_rate(night: Night, nights: int) -> None:
    def missed(random: np.random.Generator) -> bool:
        run = trials_of(random.beta(4, 1, night.items), night.trials, random)
        estimate = estimate_mean(run, scale=Scale.RATE)
        assert estimate is not None
        assert estimate.interval is not None
        return not estimate.interval.low <= PASS_RATE <= estimate.interval.high

    assert share(nights, missed) <= missed_at_most(COVERED, nights)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize(("night", "drop"), [(Night(37, 5), 0.116), (Night(100, 3), 0.09)])
def test_minimum_detectable_effect__is_detected(night: Night, drop: float, nights: int) -> None:
    stated = list[float]()

    def seen(random: np.random.Generator) -> bool:
        change = two_runs(night, drop, random)
        stated.append(change.mde or math.inf)
        return change.verdict is Verdict.REGRESSED

    assert 1 - share(nights, seen) <= missed_at_most(POWER, nights)
    assert sum(stated) / nights == pytest.approx(drop, abs=0.005)


@pytest.mark.parametrize("nights", LENGTHS)
@pytest.mark.parametrize("clusters", [5, 12])
def test_clusters__do_not_increase_false_alarms(clusters: int, nights: int) -> None:
    # What an evening does to a whole category is chance, too; blind to it, every third night alarms.
    names = [str(item % clusters) for item in range(10 * clusters)]
    cluster_index = np.arange(len(names)) % clusters

    def night(random: np.random.Generator) -> tuple[ItemSums, ItemSums]:
        chances = random.uniform(0.3, 0.7, len(names))
        changed_chances = chances + random.normal(0.0, 0.2, clusters)[cluster_index]
        return trials_of(chances, 3, random), trials_of(np.clip(changed_chances, 0, 1), 3, random)

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
def test_kpi_verdict__false_alarms_are_rare(text: str, nights: int) -> None:
    formula, items = compile_formula(text), np.arange(37)

    def alarm(random: np.random.Generator) -> bool:
        chances = random.beta(4, 1, (2, 37))
        draws = draw_items(37, resamples=1000, seed=int(random.integers(1 << 30)))
        base, other = (
            evaluate_rows(
                formula,
                {
                    Reference(key, "mean"): resampled_statistic(
                        "mean", random.binomial(5, chance) / 5, items, draws
                    )
                    for key, chance in zip("AB", chances, strict=True)
                },
            ).values
            for _ in range(2)
        )
        return (compare_resampled(base, other, ANY, draws).p or 0.0) < 0.05

    assert share(nights, alarm) <= alarms_at_most(nights)
