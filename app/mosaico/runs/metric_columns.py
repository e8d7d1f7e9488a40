"""Values of a run by metric: collects trace results into columns, and aggregates them."""

from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import compress
from typing import TypeGuard

from mosaico.formula.ast import split_filter
from mosaico.metrics.aggregate import Aggregate, aggregate
from mosaico.metrics.types import MetricFailureKind, MetricSkipReason
from mosaico.run_store.rules import TraceTally
from mosaico.run_store.scored_trace import ScoredTrace

NOT_COLLECTED = "NOT_COLLECTED"

# Reasons for which a trace does not count as covered by a metric.
_MISSING_TEXT_REASONS = frozenset({MetricSkipReason.NO_EXPECTED_OUTPUT, MetricSkipReason.NO_OUTPUT})


class MetricColumns:
    """The values of a run by metric. Memory: 8 bytes per value, 16 with `trials`.

    With `trials` items were repeated: the item of each value is kept as well, and each row needs its item. `added`
    metrics, which the service measures of itself, are no measurements: they would hide the failures of the others.
    """

    def __init__(
        self, columns: Sequence[str], *, trials: bool, added: Collection[str] = ()
    ) -> None:
        self._counted = [index for index, name in enumerate(columns) if name not in added]
        self._values = [array("d") for _ in columns]
        self._item_indexes = [array("l") for _ in columns] if trials else None
        self._items: dict[str | None, int] = {}
        self._missing: list[Counter[str]] = [Counter() for _ in columns]
        self._index = {name: index for index, name in enumerate(columns)}
        self._is_filtered = [bool(split_filter(name).tags) for name in columns]
        self._total = self._covered = self._errored = self._failed = self._absent = 0

    @property
    def has_trials(self) -> bool:
        """Return whether items were repeated."""
        return self._item_indexes is not None

    def add(self, row: ScoredTrace) -> None:
        """Add the values of one trace, with the reason for each missing one."""
        self.extend([row])

    def extend(self, rows: Sequence[ScoredTrace]) -> None:
        """Add the values of some traces."""
        if not rows:
            return
        columns = [*zip(*(row.values for row in rows), strict=True)]
        for column, values in zip(self._values, columns, strict=True):
            column.extend(values if None not in values else filter(_is_value, values))
        if self._item_indexes is not None:
            items = [self._items.setdefault(row.item_id, len(self._items)) for row in rows]
            for indexes, values in zip(self._item_indexes, columns, strict=True):
                indexes.extend(
                    items if None not in values else compress(items, map(_is_value, values))
                )
        self._total += len(rows)
        # Most traces have a value of each metric: nothing more is counted of them.
        for row in rows:
            if row.notes or row.is_lost:
                self._add_notes(row)
            else:
                self._covered += 1

    def _add_notes(self, row: ScoredTrace) -> None:
        notes = row.notes or {}
        for name, note in notes.items():
            reason = note.get("skipped") or note.get("failed")
            # A trace outside of the filter of a metric is not one of its traces.
            if reason and reason != MetricSkipReason.NOT_SELECTED:
                self._missing[self._index[name]][reason] += 1
        self._errored += row.is_lost
        self._failed += sum("failed" in note for note in notes.values())
        self._covered += not row.is_lost and not any(
            note.get("skipped") in _MISSING_TEXT_REASONS for note in notes.values()
        )

    def add_absent(self, traces: int) -> None:
        """Add traces that the source counts but did not deliver; they lack every metric."""
        if traces <= 0:
            return
        self._absent += traces
        self._total += traces
        for missing, is_filtered in zip(self._missing, self._is_filtered, strict=True):
            # The tags of an absent trace are unknown, so it counts for no filter.
            if not is_filtered:
                missing[NOT_COLLECTED] += traces

    def aggregates(self) -> dict[str, Aggregate]:
        """The aggregate of each metric by column name."""
        return {
            name: aggregate(
                self._values[index],
                expected=self._expected(index),
                missing=self._missing[index],
                items=self._item_indexes[index] if self._item_indexes is not None else None,
            )
            for name, index in self._index.items()
        }

    def tally(self) -> TraceTally:
        """The counts from which the validity of the run is decided."""
        return TraceTally(
            total=self._total,
            covered=self._covered,
            errored=self._errored,
            measurements=sum(map(self._measurements, self._counted)),
            failed=self._failed,
        )

    def _expected(self, index: int) -> int:
        """The traces of a metric: all traces or those that its filter selects, without those that it cannot read."""
        unread = self._missing[index][MetricSkipReason.NOT_APPLICABLE]
        if not self._is_filtered[index]:
            return self._total - unread
        return len(self._values[index]) + sum(self._missing[index].values()) - unread

    def _measurements(self, index: int) -> int:
        # Traces outside of the metric may have errors, too: with some, only its values and failures are its own.
        is_partial = self._missing[index][MetricSkipReason.NOT_APPLICABLE] > 0
        if not (self._is_filtered[index] or is_partial):
            return self._total - self._absent - self._errored
        failures = (self._missing[index][kind] for kind in MetricFailureKind)
        return len(self._values[index]) + sum(failures)


def _is_value(value: float | None) -> TypeGuard[float]:
    return value is not None
