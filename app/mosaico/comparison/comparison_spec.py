"""Input and output of the process that computes comparisons; needs no numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mosaico.comparison.deciders import NO_DECIDERS, Deciders
from mosaico.comparison.value_coverage import LostValues
from mosaico.items.formulas.properties import Line, ValueRange
from mosaico.items.matrix import ItemMatrix
from mosaico.kpis.verdict_types import RepeatedTrials, SubjectKey, ValueFailure
from mosaico.metrics.registry import column_of
from mosaico.metrics.types import MetricRef
from mosaico.statistics.intervals import Interval
from mosaico.statistics.verdict_rules import (
    About,
    ChangeVerdict,
    Judgement,
    Scale,
    VerdictNote,
    VerdictRule,
)
from mosaico.statistics.whole_runs import MeasuredRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparisonSpec:
    """A metric of the run; it is compared unless `rule` is None.

    The metrics and KPIs of `is_judged` are judged together; all others are for information.
    `is_success` marks a metric whose value 1 is a pass. `count_metric` is set for a metric whose
    value of the run is computed from label counts. `limits` are those of its values. `judgement` says who
    gave a score; None for a value that is computed.
    """

    column: str
    rule: VerdictRule | None
    limits: ValueRange
    is_success: bool = False
    is_judged: bool = False
    count_metric: MetricRef | None = None
    judgement: Judgement | None = None

    @property
    def is_amount(self) -> bool:
        """Whether it is a time, a cost or a number of tokens."""
        return self.rule is not None and self.rule.scale is Scale.RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiComparisonSpec:
    """A KPI of the run; it is compared unless `rule` is None.

    `line` is set when the KPI is a linear function of one statistic of a metric: it then has the
    verdict of that statistic, and `limits` are those of the statistic, otherwise of the KPI. `is_amount` marks one
    that reads a time, a cost or a number of tokens.
    """

    id: str
    formula: str
    is_judged: bool
    rule: VerdictRule | None
    limits: ValueRange
    line: Line | None = None
    threshold_min: float | None = None
    is_amount: bool = False

    @property
    def value_limits(self) -> ValueRange:
        """The limits of the value of the KPI."""
        return self.limits if self.line is None else self.line.range_of(self.limits)

    @property
    def column(self) -> str | None:
        """The metric of a KPI that is nothing but its mean."""
        if self.line is None or self.line.reference.stat != "mean":
            return None
        is_mean = (self.line.slope, self.line.offset) == (1.0, 0.0)
        return column_of(self.line.reference.key) if is_mean else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSpec:
    """A run, and the items of candidate and baseline to compare.

    With `is_paired` both hold the same items in the same order, otherwise all items of each run.
    `failures` are metrics and KPIs that cannot be computed; `deciders` are what decides. `about`
    is the question that decides; without it the data choose. `lost_values` are the metrics, by column, that are not
    compared, because too few items have values. `measured_runs` is how much whole runs of a series vary, by its name,
    and `run_sd` what the user states; without both it is assumed.
    """

    run: ItemMatrix
    candidate: ItemMatrix | None
    baseline: ItemMatrix | None
    metrics: Sequence[MetricComparisonSpec]
    kpis: Sequence[KpiComparisonSpec]
    is_paired: bool = True
    failures: Mapping[SubjectKey, ValueFailure] = field(default_factory=dict)
    deciders: Deciders = NO_DECIDERS
    about: About | None = None
    lost_values: Mapping[str, LostValues] = field(default_factory=dict)
    measured_runs: Mapping[str, MeasuredRuns] = field(default_factory=dict)
    run_sd: float | None = None

    @property
    def count_metrics(self) -> dict[str, MetricRef]:
        """The metrics that are computed from label counts, by column."""
        return {
            metric.column: metric.count_metric for metric in self.metrics if metric.count_metric
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiInterval:
    """The interval of a KPI, the probability that it reaches its lower threshold, and notes."""

    interval: Interval | None
    threshold_probability: float | None
    notes: tuple[VerdictNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """Intervals and changes, metrics by column and KPIs by ID; unknown ones are left out.

    `repeats` holds pass@k statistics of pass-or-fail metrics whose items have several trials.
    `failures` are the metrics and KPIs of which a part could not be computed; `lost_values` are those of the spec.
    """

    metric_intervals: Mapping[str, Interval] = field(default_factory=dict)
    kpi_intervals: Mapping[str, KpiInterval] = field(default_factory=dict)
    repeats: Mapping[str, Sequence[RepeatedTrials]] = field(default_factory=dict)
    metrics: Mapping[str, ChangeVerdict] = field(default_factory=dict)
    kpis: Mapping[str, ChangeVerdict] = field(default_factory=dict)
    failures: Mapping[SubjectKey, ValueFailure] = field(default_factory=dict)
    deciders: Deciders = NO_DECIDERS
    lost_values: Mapping[str, LostValues] = field(default_factory=dict)


class ObservedValues(NamedTuple):
    """The values of a run: metrics by column, KPIs by ID; undefined ones are left out."""

    metrics: Mapping[str, float]
    kpis: Mapping[str, float]
    failures: Mapping[SubjectKey, ValueFailure]
