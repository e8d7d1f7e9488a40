"""Simulated power: the effects and the numbers of trials that the documentation states."""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from mosaico.statistics.verdict_rules import ChangeVerdict, Side, Verdict, VerdictNote
from tests.support.run_campaign import (
    CAMPAIGN_ERRORS,
    FOUND,
    PAGE,
    SAMPLE_ERRORS,
    SETTLED,
    STATED_PAIRS,
    Power,
    Undetectable,
    check_power,
    power_of,
)
from tests.support.simulated_runs import (
    SCENARIOS,
    TOKENS,
    Design,
    Pair,
    Scenario,
    chance_error,
    draw_pair,
    judge,
)

# The other costs vary from run to run, which no number of trials reduces.
SETTLED_SCENARIOS = [scenario for scenario in SCENARIOS if scenario.side is Side.LOW]


def test_minimum_detectable_effect__is_found_in_a_sample() -> None:
    for name in ("passes, easy", "latency"):
        power = power_of(Design(items=37), name, 60)
        assert isinstance(power, Power)
        assert power.detected >= FOUND - SAMPLE_ERRORS * chance_error(FOUND, 60)


def test_minimum_detectable_effect__of_too_few_items_names_the_items_that_would_do() -> None:
    """Ten items that pass half of the time detect not even a fall to 0, three clusters nothing."""
    for design in (Design(items=10), Design(items=36, clusters=(12,) * 3)):
        power = power_of(design, "passes, mixed", 1)
        assert isinstance(power, Undetectable)
        assert not check_power(design, "passes, mixed", power)


def documented_power() -> dict[Design, float]:
    """The power table of docs/research/verdicts.md."""
    rows = re.findall(r"^\| (\d+) items \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
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

    asked_count: int
    settled: int

    @property
    def share(self) -> float:
        return self.settled / self.asked_count if self.asked_count else 1.0


def settle(design: Design, scenario: Scenario, pairs: int, margin: float) -> Settled:
    """Plays again, with the stated number of trials, each pair that names one."""
    random = np.random.default_rng([9, design.items, design.trials])
    asked_count = came_true = 0
    for _ in range(pairs):
        change = judge_by_margin(draw_pair(design, random), scenario, margin)
        # Without several trials the number is "at least".
        if change.more_trials is None or VerdictNote.AT_BEST in change.notes:
            continue
        asked_count += 1
        more = replace(design, trials=design.trials + change.more_trials)
        again = judge_by_margin(draw_pair(more, random), scenario, margin)
        came_true += again.verdict is not Verdict.INCONCLUSIVE
    return Settled(asked_count, came_true)


def judge_by_margin(pair: Pair, scenario: Scenario, margin: float) -> ChangeVerdict:
    # `judge` makes the margin 2.5 times the minimum effect, as the defaults 0.02 and 0.05 are.
    return judge(pair, [scenario], min_effect=margin / 2.5)[scenario.name]


def test_more_trials__settle_a_sample() -> None:
    result = settle(Design(items=37, trials=5), SCENARIOS[1], 40, 0.05)
    assert result.asked_count
    assert result.share >= SETTLED - SAMPLE_ERRORS * chance_error(SETTLED, result.asked_count)


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
            for scenario in (*SETTLED_SCENARIOS, TOKENS):
                margin = 0.1 if scenario is TOKENS else 0.05
                result = settle(Design(items=items, trials=trials), scenario, pairs, margin)
                print(
                    f"{items}×{trials:<9d}{scenario.name:28s}{result.asked_count:6d}"
                    f"{100 * result.share:7.1f}",
                    flush=True,
                )
                assert result.asked_count, "no pair names a number: the promise is not tested"
                if result.share < SETTLED - CAMPAIGN_ERRORS * chance_error(
                    SETTLED, result.asked_count
                ):
                    complaints.append(f"{items}×{trials}, {scenario.name}: {result.share:.1%}")
    assert not complaints, "\n".join(complaints)
