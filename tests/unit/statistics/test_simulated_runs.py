"""Simulated runs with a known truth: false calls, coverage, power and the stated number of trials.

Every pair is judged by `compute`, the decision path of the product. `make test` plays a small
sample and leaves room for chance (five standard errors). `make prove` plays the campaign, prints the
whole table and fails when a claim of docs/statistics.md is false by more than the error of the
simulation itself (three standard errors per cell, because the table has hundreds of cells). Seeds
are fixed: what passes once passes always.
"""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from app.comparison.item_matrix import ItemMatrix
from app.statistics.multiplicity import max_t
from app.statistics.verdict_rules import ChangeVerdict, Note, Side, Verdict
from tests.support.simulated_runs import (
    JUMPS,
    SCENARIOS,
    Design,
    Pair,
    Scenario,
    Tally,
    chance_error,
    draw_pair,
    judge,
    play,
)

CALLED, COVERED, FOUND, SETTLED = 0.055, 0.94, 0.78, 0.75
SAMPLE = 25
SAMPLE_ERRORS, CAMPAIGN_ERRORS = 5, 3
PAIRS, JUMP_PAIRS, POWER_PAIRS, STATED_PAIRS = 1000, 400, 300, 30

ITEMS = (10, 20, 37, 58, 200, 500)
UNEQUAL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
DESIGNS = {
    "one trial": [Design(items=items) for items in ITEMS],
    "five trials": [Design(items=items, trials=5) for items in ITEMS],
    "clusters": [
        *(Design(items=12 * count, clusters=[12] * count) for count in (3, 4, 5, 6)),
        Design(items=60, clusters=[6] * 10),
        Design(items=60, trials=5, clusters=[6] * 10),
        Design(items=sum(UNEQUAL), clusters=UNEQUAL),
        Design(items=66, clusters=(30, *(4,) * 9)),
    ],
    "unequal trials, missing values": [
        Design(items=items, trials=0, missing=0.1) for items in ITEMS
    ],
    "five baseline runs": [
        Design(items=items, trials=trials, runs=5) for items in (20, 37, 58) for trials in (1, 3)
    ],
}
# Formulas that jump are exchanged 2,000 times in each pair: the largest designs would take hours.
JUMP_TRACES = 500


WEIGHTED_SUM = next(scenario for scenario in SCENARIOS if scenario.name == "weighted sum")


class Power(NamedTuple):
    """The mean stated minimum detectable effect, and how often a change of that size was found."""

    stated: float
    found: float


def check(design: Design, name: str, tally: Tally, errors: int) -> list[str]:
    """The claims that the tally contradicts."""
    room = errors * chance_error(CALLED, tally.pairs)
    complaints = []
    if tally.called > CALLED + room:
        complaints.append(f"{design}, {name}: {tally.called:.1%} called")
    complaints += [
        f"{design}, {name}: {count} of {tally.pairs} {side}"
        for side, count in (("down", tally.down), ("up", tally.up))
        if tally.share(count) > CALLED / 2 + errors * chance_error(CALLED / 2, tally.pairs)
    ]
    # Coverage is promised from 20 items.
    if design.items >= 20 and tally.coverage < COVERED - errors * chance_error(
        COVERED, tally.pairs
    ):
        complaints.append(f"{design}, {name}: coverage {tally.coverage:.1%}")
    return complaints


def promises_power(design: Design, scenario: Scenario) -> bool:
    """Whether the stated effect is found in four of five cases. It is an estimate in clusters,
    between runs of unequal precision, for costs of few items and for quotients.
    """
    if design.clusters or design.missing or design.runs > 1 or scenario.name == "cost per pass":
        return False
    return design.items >= (37 if scenario.side is Side.HIGH else 20)


def row(design: Design, name: str, tally: Tally, power: Power | None) -> str:
    found = f"{power.stated:8.3f}{100 * power.found:7.1f}" if power else ""
    return (
        f"{design!s:32s}{name:24s}{100 * tally.share(tally.down):6.1f}"
        f"{100 * tally.share(tally.up):6.1f}{100 * tally.coverage:7.1f}{found}"
    )


def test_null__sample_of_the_table() -> None:
    for design in (Design(items=37), Design(items=60, clusters=[12] * 5), Design(items=20, runs=5)):
        for name, tally in play(design, SCENARIOS, SAMPLE).items():
            assert not check(design, name, tally, SAMPLE_ERRORS)
    for name, tally in play(Design(items=37), JUMPS, 10).items():
        assert not check(Design(items=37), name, tally, SAMPLE_ERRORS)


