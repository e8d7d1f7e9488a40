"""Input and output of the process that computes comparisons; needs no numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.comparison.item_matrix import ItemMatrix
from app.kpis.verdict_types import RepeatedTrials
from app.metrics.types import MetricRef
from app.statistics.intervals import Interval
from app.statistics.verdict_rules import ChangeVerdict, Note, Scale, VerdictRule

# Statistics that depend on a single trace: no resample exceeds the observed values.
EXTREMES = frozenset({"min", "max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparisonSpec:
    """A metric of the run; it is compared unless `rule` is None.

    `is_success` marks a metric whose value 1 is a pass. `count_metric` is set for a metric whose
    value of the run is computed from label counts.
    """

    column: str
    scale: Scale
    rule: VerdictRule | None
    is_success: bool = False
    count_metric: MetricRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiComparisonSpec:
    """A KPI of the run; it is compared unless `rule` is None.

    A gate KPI is not adjusted for the number of KPIs. `column` is set when the KPI is nothing but
    the mean of a metric.
    """

    id: str
    formula: str
    column: str | None
    is_gate: bool
    rule: VerdictRule | None
    threshold_min: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSpec:
    """A run, and the items of candidate and baseline to compare.

    With `is_paired` both hold the same items in the same order, otherwise all items of each run.
    """

    run: ItemMatrix
    candidate: ItemMatrix | None
    baseline: ItemMatrix | None
    metrics: Sequence[MetricComparisonSpec]
    kpis: Sequence[KpiComparisonSpec]
    is_paired: bool = True

    @property
    def count_metrics(self) -> dict[str, MetricRef]:
        """The metrics that are computed from label counts, by column."""
        return {
            metric.column: metric.count_metric for metric in self.metrics if metric.count_metric
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiInterval:
    """The interval of a KPI, the share of resamples that reach its lower threshold, and notes."""

    interval: Interval | None
    threshold_probability: float | None
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """Intervals and changes, metrics by column and KPIs by ID; unknown ones are left out.

    `repeats` holds pass@k statistics of pass-or-fail metrics whose items have several trials.
    """

    metric_intervals: Mapping[str, Interval] = field(default_factory=dict)
    kpi_intervals: Mapping[str, KpiInterval] = field(default_factory=dict)
    repeats: Mapping[str, Sequence[RepeatedTrials]] = field(default_factory=dict)
    metrics: Mapping[str, ChangeVerdict] = field(default_factory=dict)
    kpis: Mapping[str, ChangeVerdict] = field(default_factory=dict)


class ObservedValues(NamedTuple):
    """The values of a run: metrics by column, KPIs by ID; undefined ones are left out."""

    metrics: Mapping[str, float]
    kpis: Mapping[str, float]
