"""How much of a drop a difference between two runs covers, and which differences cannot be told apart; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mosaico.comparison.attribute_names import rank_of
from mosaico.core.text import shorten
from mosaico.run_store.recorded_attributes import AttributeDifference, DifferenceKind

MAX_VALUE_CHARS: Final = 120
# Differences that share so many of their items cannot be told apart.
SAME_ITEMS: Final = 0.95
MAX_P: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeChange:
    """A difference and the items that have it."""

    name: str
    kind: DifferenceKind
    items: frozenset[str]
    before: str | None = None
    after: str | None = None


def rank_changes(
    changes: Sequence[AttributeChange], fallen: frozenset[str], item_count: int
) -> list[AttributeDifference]:
    """The differences, those that are concentrated in fallen items first, then the ones that most fallen items have."""
    covers = [_cover(change, fallen, item_count) for change in changes]
    tested = sum(change.kind is not DifferenceKind.PLAN for change in changes)
    ranked = sorted(
        (
            replace(cover, is_concentrated=cover.excess > 0 and tested * cover.p < MAX_P)
            for cover in covers
        ),
        key=lambda cover: cover.rank,
    )
    leaders = _leaders([cover.change for cover in ranked])
    return [cover.view(leader) for cover, leader in zip(ranked, leaders, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cover:
    """How many of the fallen and of the other items have a difference; `share` is that of the fallen, `excess` its difference from that of the others, `p` the
    probability that chance makes it so large.
    """

    change: AttributeChange
    fell: int
    others: int
    share: float | None
    frequency: float
    excess: float
    p: float
    is_concentrated: bool = False

    @property
    def rank(self) -> tuple[object, ...]:
        change = self.change
        # An attribute that was not recorded before did not change.
        is_new = change.kind is DifferenceKind.VALUE and None in (change.before, change.after)
        return (
            not self.is_concentrated,
            -self.excess if self.is_concentrated else 0.0,
            is_new,
            -self.frequency,
            rank_of(change.name),
            change.name,
            change.after or "",
        )

    def view(self, leader: str | None) -> AttributeDifference:
        change = self.change
        return AttributeDifference(
            name=change.name if change.kind is DifferenceKind.PLAN else cut_value(change.name),
            kind=change.kind,
            before=None if change.before is None else cut_value(change.before),
            after=None if change.after is None else cut_value(change.after),
            fell=self.fell,
            others=self.others,
            share=self.share,
            is_concentrated=self.is_concentrated,
            same_items_as=leader,
        )


def _cover(change: AttributeChange, fallen: frozenset[str], item_count: int) -> _Cover:
    fell, other_count = len(change.items & fallen), item_count - len(fallen)
    others = len(change.items) - fell
    other_share = _share(others, other_count)
    return _Cover(
        change=change,
        fell=fell,
        others=others,
        share=_share(fell, len(fallen)) if fallen else None,
        # Where nothing fell, the most frequent differences are first.
        frequency=_share(fell, len(fallen)) if fallen else other_share,
        excess=_share(fell, len(fallen)) - other_share,
        p=_chance_of_more(fell, others, len(fallen), other_count),
    )


def _leaders(changes: Sequence[AttributeChange]) -> list[str | None]:
    """For each difference, the first one before it that is in the same items."""
    leaders: list[str | None] = []
    firsts: list[AttributeChange] = []
    for change in changes:
        first = next((other for other in firsts if _are_alike(change.items, other.items)), None)
        if first is None:
            firsts.append(change)
        leaders.append(None if first is None else cut_value(first.name))
    return leaders


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one) and len(one & other) >= SAME_ITEMS * len(one | other)


def _share(count: int, total: int) -> float:
    return count / total if total else 0.0


def _chance_of_more(fell: int, rest: int, fallen: int, others: int) -> float:
    """The probability that chance puts a difference into `fell` or more of the fallen items.

    Source: the hypergeometric distribution, as in Fisher's exact test (one-sided).
    """
    drawn, total = fell + rest, fallen + others
    if not fallen or not others or not drawn:
        return 1.0
    whole = _log_choices(total, drawn)
    return math.fsum(
        math.exp(_log_choices(fallen, hits) + _log_choices(others, drawn - hits) - whole)
        for hits in range(max(fell, drawn - others), min(fallen, drawn) + 1)
    )


def _log_choices(total: int, drawn: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(drawn + 1) - math.lgamma(total - drawn + 1)


def cut_value(text: str) -> str:
    return shorten(text, MAX_VALUE_CHARS)
