"""Simulated runs with a known truth: false calls, coverage, power and the stated number of trials.

Every pair is judged by the functions of the product. `make test` plays a small
sample and leaves room for chance (five standard errors). `make prove` plays the campaign, prints the
whole table and fails when a claim of docs/research/verdicts.md is false by more than the error of the
simulation itself: four standard errors in a cell, because the table has hundreds of cells, and much
less in all cells of a KPI together. Seeds
are fixed: what passes once passes always.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.multiplicity import max_t
from mosaico.statistics.verdict_rules import ChangeVerdict
from tests.support.run_campaign import (
    CALLED,
    CAMPAIGN_ERRORS,
    COVERED,
    FOUND,
    JUMP_PAIRS,
    PAGE,
    PAIRS,
    POWER_PAIRS,
    SAMPLE_ERRORS,
    Power,
    Undetectable,
    check_power,
    is_low,
    power_of,
)
from tests.support.simulated_runs import (
    JUMPS,
    SCENARIOS,
    Design,
    Pair,
    Tally,
    chance_error,
    change_of,
    changes_of,
    draw_pair,
    judge,
    play,
)

SAMPLE = 25

ITEMS = (10, 20, 37, 58, 200, 500)
UNEQUAL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
DESIGNS = [
    *(Design(items=items) for items in ITEMS),
    *(Design(items=items, trials=5) for items in ITEMS),
    *(Design(items=12 * count, clusters=(12,) * count) for count in (3, 4, 5, 6)),
    Design(items=60, clusters=(6,) * 10),
    Design(items=60, trials=5, clusters=(6,) * 10),
    Design(items=sum(UNEQUAL), clusters=UNEQUAL),
    # One cluster with nearly half of the items: few degrees of freedom in spite of ten clusters.
    Design(items=66, clusters=(30, *(4,) * 9)),
    *(Design(items=items, trials=0, missing=0.1) for items in ITEMS),
    *(Design(items=items, trials=trials, runs=5) for items in (20, 37, 58) for trials in (1, 3)),
]
# Formulas that jump are exchanged 2,000 times in each pair: the largest designs would take hours.
JUMP_TRACES = 500
TITLE = f"{'design':32s}{'KPI':24s}{'down':>6s}{'up':>6s}{'cover':>7s}{'MDE':>8s}{'found':>7s}{'cover':>7s}"
Show = Callable[[str], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Prints a line of a table, also when pytest captures the output."""

    def print_line(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    return print_line


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
    """The table of docs/research/verdicts.md by KPI."""
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
