"""What the items that flipped have in common: tags, tools, servers, kinds of error."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

from app.statistics.multiplicity import benjamini_hochberg


class Counts(NamedTuple):
    """How many of the chosen items have a feature, and how many of the others."""

    chosen_with: int
    chosen: int
    others_with: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OverRepresented:
    """A feature that the chosen items have more often than the others."""

    feature: str
    counts: Counts
    p: float
    p_adjusted: float


def fisher_greater(counts: Counts) -> float:
    """How likely at least as many of the chosen have the feature when it has nothing to do with it.

    Source: Fisher 1935; equals scipy's `fisher_exact(alternative="greater")` within 1e-12.
    """
    having, total = counts.chosen_with + counts.others_with, counts.chosen + counts.others
    return _tail(counts.chosen_with, counts.chosen, having, total)


def fisher_p(counts: Counts) -> float:
    """The same in both directions: all tables that are no likelier than the one seen.

    Equals scipy's `fisher_exact` within 1e-12.
    """
    having, total = counts.chosen_with + counts.others_with, counts.chosen + counts.others
    low, high = max(0, having - counts.others), min(having, counts.chosen)
    ways = [_ways(k, counts.chosen, having, total) for k in range(low, high + 1)]
    seen = ways[counts.chosen_with - low]
    return sum(way for way in ways if way <= seen) / comb(total, counts.chosen)


def over_represented(
    features: Mapping[str, AbstractSet[str]],
    chosen: AbstractSet[str],
    items: AbstractSet[str],
    *,
    rate: float = 0.05,
) -> list[OverRepresented]:
    """Features by the items that have them: those that the chosen of the items have more often than
    the others do, the likeliest first; at most the given rate of them is expected to be chance.
    """
    names = sorted(features)
    counts = [_count(features[name] & items, chosen & items, items) for name in names]
    p_values = [fisher_greater(each) for each in counts]
    found = [
        OverRepresented(feature=name, counts=each, p=p, p_adjusted=adjusted)
        for name, each, p, adjusted in zip(
            names, counts, p_values, benjamini_hochberg(p_values), strict=True
        )
        if adjusted <= rate
    ]
    return sorted(found, key=lambda each: (each.p, each.feature))


def _count(having: AbstractSet[str], chosen: AbstractSet[str], items: AbstractSet[str]) -> Counts:
    return Counts(len(having & chosen), len(chosen), len(having - chosen), len(items) - len(chosen))


def _tail(least: int, chosen: int, having: int, total: int) -> float:
    others, ways = total - having, 0
    way = _ways(least, chosen, having, total)
    for k in range(least, min(chosen, having) + 1):
        ways += way
        # From one table to the next: to choose each anew takes a thousand times as long.
        way = way * (having - k) * (chosen - k) // ((k + 1) * (others - chosen + k + 1))
    return ways / comb(total, chosen)


def _ways(k: int, chosen: int, having: int, total: int) -> int:
    """To choose so many items, k of them with the feature; whole numbers, exact for any size."""
    return comb(having, k) * comb(total - having, chosen - k)
