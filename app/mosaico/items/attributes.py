"""Attributes of items beside their metrics: usage, tags, tools and outcomes; pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows
from mosaico.traces.types import TraceOutcome

# Named like the metrics of the same figures.
USAGE = ("LATENCY_MS", "TOTAL_TOKENS", "COST_USD")
# The most frequent features are kept; rare ones could not be significant anyway.
MAX_FEATURES = 500


class ItemAttributes(NamedTuple):
    """The usage of each item, and the items of each feature (`tag:…`, `tool:…`, `ended:…`)."""

    usage: ItemMatrix
    features: dict[str, frozenset[str]]


class AttributeRow(NamedTuple):
    """The attributes of one trace; `usage` is in the order of `USAGE`."""

    item_id: str
    revision: str
    tags: Sequence[str]
    outcome: TraceOutcome
    tools: Sequence[str]
    usage: Sequence[float | None]


def attributes_of_rows(
    rows: Iterable[AttributeRow], *, cluster_field: str | None = None, is_sample: bool = False
) -> ItemAttributes:
    """The attributes of rows that are sorted by item."""
    features: dict[str, set[str]] = {}
    # One pass: `_collect_features` fills `features` while the matrix reads the rows.
    usage_rows = _collect_features(rows, features)
    usage = matrix_of_rows(
        usage_rows, {0: USAGE}, USAGE, cluster_field=cluster_field, is_sample=is_sample
    )
    frequent = sorted(features, key=lambda name: (-len(features[name]), name))[:MAX_FEATURES]
    return ItemAttributes(usage, {name: frozenset(features[name]) for name in frequent})


def _collect_features(
    rows: Iterable[AttributeRow], features: dict[str, set[str]]
) -> Iterator[ItemRow]:
    for row in rows:
        names = [*(f"tag:{tag}" for tag in row.tags), *(f"tool:{tool}" for tool in row.tools)]
        if row.outcome is not TraceOutcome.SCORED:
            names.append(f"ended:{row.outcome}")
        for name in names:
            features.setdefault(name, set()).add(row.item_id)
        yield ItemRow(0, row.item_id, row.revision, list(row.tags), list(row.usage))
