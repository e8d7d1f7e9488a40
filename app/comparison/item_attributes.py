"""What the traces of a run were beside their metrics: what they took, their tags, tools and ends."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.comparison.item_matrix import ItemRow, ItemTable, table_of_rows
from app.traces.types import TraceOutcome

USAGE = ("latency_ms", "tokens", "cost_usd")
# What fewer items than all have in common is among the features that most of them have.
MOST_FEATURES = 500


class Traits(NamedTuple):
    """What each item took, and the items of each feature (`tag:…`, `tool:…`, `ended:…`)."""

    usage: ItemTable
    features: dict[str, frozenset[str]]


class TraitRow(NamedTuple):
    """One trace; `usage` is in the order of `USAGE`."""

    item_id: str
    revision: str
    tags: Sequence[str]
    outcome: TraceOutcome
    tools: Sequence[str]
    usage: Sequence[float | None]


def traits_of_rows(rows: Iterable[TraitRow], *, cluster_field: str | None = None) -> Traits:
    """The same from rows in the order of their items."""
    features: dict[str, set[str]] = {}
    noted = _noted(rows, features)
    usage = table_of_rows(noted, {0: USAGE}, USAGE, cluster_field=cluster_field)
    frequent = sorted(features, key=lambda name: (-len(features[name]), name))[:MOST_FEATURES]
    return Traits(usage, {name: frozenset(features[name]) for name in frequent})


def _noted(rows: Iterable[TraitRow], features: dict[str, set[str]]) -> Iterator[ItemRow]:
    for row in rows:
        names = [*(f"tag:{tag}" for tag in row.tags), *(f"tool:{tool}" for tool in row.tools)]
        if row.outcome is not TraceOutcome.SCORED:
            names.append(f"ended:{row.outcome}")
        for name in names:
            features.setdefault(name, set()).add(row.item_id)
        yield ItemRow(0, row.item_id, row.revision, list(row.tags), list(row.usage))
