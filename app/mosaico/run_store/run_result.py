"""The result of one run: everything that is computed before the run is stored as COMPLETED."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from mosaico.formula import compile_formula
from mosaico.kpis.evaluate import KpiValue, PlannedKpi
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import RunVerdicts
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.registry import column_of
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.recorded_attributes import RunRecord
from mosaico.run_store.rules import Validity, ValidityVerdict
from mosaico.run_store.series_points import ItemIndex, SeriesResult


class SameData(NamedTuple):
    """The first valid run with the data of another run."""

    run_seq: int
    run_id: str
    completed_at: datetime | None


class RunPlace(NamedTuple):
    """The place of a run among those of its agent: the run whose data it repeats, if there is one, otherwise whether
    a later night was judged before it. A rescored run never has new data, and is late unless it repeats its origin.
    """

    data_digest: str | None = None
    same_data: SameData | None = None
    is_rescored: bool = False
    is_late: bool = False

    @property
    def has_new_data(self) -> bool:
        """Whether the run has new data if it is valid."""
        return self.same_data is None and not self.is_rescored


NEWEST: Final = RunPlace()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """All results of a run. The alert rules evaluate it, and `finish_run` stores it.

    `aggregates` holds one entry for each metric, by column; `trace_count` counts the traces that
    the source has, including those it did not deliver. `metric_warning` names metrics that cannot read many of the
    expected texts, `gaps` are the reasons of those, by column, that have values of too few traces, `agreements` how far judges agree with people. `series` holds the KPIs and metrics over the
    last runs, by `metric_series` and `kpi_series`, with the items of this run; it is empty for an
    invalid run and for one without new data. `night` is the `POSITION` of the run; None: its sequence number. `record` is what its traces say of the agent.
    """

    run_id: str
    run_seq: int
    plan: RunPlan
    fingerprint: str | None
    trace_count: int
    aggregates: Mapping[str, Aggregate]
    kpis: Sequence[KpiValue]
    validity: ValidityVerdict
    verdicts: RunVerdicts
    metric_warning: str | None = None
    gaps: Mapping[str, str] = field(default_factory=dict)
    agreements: Mapping[str, PeopleAgreement] = field(default_factory=dict)
    items: ItemIndex | None = None
    series: Mapping[str, SeriesResult] = field(default_factory=dict)
    place: RunPlace = NEWEST
    night: int | None = None
    record: RunRecord | None = None

    @property
    def benchmark_id(self) -> str:
        return self.plan.benchmark_id

    @property
    def agent_id(self) -> str:
        return self.plan.agent_id

    @property
    def is_valid(self) -> bool:
        return self.validity.validity is Validity.VALID

    def evidence_of(self, series: str) -> RunsEvidence | None:
        """The evidence over the last runs of a series; None when there is none."""
        series_result = self.series.get(series)
        return series_result.evidence if series_result else None

    def kpi_coverage(self, kpi: PlannedKpi) -> float | None:
        """Coverage of the least covered metric of a KPI; None when its formula names no metric that is applicable
        to any trace.
        """
        aggregates = self._aggregates_of(kpi).values()
        # A metric that can read no expected text of the run has no traces that it could cover.
        covered = (a for a in aggregates if a.expected or not a.not_applicable)
        return min((aggregate.coverage or 0.0 for aggregate in covered), default=None)

    def kpi_missing(self, kpi: PlannedKpi) -> dict[str, int]:
        """Number of traces without a value, by metric of a KPI; metrics with all values are left out."""
        counts = {
            column: sum(aggregate.missing.values())
            for column, aggregate in self._aggregates_of(kpi).items()
        }
        return {column: count for column, count in counts.items() if count}

    def _aggregates_of(self, kpi: PlannedKpi) -> dict[str, Aggregate]:
        columns = {column_of(ref.key): ref for ref in compile_formula(kpi.formula).references}
        return {column: self.aggregates[column] for column in columns}
