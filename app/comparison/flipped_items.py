"""Which items turned round between two runs, and whether it is the agent or its environment; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from app.comparison.item_matrix import ItemTable
from app.statistics.verdict import Scale

# An item has turned round when its mean changed by half: of the range of a share, of the base else.
HALF = 0.5

# The mean of the trials of each item, by its id.
Means: TypeAlias = Mapping[str, float]


class Cause(StrEnum):
    """For whom an item fell the same night: for all agents, for this one alone, for some."""

    ENVIRONMENT = "ENVIRONMENT"
    AGENT = "AGENT"
    SOME_AGENTS = "SOME_AGENTS"


class Flip(NamedTuple):
    """An item that turned round; `harm` is how far to the worse, negative to the better."""

    item_id: str
    base: float
    candidate: float
    harm: float


class Night(NamedTuple):
    """What another agent did the same night, and before."""

    agent_id: str
    base: Means
    candidate: Means


class Fall(NamedTuple):
    """Why an item fell, as far as other agents tell, and for which of them it fell too."""

    cause: Cause | None
    fell_for: Sequence[str]


class Dead(NamedTuple):
    """Items that came out the same in every run, by id."""

    always_pass: Sequence[str]
    always_fail: Sequence[str]


def item_means(table: ItemTable, column: str) -> dict[str, float]:
    """The mean of each item that has a value."""
    totals, counts = [0.0] * len(table.items), [0] * len(table.items)
    for place, value in zip(table.places, table.values[column], strict=True):
        if math.isfinite(value):
            totals[place] += value
            counts[place] += 1
    return {
        item: total / count
        for item, total, count in zip(table.items, totals, counts, strict=True)
        if count and math.isfinite(total)
    }


def flipped(base: Means, candidate: Means, scale: Scale, *, less_is_better: bool) -> list[Flip]:
    """The items of both that turned round, the worst first."""
    sign = 1 if less_is_better else -1
    found = [
        Flip(item, base[item], after, sign * (after - base[item]))
        for item, after in candidate.items()
        if item in base and _turned(base[item], after, scale)
    ]
    return sorted(found, key=lambda flip: (-flip.harm, flip.item_id))


def explain_fall(item: str, nights: Iterable[Night], scale: Scale, *, less_is_better: bool) -> Fall:
    """Whether an item that fell did so for the other agents, too."""
    known = [night for night in nights if item in night.base and item in night.candidate]
    sign = 1 if less_is_better else -1
    fell = [
        night.agent_id
        for night in known
        if _turned(night.base[item], night.candidate[item], scale)
        and sign * (night.candidate[item] - night.base[item]) > 0
    ]
    if not known:
        return Fall(None, ())
    if len(fell) == len(known):
        return Fall(Cause.ENVIRONMENT, fell)
    return Fall(Cause.SOME_AGENTS if fell else Cause.AGENT, fell)


def dead_weight(runs: Sequence[Means], *, less_is_better: bool) -> Dead:
    """The items that are a full pass in every run, and those that are a full failure in every one;
    of a share, and only items that every run has.
    """
    best = 0.0 if less_is_better else 1.0
    common = sorted(set(runs[0]).intersection(*runs[1:])) if runs else []
    return Dead(
        [item for item in common if all(run[item] == best for run in runs)],
        [item for item in common if all(run[item] == 1.0 - best for run in runs)],
    )


def _turned(before: float, after: float, scale: Scale) -> bool:
    limit = HALF if scale is Scale.RATE else HALF * abs(before)
    return after != before and abs(after - before) >= limit
