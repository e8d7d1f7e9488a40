"""Simulated runs with a known truth: false calls, coverage, power and the stated number of trials.

Every pair is judged by the functions of the product. `make test` plays a small
sample and leaves room for chance (five standard errors). `make prove` plays the campaign, prints the
whole table and fails when a claim of docs/statistics.md is false by more than the error of the
simulation itself: four standard errors in a cell, because the table has hundreds of cells, and much
less in all cells of a KPI together. Seeds
are fixed: what passes once passes always.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from app.comparison.item_matrix import ItemMatrix
from app.statistics.multiplicity import max_t
from app.statistics.verdict_rules import FEW, ChangeVerdict, Note, Side, Verdict
from tests.support.simulated_runs import (
    JUMPS,
    SCENARIOS,
    TOKENS,
    Design,
    Pair,
    Scenario,
    Tally,
    chance_error,
    change_of,
    changes_of,
    draw_pair,
    judge,
    play,
)

CALLED, COVERED, FOUND, SETTLED = 0.055, 0.94, 0.78, 0.75
SAMPLE = 25
SAMPLE_ERRORS, CAMPAIGN_ERRORS = 5, 4
PAIRS, JUMP_PAIRS, POWER_PAIRS, STATED_PAIRS = 400, 150, 200, 30

ITEMS = (10, 20, 37, 58, 200, 500)
UNEQUAL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
DESIGNS = [
    *(Design(items=items) for items in ITEMS),
    *(Design(items=items, trials=5) for items in ITEMS),
    *(Design(items=12 * count, clusters=(12,) * count) for count in (3, 4, 5, 6)),
    Design(items=60, clusters=(6,) * 10),
    Design(items=60, trials=5, clusters=(6,) * 10),
    Design(items=sum(UNEQUAL), clusters=UNEQUAL),
    Design(items=66, clusters=(30, *(4,) * 9)),
    *(Design(items=items, trials=0, missing=0.1) for items in ITEMS),
    *(Design(items=items, trials=trials, runs=5) for items in (20, 37, 58) for trials in (1, 3)),
]
# Formulas that jump are exchanged 2,000 times in each pair: the largest designs would take hours.
JUMP_TRACES = 500
TITLE = f"{'design':32s}{'KPI':24s}{'down':>6s}{'up':>6s}{'cover':>7s}{'MDE':>8s}{'found':>7s}{'cover':>7s}"
# The other costs vary from run to run, which no number of trials reduces.
SETTLED_SCENARIOS = [scenario for scenario in SCENARIOS if scenario.side is Side.LOW]
WEIGHTED_SUM = next(scenario for scenario in SCENARIOS if scenario.name == "weighted sum")
PAGE = Path(__file__).parents[3] / "docs" / "statistics.md"
Show = Callable[[str], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Prints a line of a table, also when pytest captures the output."""

    def print_line(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    return print_line


class Power(NamedTuple):
    """The median of the stated minimum detectable effects, how often a change of that size was
    found, and how often the interval held it.
    """

    stated: float
    detected: float
    coverage: float


class Undetectable(NamedTuple):
    """Most pairs state no effect. `pairs` is their number, `explained` how many of them say how many
    items or clusters would do, and `items` the median of the former.
    """

    pairs: int
    explained: int
    items: float


@cache
def null_of(design: Design) -> dict[str, Tally]:
    """The outcomes of unchanged pairs by scenario."""
    tallies = play(design, SCENARIOS, PAIRS)
    if design.items * (design.trials or 4) * design.runs <= JUMP_TRACES:
        tallies |= play(design, JUMPS, JUMP_PAIRS)
    return tallies


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
    if design.items >= 20 and is_low(tally.coverage, COVERED, tally.pairs, errors):
        complaints.append(f"{design}, {name}: coverage {tally.coverage:.1%}")
    return complaints


def is_low(share: float, promise: float, pairs: int, errors: int = CAMPAIGN_ERRORS) -> bool:
    """Whether a simulated share is below a promise by more than chance."""
    return share < promise - errors * chance_error(promise, pairs)


def check_power(design: Design, name: str, power: Power | Undetectable) -> list[str]:
    if isinstance(power, Undetectable):
        is_explained = power.explained == power.pairs
        return [] if is_explained else [f"{design}, {name}: no effect, and no number of items"]
    complaints = []
    if is_low(power.detected, FOUND, POWER_PAIRS):
        complaints.append(f"{design}, {name}: found {power.detected:.1%}")
    if design.items >= 20 and is_low(power.coverage, COVERED, POWER_PAIRS):
        complaints.append(f"{design}, {name}: coverage of a change {power.coverage:.1%}")
    return complaints


def row(design: Design, name: str, tally: Tally, power: Power | Undetectable | None) -> str:
    figures = ""
    if isinstance(power, Undetectable):
        figures = f"    none, {power.items:.0f} items" if power.items else "    none, 4 clusters"
    elif power:
        figures = f"{power.stated:8.3f}{100 * power.detected:7.1f}{100 * power.coverage:7.1f}"
    return (
        f"{design!s:32s}{name:24s}{100 * tally.share(tally.down):6.1f}"
        f"{100 * tally.share(tally.up):6.1f}{100 * tally.coverage:7.1f}{figures}"
    )


def test_null__tests_are_those_of_the_verdicts() -> None:
    random = np.random.default_rng(19)
    pair = draw_pair(Design(items=20, trials=2), random)
    changes, verdicts = changes_of(pair), judge(pair, (*SCENARIOS, *JUMPS))
    for scenario in (*SCENARIOS, *JUMPS):
        change = change_of(changes, scenario)
        assert not isinstance(change, ChangeVerdict)
        assert change.p == verdicts[scenario.name].p


def test_null__sample_of_the_table() -> None:
    for design in (
        Design(items=37), Design(items=60, clusters=(12,) * 5), Design(items=20, runs=5)
    ):  # fmt: skip
        for name, tally in play(design, SCENARIOS, SAMPLE).items():
            assert not check(design, name, tally, SAMPLE_ERRORS)
    for name, tally in play(Design(items=37), JUMPS, 10).items():
        assert not check(Design(items=37), name, tally, SAMPLE_ERRORS)


@pytest.mark.prove
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_simulated_runs__table(design: Design, show: Show) -> None:
    if design is DESIGNS[0]:
        show(
            f"\n{PAIRS} unchanged pairs ({JUMP_PAIRS} for formulas that jump), called in % (5.5 has"
            f" an error of {100 * chance_error(CALLED, PAIRS):.1f}, with jumps"
            f" {100 * chance_error(CALLED, JUMP_PAIRS):.1f}), coverage in %; then the stated minimum"
            f" detectable effect (a share, or a logarithm of costs), found and covered in % of"
            f" {POWER_PAIRS} pairs (80 has an error of {100 * chance_error(0.8, POWER_PAIRS):.1f})"
            f"\n{TITLE}"
        )
    complaints = []
    for name, tally in null_of(design).items():
        power = power_of(design, name)
        show(row(design, name, tally, power))
        complaints += check(design, name, tally, CAMPAIGN_ERRORS)
        complaints += check_power(design, name, power) if power else []
    assert not complaints, "\n".join(complaints)


class Summary(NamedTuple):
    """The outcomes of one KPI in all designs together, in percent of the pairs: unchanged ones that
    are called down and up and whose interval holds 0 (from 20 items), and changed ones that are
    found and whose interval holds the change. None for formulas that state no effect.
    """

    down: float
    up: float
    covered: float
    detected: float | None
    covered_change: float | None

    def __str__(self) -> str:
        power = "– | –"
        if self.detected is not None and self.covered_change is not None:
            power = f"{self.detected:.0f} | {self.covered_change:.1f}"
        return f"{self.down:.1f} / {self.up:.1f} | {self.covered:.1f} | {power}"

    def differs(self, other: "Summary") -> bool:
        """Whether two simulations differ by more than their errors (three of 9,000 pairs or more)."""
        room = Summary(0.6, 0.6, 0.8, 3.0, 1.5)
        return any(
            abs(first - second) > allowed
            for first, second, allowed in zip(self, other, room, strict=True)
            if first is not None and second is not None and allowed is not None
        )


def summarize(outcomes: Mapping[Design, tuple[Tally, Power | Undetectable | None]]) -> Summary:
    tallies = [tally for tally, _ in outcomes.values()]
    pairs = sum(tally.pairs for tally in tallies)
    from_20_items = [tally for design, (tally, _) in outcomes.items() if design.items >= 20]
    powers = [
        (power.detected, power.coverage)
        for _, power in outcomes.values()
        if isinstance(power, Power)
    ]
    detected, covered_change = np.mean(powers, axis=0) if powers else (None, None)
    return Summary(
        down=100 * sum(tally.down for tally in tallies) / pairs,
        up=100 * sum(tally.up for tally in tallies) / pairs,
        covered=100
        * sum(tally.covered for tally in from_20_items)
        / sum(tally.pairs for tally in from_20_items),
        detected=None if detected is None else 100 * float(detected),
        covered_change=None if covered_change is None else 100 * float(covered_change),
    )


def documented_summaries() -> dict[str, Summary]:
    """The table of docs/statistics.md by KPI."""
    rows = re.findall(
        r"^\| (.+?) \| ([\d.]+) / ([\d.]+) \| ([\d.]+) \| ([\d.]+|–) \| ([\d.]+|–) \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    return {
        name: Summary(
            *map(float, shares), *(None if part == "–" else float(part) for part in power)
        )
        for name, *parts in rows
        for shares, power in [(parts[:3], parts[3:])]
    }


def test_documented_table__names_every_simulated_kpi() -> None:
    assert list(documented_summaries()) == [scenario.name for scenario in (*SCENARIOS, *JUMPS)]


@pytest.mark.prove
def test_simulated_runs__all_designs_together(show: Show) -> None:
    """All designs of a KPI together have a small error: at most 5.5 %, and both directions alike.
    The figures are those of the page.
    """
    complaints, documented = [], documented_summaries()
    show("")
    for scenario in (*SCENARIOS, *JUMPS):
        outcomes = {
            design: (null_of(design)[scenario.name], power_of(design, scenario.name))
            for design in DESIGNS
            if scenario.name in null_of(design)
        }
        summary = summarize(outcomes)
        show(f"| {scenario.name} | {summary} |")
        called = summary.down + summary.up
        if called > 5.5 + 0.6:
            complaints.append(f"{scenario.name}: {summary}: more than 5.5 % called")
        # A difference of a quarter, beyond chance, would be one-sided.
        if abs(summary.down - summary.up) > called / 4 + 0.6:
            complaints.append(f"{scenario.name}: {summary}: the directions differ")
        low = [
            share
            for share, promise in (
                (summary.covered, 100 * COVERED),
                (summary.detected, 100 * FOUND),
                (summary.covered_change, 100 * COVERED),
            )
            if share is not None and share < promise
        ]
        if low:
            complaints.append(f"{scenario.name}: {summary}: below the promise")
        if summary.differs(documented[scenario.name]):
            complaints.append(f"{scenario.name}: {summary}, documented {documented[scenario.name]}")
    assert not complaints, "\n".join(complaints)


def stated_effects(
    design: Design, scenario: Scenario, random: np.random.Generator
) -> list[ChangeVerdict]:
    return [
        judge(draw_pair(design, random), [scenario])[scenario.name] for _ in range(STATED_PAIRS)
    ]


def as_drawn(scenario: Scenario, change: ChangeVerdict) -> float:
    """The stated effect in the way `draw_pair` changes a run: a share of the passes, or the
    logarithm of the factor of costs; infinite when none is stated.
    """
    if change.mde is None or not change.baseline_value:
        return math.inf
    relative = change.mde / abs(change.baseline_value)
    return math.log1p(relative) if scenario.side is Side.HIGH else relative


@cache
def power_of(
    design: Design, name: str, pairs: int = POWER_PAIRS, seed: int = 5
) -> Power | Undetectable | None:
    """How often pairs with the stated minimum detectable effect regressed; None for formulas that
    jump, which state none.
    """
    scenario = next((scenario for scenario in SCENARIOS if scenario.name == name), None)
    if scenario is None:
        return None
    random = np.random.default_rng([seed, design.items, design.trials])
    stated = stated_effects(design, scenario, random)
    effect = float(np.median([as_drawn(scenario, change) for change in stated]))
    if effect == math.inf:
        silent = [change for change in stated if change.mde is None]
        items = [change.items_needed for change in silent if change.items_needed]
        few = [change for change in silent if FEW & {*change.notes}]
        assert all(change.verdict is Verdict.INCONCLUSIVE for change in few)
        return Undetectable(
            len(silent), len(items) + len(few), float(np.median(items)) if items else 0.0
        )
    is_cost = scenario.side is Side.HIGH
    change_arguments = {"factor": math.exp(effect)} if is_cost else {"thinning": min(1.0, effect)}
    changes = [
        judge(draw_pair(design, random, **change_arguments), [scenario])[scenario.name]
        for _ in range(pairs)
    ]
    detected_count = sum(change.verdict is Verdict.REGRESSED for change in changes)
    baselines = np.array([change.baseline_value or 0.0 for change in changes])
    # A share of all items falls, not of the drawn ones: the mean value stands for them.
    falls = baselines * math.expm1(effect) if is_cost else -min(1.0, effect) * baselines.mean()
    truths = np.broadcast_to(falls, baselines.shape)
    covered_count = sum(
        is_held(change, truth) for change, truth in zip(changes, truths, strict=True)
    )
    return Power(effect, detected_count / pairs, covered_count / pairs)


def is_held(change: ChangeVerdict, truth: float) -> bool:
    if change.low is None or change.high is None:
        return True
    return change.low <= truth <= change.high


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
    """The power table of docs/statistics.md."""
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
        if change.more_trials is None or Note.AT_BEST in change.notes:
            continue
        asked_count += 1
        more = replace(design, trials=design.trials + change.more_trials)
        again = judge_by_margin(draw_pair(more, random), scenario, margin)
        came_true += again.verdict is not Verdict.INCONCLUSIVE
    return Settled(asked_count, came_true)


def judge_by_margin(pair: Pair, scenario: Scenario, margin: float) -> ChangeVerdict:
    return judge(pair, [scenario], min_effect=margin / 2.5)[scenario.name]


def test_more_trials__settle_a_sample() -> None:
    for scenario, margin in ((SCENARIOS[1], 0.05), (WEIGHTED_SUM, 0.05), (TOKENS, 0.1)):
        result = settle(Design(items=37, trials=5), scenario, 40, margin)
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
        changes = changes_of(Pair(renamed(first), second), is_paired=False)
        for scenario in SCENARIOS:
            tallies[scenario.name].add(change_of(changes, scenario))
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