@pytest.mark.prove
@pytest.mark.parametrize("family", DESIGNS)
def test_simulated_runs__whole_table(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    complaints: list[str] = []
    with capsys.disabled():
        print(
            f"\n{family}: {PAIRS} unchanged pairs ({JUMP_PAIRS} for formulas that jump), called in"
            f" % (5.5 has an error of {100 * chance_error(CALLED, PAIRS):.1f}, with jumps"
            f" {100 * chance_error(CALLED, JUMP_PAIRS):.1f}), coverage in %, and the stated minimum"
            f" detectable effect, found in % of {POWER_PAIRS} pairs (80 has an error of"
            f" {100 * chance_error(0.8, POWER_PAIRS):.1f})\n"
            f"{'design':32s}{'KPI':24s}{'down':>6s}{'up':>6s}{'cover':>7s}{'MDE':>8s}{'found':>7s}"
        )
        for design in DESIGNS[family]:
            scenarios = list(SCENARIOS)
            tallies = play(design, SCENARIOS, PAIRS)
            if design.items * (design.trials or 4) * design.runs <= JUMP_TRACES:
                scenarios += JUMPS
                tallies |= play(design, JUMPS, JUMP_PAIRS)
            for scenario in scenarios:
                tally = tallies[scenario.name]
                power = power_of(design, scenario, POWER_PAIRS) if scenario in SCENARIOS else None
                print(row(design, scenario.name, tally, power), flush=True)
                complaints += check(design, scenario.name, tally, CAMPAIGN_ERRORS)
                if (
                    power
                    and promises_power(design, scenario)
                    and power.found < FOUND - CAMPAIGN_ERRORS * (chance_error(FOUND, POWER_PAIRS))
                ):
                    complaints.append(f"{design}, {scenario.name}: found {power.found:.1%}")
    assert not complaints, "\n".join(complaints)


def detectable(design: Design, scenario: Scenario, random: np.random.Generator) -> float | None:
    """The mean stated minimum detectable effect, in the way `power_of` changes a run; None without.

    A share of the passes, or the logarithm of the factor of costs.
    """
    effects = []
    for _ in range(STATED_PAIRS):
        change = judge(draw_pair(design, random), [scenario])[scenario.name]
        if change.mde is None or not change.baseline_value:
            return None
        is_cost = scenario.side is Side.HIGH
        relative = change.mde / abs(change.baseline_value)
        effects.append(math.log1p(relative) if is_cost else relative)
    return float(np.mean(effects))


def power_of(design: Design, scenario: Scenario, pairs: int, seed: int = 5) -> Power | None:
    """How often pairs with the stated minimum detectable effect regressed; None without one."""
    random = np.random.default_rng([seed, design.items, design.trials])
    effect = detectable(design, scenario, random)
    if effect is None:
        return None
    count = 0
    for _ in range(pairs):
        if scenario.side is Side.HIGH:
            pair = draw_pair(design, random, factor=math.exp(effect))
        else:
            pair = draw_pair(design, random, thinning=min(1.0, effect))
        count += judge(pair, [scenario])[scenario.name].verdict is Verdict.REGRESSED
    return Power(effect, count / pairs)


def test_minimum_detectable_effect__is_found_in_a_sample() -> None:
    power = power_of(Design(items=37), SCENARIOS[0], 60)
    assert power is not None
    assert power.found >= FOUND - SAMPLE_ERRORS * chance_error(FOUND, 60)


def documented_power() -> dict[Design, float]:
    """The power table of docs/statistics.md."""
    page = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text()
    rows = re.findall(r"^\| (\d+) items \| (.*) \|$", page, re.MULTILINE)
    return {
        Design(items=int(items), trials=trials): float(cell)
        for items, cells in rows
        for trials, cell in zip((1, 3, 5, 10), cells.split(" | "), strict=True)
    }


def check_documented(design: Design, documented: float, pairs: int) -> None:
    random = np.random.default_rng([5, design.items, design.trials])
    [easy] = [scenario for scenario in SCENARIOS if scenario.name == "passes, easy"]
    stated = [judge(draw_pair(design, random), [easy])[easy.name].mde for _ in range(pairs)]
    assert documented == pytest.approx(np.mean(np.array(stated, dtype=float)), rel=0.1), design


def test_documented_power__is_that_of_a_sample() -> None:
    design = Design(items=37, trials=5)
    check_documented(design, documented_power()[design], 10)


@pytest.mark.prove
def test_documented_power__is_that_of_simulated_runs() -> None:
    table = documented_power()
    assert len(table) == 16
    for design, documented in table.items():
        check_documented(design, documented, STATED_PAIRS)


class Settled(NamedTuple):
    """How many inconclusive pairs of unchanged runs named a number of trials, and how many of these
    were conclusive with it.
    """

    asked: int
    settled: int

    @property
    def share(self) -> float:
        return self.settled / self.asked if self.asked else 1.0


def settle(design: Design, scenario: Scenario, pairs: int, margin: float) -> Settled:
    """Plays again, with the stated number of trials, each pair that names one."""
    random = np.random.default_rng([9, design.items, design.trials])
    asked = came_true = 0
    for _ in range(pairs):
        change = judge_by_margin(draw_pair(design, random), scenario, margin)
        # Without several trials the number is "at least".
        if change.more_trials is None or Note.AT_BEST in change.notes:
            continue
        asked += 1
        more = replace(design, trials=design.trials + change.more_trials)
        again = judge_by_margin(draw_pair(more, random), scenario, margin)
        came_true += again.verdict is not Verdict.INCONCLUSIVE
    return Settled(asked, came_true)


def judge_by_margin(pair: Pair, scenario: Scenario, margin: float) -> ChangeVerdict:
    return judge(pair, [scenario], min_effect=margin / 2.5)[scenario.name]


def test_more_trials__settle_a_sample() -> None:
    for scenario in (SCENARIOS[1], WEIGHTED_SUM):
        result = settle(Design(items=37, trials=5), scenario, 40, 0.05)
        assert result.share >= SETTLED - SAMPLE_ERRORS * chance_error(SETTLED, result.asked)


@pytest.mark.prove
def test_more_trials__settle(capsys: pytest.CaptureFixture[str]) -> None:
    pairs, complaints = 300, list[str]()
    with capsys.disabled():
        print(
            f"\n'N more trials' came true in %, of up to {pairs} pairs, where 78 has an error of"
            f" {100 * chance_error(0.78, pairs):.1f}\n"
            f"{'design':12s}{'KPI':28s}{'pairs':>6s}{'true':>7s}"
        )
        for items, trials in ((37, 5), (58, 3), (100, 3)):
            for scenario in SCENARIOS:
                # A cost varies too much for any number of trials to prove it within 5 %.
                margin = 0.05 if scenario.side is Side.LOW else 0.25
                result = settle(Design(items=items, trials=trials), scenario, pairs, margin)
                print(
                    f"{items}×{trials:<9d}{scenario.name:28s}{result.asked:6d}"
                    f"{100 * result.share:7.1f}",
                    flush=True,
                )
                if result.asked and result.share < SETTLED - CAMPAIGN_ERRORS * chance_error(
                    SETTLED, result.asked
                ):
                    complaints.append(f"{items}×{trials}, {scenario.name}: {result.share:.1%}")
    assert not complaints, "\n".join(complaints)


def test_unpaired_runs__false_calls_are_rare_in_a_sample() -> None:
    assert unpaired_calls(60) <= CALLED + SAMPLE_ERRORS * chance_error(CALLED, 60)


@pytest.mark.prove
def test_unpaired_runs__false_calls_are_rare() -> None:
    assert unpaired_calls(1000) <= CALLED + CAMPAIGN_ERRORS * chance_error(CALLED, 1000)


def unpaired_calls(pairs: int) -> float:
    """The worst share of pairs of runs of different items, without a change, that are called."""
    random = np.random.default_rng(13)
    tallies = {scenario.name: Tally() for scenario in SCENARIOS}
    for _ in range(pairs):
        first, second = (draw_pair(Design(items=37), random).candidate for _ in range(2))
        changes = judge(Pair(renamed(first), second), SCENARIOS, is_paired=False)
        for name, change in changes.items():
            tallies[name].add(change)
    return max(tally.called for tally in tallies.values())


def renamed(matrix: ItemMatrix) -> ItemMatrix:
    return replace(matrix, items=[f"other-{item}" for item in matrix.items])


@pytest.mark.prove
def test_judged_together__any_false_call_is_rare() -> None:
    random = np.random.default_rng(17)
    pairs, families = 600, 0
    for _ in range(pairs):
        changes = judge(draw_pair(Design(items=37), random), SCENARIOS, is_judged=True)
        families += any((change.p_adjusted or 1.0) < 0.05 for change in changes.values())
    share = families / pairs
    assert share <= CALLED + CAMPAIGN_ERRORS * chance_error(CALLED, pairs)
    assert max_t([]) == []
