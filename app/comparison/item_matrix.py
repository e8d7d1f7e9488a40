"""The values of runs by item, and the items that two runs share; pure."""

import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.statistics.verdict import MIN_ITEMS


class ItemRow(NamedTuple):
    """One trace of a run."""

    run_seq: int
    item_id: str
    revision: str
    tags: list[str]
    values: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCounts:
    """What a value of the whole run is made of: entry i of all lists is what the item `places[i]`
    adds to the sums of `names[of_names[i]]`, a number in each of the `columns`.
    """

    names: list[str] = field(default_factory=list)
    places: "array[int]" = field(default_factory=lambda: array("l"))
    of_names: "array[int]" = field(default_factory=lambda: array("l"))
    columns: "list[array[float]]" = field(default_factory=list)

    def at(self, moved: Mapping[int, int]) -> "ItemCounts":
        """The same for the items of which the new place is named."""
        kept = [entry for entry, place in enumerate(self.places) if place in moved]
        return ItemCounts(
            names=self.names,
            places=array("l", (moved[self.places[entry]] for entry in kept)),
            of_names=array("l", (self.of_names[entry] for entry in kept)),
            columns=[array("d", (column[entry] for entry in kept)) for column in self.columns],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTable:
    """The items of a run (or of several together) in the order of their ids, and what was measured
    of each trace: `places` says of which item it is, `values` hold each metric, NaN where missing.

    `revisions` tells whether an item still asks the same; `clusters` is the tag by which items
    belong together, or the item itself; empty where none is asked for. `counts` are those of metrics
    whose value of the run is no mean of items. `left_out` items come after these by their MD5.
    """

    items: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    places: "array[int]" = field(default_factory=lambda: array("l"))
    values: "dict[str, array[float]]" = field(default_factory=dict)
    counts: dict[str, ItemCounts] = field(default_factory=dict)
    left_out: int = 0

    def at(self, items: Sequence[int]) -> "ItemTable":
        """The same for some items, in this order."""
        moved = {old: new for new, old in enumerate(items)}
        kept = [trace for trace, place in enumerate(self.places) if place in moved]
        return ItemTable(
            items=[self.items[place] for place in items],
            revisions=[self.revisions[place] for place in items],
            clusters=[self.clusters[place] for place in items] if self.clusters else [],
            places=array("l", (moved[self.places[trace]] for trace in kept)),
            values={
                name: array("d", (column[trace] for trace in kept))
                for name, column in self.values.items()
            },
            counts={name: each.at(moved) for name, each in self.counts.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Two runs over the items that both have, in one order, and how many only one of them has.

    `revised` items ask something else now, so that their values cannot be compared. Runs
    with next to no item in common are not `paired`: they are compared as two samples of all items.
    `left_out` are the candidate's that are too many to be looked at.
    """

    base: ItemTable
    candidate: ItemTable
    paired: bool
    only_base: int
    only_candidate: int
    revised: int
    left_out: int = 0


def pair_items(base: ItemTable, candidate: ItemTable) -> Pairing:
    """The items that two runs have in common.

    Where one of them has too many, the others are looked at as far as its items go.
    """
    cuts = [max(map(_rank, table.items)) for table in (base, candidate) if table.left_out]
    known = len(candidate.items) + candidate.left_out
    if cuts:
        base, candidate = _up_to(base, min(cuts)), _up_to(candidate, min(cuts))
    places = {item: place for place, item in enumerate(base.items)}
    common = [(places[item], place) for place, item in enumerate(candidate.items) if item in places]
    same = [(old, new) for old, new in common if base.revisions[old] == candidate.revisions[new]]
    paired = len(same) >= MIN_ITEMS or min(len(base.items), len(candidate.items)) < MIN_ITEMS
    return Pairing(
        base=base.at([old for old, _ in same]) if paired else base,
        candidate=candidate.at([new for _, new in same]) if paired else candidate,
        paired=paired,
        only_base=len(base.items) - len(common),
        only_candidate=len(candidate.items) - len(common),
        revised=len(common) - len(same),
        left_out=known - len(candidate.items),
    )


class _Rank(NamedTuple):
    """Where an item stands among those that are looked at first."""

    digest: str
    item: bytes


def _rank(item: str) -> _Rank:
    name = item.encode()
    return _Rank(hashlib.md5(name, usedforsecurity=False).hexdigest(), name)


def _up_to(table: ItemTable, last: _Rank) -> ItemTable:
    return table.at([place for place, item in enumerate(table.items) if _rank(item) <= last])


def table_of_rows(
    rows: Iterable[ItemRow],
    columns: Mapping[int, Sequence[str]],
    wanted: Sequence[str],
    *,
    cluster_field: str | None = None,
) -> ItemTable:
    """The same from rows in the order of their items."""
    table = ItemTable(values={name: array("d") for name in wanted})
    places = {
        run: [list(names).index(name) if name in names else None for name in wanted]
        for run, names in columns.items()
    }
    for row in rows:
        if not table.items or table.items[-1] != row.item_id:
            table.items.append(row.item_id)
            table.revisions.append(row.revision)
            if cluster_field is not None:
                table.clusters.append(_cluster(row.tags, cluster_field) or row.item_id)
        table.places.append(len(table.items) - 1)
        for column, place in zip(table.values.values(), places[row.run_seq], strict=True):
            value = None if place is None else row.values[place]
            column.append(math.nan if value is None else value)
    return table


def _cluster(tags: Sequence[str], cluster_field: str) -> str | None:
    prefix = f"{cluster_field}:"
    return min((tag for tag in tags if tag.startswith(prefix)), default=None)
