"""What is asked of the process that computes verdicts, and what it answers; nothing here needs numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.comparison.item_matrix import ItemTable
from app.metrics.types import MetricRef
from app.statistics.intervals import Interval
from app.statistics.verdict import ChangeVerdict, Note, Scale, VerdictRule

# Statistics that hang on one trace: no resample goes beyond what was seen.
EXTREMES = frozenset({"min", "max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuestion:
    """A metric of the run; it is compared unless `rule` is None. `is_success` where 1 is a pass.
    `counted` is the metric itself where its value of the run is read off counts.
    """

    column: str
    scale: Scale
    rule: VerdictRule | None
    is_success: bool = False
    counted: MetricRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiQuestion:
    """A KPI of the run; it is compared unless `rule` is None. A gate is judged alone. `column` is the
    metric of which the KPI is nothing but the mean.
    """

    id: str
    formula: str
    column: str | None
    is_gate: bool
    rule: VerdictRule | None
    threshold_min: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A run, and what of it and of its baseline is compared: the same items in one order where they
    are `paired`, else all of both.
    """

    run: ItemTable
    candidate: ItemTable | None
    base: ItemTable | None
    metrics: Sequence[MetricQuestion]
    kpis: Sequence[KpiQuestion]
    paired: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiInterval:
    """Where a KPI lies, how sure it keeps its lower threshold, and what may make it jump."""

    interval: Interval | None
    reaches_threshold: float | None
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """What k trials of an item are worth, in the mean of the `items` that have as many: the chance
    that one of k passes, the chance that all k do, and the share of items that passed k times.
    """

    k: int
    items: int
    pass_at_k: float
    pass_hat_k: float
    at_least_k: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Intervals and judgements, metrics by column and KPIs by id; what is not known is left out.

    `repeats` are those of metrics that say pass or fail, of items with several trials.
    """

    metric_intervals: Mapping[str, Interval] = field(default_factory=dict)
    kpi_intervals: Mapping[str, KpiInterval] = field(default_factory=dict)
    repeats: Mapping[str, Sequence[Repeats]] = field(default_factory=dict)
    metrics: Mapping[str, ChangeVerdict] = field(default_factory=dict)
    kpis: Mapping[str, ChangeVerdict] = field(default_factory=dict)
