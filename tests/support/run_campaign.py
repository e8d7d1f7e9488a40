"""Designs of the simulated runs, and what the campaigns print."""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mosaico.statistics.verdict_rules import FEW, ChangeVerdict, Side, Verdict
from tests.support.simulated_runs import (
    SCENARIOS,
    Design,
    Scenario,
    chance_error,
    draw_pair,
    judge,
)

# The promises of `docs/research/verdicts.md`: nominally 5 %, 95 % and 80 %, for any number of items.
CALLED, COVERED, FOUND, SETTLED = 0.055, 0.94, 0.78, 0.75
# Of the simulation: a wrong alarm in `make test` costs more than one in `make prove`, and a sample
# is small enough to be off by far.
SAMPLE_ERRORS, CAMPAIGN_ERRORS = 5, 4
PAIRS, JUMP_PAIRS, POWER_PAIRS, STATED_PAIRS = 400, 150, 200, 30
PAGE = Path(__file__).parents[2] / "docs" / "research" / "verdicts.md"


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
