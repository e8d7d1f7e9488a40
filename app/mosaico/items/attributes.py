"""Attributes of items beside their metrics: usage, tags, tools and outcomes; pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows
from mosaico.traces.types import TraceOutcome

# Named like the metrics of the same figures.
USAGE = ("LATENCY_MS", "TOTAL_TOKENS", "COST_USD")
# The most frequent features are kept; rare ones could not be significant anyway.
MAX_FEATURES = 500
NO_SIZES: Final[Mapping[str, float]] = {}


class ItemAttributes(NamedTuple):
    """The usage of each item, and the items of each feature (`tag:…`, `tool:…`, `failed:…` of a tool, `ended:…`).
    `prompt_sizes` are the input tokens of items, as means over their trials.
    """

    usage: ItemMatrix
    features: dict[str, frozenset[str]]
    prompt_sizes: Mapping[str, float] = NO_SIZES


class AttributeRow(NamedTuple):
    """The attributes of one trace; `usage` is in the order of `USAGE`, and `prompt_size` in tokens."""

    item_id: str
    revision: str
    tags: Sequence[str]
    outcome: TraceOutcome
    tools: Sequence[str]
    usage: Sequence[float | None]
    failed_tools: Sequence[str] = ()
    prompt_size: float | None = None


def attributes_of_rows(
    rows: Iterable[AttributeRow], *, cluster_field: str | None = None, is_sample: bool = False
) -> ItemAttributes:
    """The attributes of rows that are sorted by item."""
    features: dict[str, set[str]] = {}
    sizes: dict[str, list[float]] = {}
    # One pass: `_collect_features` fills `features` and `sizes` while the matrix reads the rows.
    usage_rows = _collect_features(rows, features, sizes)
    usage = matrix_of_rows(
        usage_rows, {0: USAGE}, USAGE, cluster_field=cluster_field, is_sample=is_sample
    )
    frequent = sorted(features, key=lambda name: (-len(features[name]), name))[:MAX_FEATURES]
    return ItemAttributes(
        usage,
        {name: frozenset(features[name]) for name in frequent},
        {item: sum(of_trials) / len(of_trials) for item, of_trials in sizes.items()},
    )


def _collect_features(
    rows: Iterable[AttributeRow], features: dict[str, set[str]], sizes: dict[str, list[float]]
) -> Iterator[ItemRow]:
    for row in rows:
        names = [
            *(f"tag:{tag}" for tag in row.tags),
            *(f"tool:{tool}" for tool in row.tools),
            *(f"failed:{tool}" for tool in row.failed_tools),
        ]
        if row.prompt_size is not None:
            sizes.setdefault(row.item_id, []).append(row.prompt_size)
        if row.outcome is not TraceOutcome.SCORED:
            names.append(f"ended:{row.outcome}")
        for name in names:
            features.setdefault(name, set()).add(row.item_id)
        yield ItemRow(0, row.item_id, row.revision, list(row.tags), list(row.usage))
