"""The series of a run and its points: the values of its KPIs and metrics by item; no database.

Needs no numpy: arrays are bytes of little-endian numbers, which `mosaico.comparison.series_levels`
writes and reads in a child process.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mosaico.kpis.series_types import RunsEvidence, SeriesState
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import Scale, Side


class ItemIndex(NamedTuple):
    """The items of a run: 8-byte keys of item and task, 4-byte numbers of traces, 8-byte clusters."""

    keys: bytes
    traces: bytes
    clusters: bytes | None = None


class SeriesPoint(NamedTuple):
    """One series in a run. `item_values` are 4-byte floats in the order of the run's items; None for
    a value that is not a mean over items. On the scale RATIO all numbers are logarithms; the level of the
    value 0 is −∞, and its values by item are 0. `assumed_sd` is the assumed standard deviation of whole runs, on the
    same scale; None where it follows from the scale.
    """

    scale: Scale
    side: Side
    level: float
    item_values: bytes | None = None
    assumed_sd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoints:
    """The items of a run, and its points by series."""

    items: ItemIndex
    series: Mapping[str, SeriesPoint]


class StoredPoint(NamedTuple):
    """A point of an earlier run, with the items of that run."""

    run_seq: int
    scale: str
    level: float
    item_values: bytes | None
    items: ItemIndex
    assumed_sd: float | None = None


class SeriesValues(NamedTuple):
    """A point of a series in a run; the items are those of the run."""

    series: str
    run_seq: int
    scale: str
    level: float
    item_values: bytes | None
    assumed_sd: float | None

    def with_items(self, items: ItemIndex) -> StoredPoint:
        return StoredPoint(
            self.run_seq, self.scale, self.level, self.item_values, items, self.assumed_sd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesResult:
    """A series after a run: its point, the levels of its runs by sequence number, the evidence over
    the runs and the state; None for a series without a direction of harm.
    """

    point: SeriesPoint
    levels: Mapping[int, RunLevel]
    evidence: RunsEvidence | None = None
    state: SeriesState | None = None


def metric_series(column: str) -> str:
    """The series of the mean of a metric."""
    return f"metric/{column}"


def kpi_series(kpi_id: str) -> str:
    """The series of a KPI."""
    return f"kpi/{kpi_id}"
