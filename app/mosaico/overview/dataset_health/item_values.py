"""Items over runs: those that never vary, and those that flip. Imports numpy; call it only in a process that computes."""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaico.comparison.series_levels import item_key
from mosaico.items.flipped import FLIP_CHANGE
from mosaico.items.matrix import ItemMatrix
from mosaico.overview.dataset_health.measured_runs import HealthRun, UnchangedPair
from mosaico.overview.dataset_health.schemas import ConstantItem, FlippingItem
from mosaico.run_store.deciding_metric import RIGHT_FROM, DecidingMetric
from mosaico.run_store.series_points import StoredPoint

# With fewer runs, many items are the same by chance.
MIN_RUNS: Final = 5
# Of a share between 0 and 1. The item values are stored as 4-byte floats.
_ROUNDING: Final = 1e-6


class ItemValues(NamedTuple):
    """Items in some runs: `values` has a row for each run and a column for each item, NaN where the run does not have the
    item or no value of it.
    """

    item_ids: Sequence[str]
    runs: Sequence[HealthRun]
    values: NDArray[np.float32]


class ConstantItemCounts(NamedTuple):
    """How many items are always right and always wrong, and the first of them."""

    right: int
    wrong: int
    listed: list[ConstantItem]


class FlippingItems(NamedTuple):
    """How many items flip, and the first of them."""

    number: int
    listed: list[FlippingItem]


def read_values(
    matrix: ItemMatrix,
    runs: Sequence[HealthRun],
    points: Sequence[StoredPoint],
    without: Collection[str] = (),
) -> ItemValues:
    """The values of the items of a matrix in runs, from their stored points; runs without one are left out. An item with another
    expected answer is another item. `without` are IDs of items that are left out.
    """
    kept = [
        (item, revision)
        for item, revision in zip(matrix.items, matrix.revisions, strict=True)
        if item not in without
    ]
    keys = _numbers(b"".join(item_key(*item) for item in kept), "<i8")
    order = np.argsort(keys)
    stored = {point.run_seq: point for point in points if point.item_values is not None}
    measured = [run for run in runs if run.seq in stored]
    values = np.full((len(measured), len(keys)), np.nan, dtype=np.float32)
    for row, run in zip(values, measured, strict=True):
        point = stored[run.seq]
        run_keys = _numbers(point.items.keys, "<i8")
        if len(keys):
            places = np.searchsorted(keys, run_keys, sorter=order)
            columns = order[np.minimum(places, len(keys) - 1)]
            is_item = keys[columns] == run_keys
            row[columns[is_item]] = _numbers(point.item_values or b"", "<f4")[is_item]
    return ItemValues([item for item, _ in kept], measured, values)


def find_constant_items(of: ItemValues, decider: DecidingMetric, limit: int) -> ConstantItemCounts:
    """The items with one value in all of at least five runs; those that are always wrong first, the most runs first."""
    is_measured = ~np.isnan(of.values)
    counts = is_measured.sum(axis=0)
    low = np.min(of.values, axis=0, initial=np.inf, where=is_measured)
    high = np.max(of.values, axis=0, initial=-np.inf, where=is_measured)
    is_right = (1 - low if decider.less_is_better else low) >= RIGHT_FROM
    constant = np.flatnonzero((counts >= MIN_RUNS) & (high - low <= _ROUNDING))
    # A stable sort: by ID among equals.
    first = constant[np.lexsort((-counts[constant], is_right[constant]))][:limit]
    agents = np.array([run.agent_id for run in of.runs])
    right = int(is_right[constant].sum())
    return ConstantItemCounts(
        right,
        len(constant) - right,
        [
            ConstantItem(
                item_id=of.item_ids[column],
                value=round(float(low[column]), 6),
                is_right=bool(is_right[column]),
                runs=int(counts[column]),
                agents=len(np.unique(agents[is_measured[:, column]])),
            )
            for column in first
        ],
    )


def find_flipping_items(
    of: ItemValues, pairs: Sequence[UnchangedPair], limit: int
) -> FlippingItems:
    """The items whose value changed by half or more between runs of an unchanged agent, the most flips first."""
    before = of.values[[pair.before for pair in pairs]]
    after = of.values[[pair.after for pair in pairs]]
    change = np.abs(after - before)
    flips = (change >= FLIP_CHANGE - _ROUNDING).sum(axis=0)
    measured_pairs = (~np.isnan(change)).sum(axis=0)
    runs = (~np.isnan(of.values)).sum(axis=0)
    flipping = np.flatnonzero(flips)
    first = flipping[np.lexsort((measured_pairs[flipping], -flips[flipping]))][:limit]
    return FlippingItems(
        len(flipping),
        [
            FlippingItem(
                item_id=of.item_ids[column],
                runs=int(runs[column]),
                pairs=int(measured_pairs[column]),
                flips=int(flips[column]),
            )
            for column in first
        ],
    )


def _numbers(content: bytes, dtype: str) -> NDArray[Any]:
    return np.frombuffer(content, dtype=dtype)
