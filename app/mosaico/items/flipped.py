"""Items that changed between pass and fail, and whether the agent or its environment caused it; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from mosaico.items.matrix import ItemMatrix
from mosaico.statistics.verdict_rules import Scale

# An item is flipped when its mean changed by half of the range of a rate, or half of its baseline.
FLIP_CHANGE = 0.5

# The mean over the trials of each item, by item ID.
ItemMeans: TypeAlias = Mapping[str, float]


class FlipCause(StrEnum):
    """For which agents an item regressed at the same time: all, this one only, or some."""

    ENVIRONMENT = "ENVIRONMENT"
    AGENT = "AGENT"
    SOME_AGENTS = "SOME_AGENTS"


class Flip(NamedTuple):
    """A flipped item; `harm` is the size of the change, positive for a regression."""

    item_id: str
    baseline: float
    candidate: float
    harm: float


class PeerMeans(NamedTuple):
    """The item means of another agent's run at about the same time, and of the run before it."""

    agent_id: str
    baseline: ItemMeans
    candidate: ItemMeans


class RegressionCause(NamedTuple):
    """The cause of an item's regression, None without peers; `agents` regressed on it as well."""

    cause: FlipCause | None
    agents: Sequence[str]


class ConstantItemIds(NamedTuple):
    """IDs of items with the same result in every run."""

    always_pass: Sequence[str]
    always_fail: Sequence[str]


def item_means(table: ItemMatrix, column: str) -> dict[str, float]:
    """The mean of each item that has a value."""
    totals, counts = [0.0] * len(table.items), [0] * len(table.items)
    for index, value in zip(table.item_index, table.values[column], strict=True):
        if math.isfinite(value):
            totals[index] += value
            counts[index] += 1
    return {
        item: total / count
        for item, total, count in zip(table.items, totals, counts, strict=True)
        if count and math.isfinite(total)
    }


def find_flips(
    baseline: ItemMeans, candidate: ItemMeans, scale: Scale, *, less_is_better: bool
) -> list[Flip]:
    """The flipped items of both runs, worst regression first."""
    sign = 1 if less_is_better else -1
    flips = [
        Flip(item, baseline[item], mean, sign * (mean - baseline[item]))
        for item, mean in candidate.items()
        if item in baseline and is_flipped(baseline[item], mean, scale)
    ]
    # By ID among equals, so that the list is the same in every repetition.
    return sorted(flips, key=lambda flip: (-flip.harm, flip.item_id))


def explain_regression(
    item: str, peers: Iterable[PeerMeans], scale: Scale, *, less_is_better: bool
) -> RegressionCause:
    """Return whether a regressed item regressed for the other agents that ran it, too."""
    peers_with_item = [peer for peer in peers if item in peer.baseline and item in peer.candidate]
    sign = 1 if less_is_better else -1
    agents = [
        peer.agent_id
        for peer in peers_with_item
        if is_flipped(peer.baseline[item], peer.candidate[item], scale)
        and sign * (peer.candidate[item] - peer.baseline[item]) > 0
    ]
    if not peers_with_item:
        return RegressionCause(None, ())
    if len(agents) == len(peers_with_item):
        return RegressionCause(FlipCause.ENVIRONMENT, agents)
    return RegressionCause(FlipCause.SOME_AGENTS if agents else FlipCause.AGENT, agents)


def find_constant_items(runs: Sequence[ItemMeans], *, less_is_better: bool) -> ConstantItemIds:
    """The items of all runs that pass fully in every run, and those that fail fully in every run.

    The values are rates between 0 and 1.
    """
    best = 0.0 if less_is_better else 1.0
    return ConstantItemIds(_items_with(best, runs), _items_with(1.0 - best, runs))


def _items_with(mean: float, runs: Sequence[ItemMeans]) -> list[str]:
    """The items with this mean in every run."""
    items = [{item for item, value in run.items() if value == mean} for run in runs]
    return sorted(items[0].intersection(*items[1:])) if items else []


def is_flipped(baseline: float, candidate: float, scale: Scale) -> bool:
    """Return whether a mean changed by half: of the range of a rate, otherwise of the baseline."""
    limit = FLIP_CHANGE if scale is Scale.RATE else FLIP_CHANGE * abs(baseline)
    # A baseline of 0 has a limit of 0: an unchanged item must not count as flipped.
    return candidate != baseline and abs(candidate - baseline) >= limit
