"""What stored runs measured, item by item: the trials of an item are no measurements of their own."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

# More items tell nothing that changes a verdict: 20,000 show differences of half a point.
MOST_ITEMS = 20_000
ROWS_AT_ONCE = 2_000

ITEM_ROWS = text(
    """
    WITH kept AS (
        SELECT trace.item_id
        FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
        WHERE run.seq = ANY(:runs)
        GROUP BY trace.item_id ORDER BY md5(trace.item_id), trace.item_id COLLATE "C" LIMIT :most
    )
    SELECT run.seq, trace.item_id, md5(coalesce(trace.expected_output, '')), trace.tags,
           result.values
    FROM benchmark_runs AS run
    JOIN trace_results AS result ON result.run_seq = run.seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM kept)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, result.position
    """
)


class _Row(NamedTuple):
    """One trace of a run."""

    run_seq: int
    item_id: str
    revision: str
    tags: list[str]
    values: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """One metric over the items of a run: how many values each item has, their sum and the sum of
    their squares; nothing of an item is 0, 0, 0.
    """

    n: array[float] = field(default_factory=lambda: array("d"))
    total: array[float] = field(default_factory=lambda: array("d"))
    squares: array[float] = field(default_factory=lambda: array("d"))

    def add(self, values: Sequence[float]) -> None:
        """The values of the next item."""
        self.n.append(len(values))
        self.total.append(math.fsum(values))
        self.squares.append(math.fsum(value * value for value in values))

    def at(self, places: Iterable[int]) -> "Trials":
        """The same for some items, in this order."""
        places = list(places)
        return Trials(
            n=array("d", (self.n[place] for place in places)),
            total=array("d", (self.total[place] for place in places)),
            squares=array("d", (self.squares[place] for place in places)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTable:
    """The items of a run (or of several together) in the order of their ids, and every metric of
    them. `revisions` tells whether the expected answer is the same; `clusters` is the tag by which
    items belong together, or the item itself; empty where none is asked for.
    """

    items: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    metrics: dict[str, Trials] = field(default_factory=dict)

    def at(self, places: Sequence[int]) -> "ItemTable":
        """The same for some items, in this order."""
        return ItemTable(
            items=[self.items[place] for place in places],
            revisions=[self.revisions[place] for place in places],
            clusters=[self.clusters[place] for place in places] if self.clusters else [],
            metrics={name: trials.at(places) for name, trials in self.metrics.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Two runs over the items that both have, in one order, and how many only one of them has.

    `revised` items have another expected answer now, so that their values cannot be compared.
    """

    base: ItemTable
    candidate: ItemTable
    only_base: int
    only_candidate: int
    revised: int


def pair_items(base: ItemTable, candidate: ItemTable) -> Pairing:
    """The items that two runs have in common."""
    places = {item: place for place, item in enumerate(base.items)}
    common = [(places[item], place) for place, item in enumerate(candidate.items) if item in places]
    same = [(old, new) for old, new in common if base.revisions[old] == candidate.revisions[new]]
    return Pairing(
        base=base.at([old for old, _ in same]),
        candidate=candidate.at([new for _, new in same]),
        only_base=len(base.items) - len(common),
        only_candidate=len(candidate.items) - len(common),
        revised=len(common) - len(same),
    )


def items_of_runs(
    session: Session,
    columns: Mapping[int, Sequence[str]],
    wanted: Sequence[str],
    *,
    cluster_field: str | None = None,
) -> ItemTable:
    """The wanted metrics of some runs, item by item; `columns` are the metrics of each run by its
    seq. Runs are taken together: the trials of an item in one run are added to those in the others.

    Cost:    reads row by row and keeps 24 bytes an item and metric, of at most `MOST_ITEMS` items;
             of more, those whose ids come first by their MD5, which are the same in each run.
    """
    session.execute(text("SET LOCAL statement_timeout = 0"))
    asked = {"runs": list(columns), "most": MOST_ITEMS}
    found = session.execute(ITEM_ROWS.execution_options(yield_per=ROWS_AT_ONCE), asked)
    rows = (_Row(*row) for row in found)
    return reduce_items(rows, columns, wanted, cluster_field=cluster_field)


def reduce_items(
    rows: Iterator[_Row],
    columns: Mapping[int, Sequence[str]],
    wanted: Sequence[str],
    *,
    cluster_field: str | None,
) -> ItemTable:
    """The same from rows in the order of their items."""
    table = ItemTable(metrics={name: Trials() for name in wanted})
    places = {
        run: [(name, list(names).index(name)) for name in wanted if name in names]
        for run, names in columns.items()
    }
    for item, group in groupby(rows, key=lambda row: row.item_id):
        values: dict[str, list[float]] = {name: [] for name in wanted}
        revision, tags = "", list[str]()
        for row in group:
            revision, tags = row.revision, tags or row.tags
            for name, place in places[row.run_seq]:
                value = row.values[place]
                if value is not None:
                    values[name].append(value)
        table.items.append(item)
        table.revisions.append(revision)
        if cluster_field is not None:
            table.clusters.append(_cluster(tags, cluster_field) or item)
        for name, theirs in values.items():
            table.metrics[name].add(theirs)
    return table


def _cluster(tags: Sequence[str], cluster_field: str) -> str | None:
    prefix = f"{cluster_field}:"
    return min((tag for tag in tags if tag.startswith(prefix)), default=None)
