"""Measurements of the watched values in earlier runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from mosaico.alerts.evaluation.watched_values import (
    Measurement,
    RuleTarget,
    measure_kpi,
    measure_metric,
)
from mosaico.formula import Reference, compile_formula
from mosaico.metrics.registry import column_of
from mosaico.run_store.run_history import PastRun, RunHistory

# From so many traces on, chance within a run is too small to matter, and reading them all is slow.
MAX_TRACES = 100_000


class MeasurementHistory:
    """Measurements of some past runs of a benchmark; each target is read once, however many rules watch it."""

    def __init__(self, session: Session, runs: Sequence[PastRun]) -> None:
        # The numbers of invalid runs say nothing about the agent.
        self._history = RunHistory(session, [run for run in runs if run.is_valid])
        self._measurements: dict[RuleTarget, Mapping[int, Measurement]] = {}

    def measurements(self, target: RuleTarget) -> Mapping[int, Measurement]:
        """The measurements of valid runs, by sequence number."""
        if target not in self._measurements:
            self._measurements[target] = (
                self._of_kpi(target.kpi_id) if target.kpi_id else self._of_metric(target.metric)
            )
        return self._measurements[target]

    def _of_kpi(self, kpi_id: str) -> dict[int, Measurement]:
        values = self._history.kpi_values(kpi_id)
        # The formula may differ from run to run; the aggregates of all of them are read first, in one query.
        formulas = {value.formula for value in values}
        references = {ref for formula in formulas for ref in compile_formula(formula).references}
        self._history.load_metrics({column_of(ref.key) for ref in references})
        return {
            value.run_seq: replace(
                measure_kpi(
                    name=value.name,
                    direction=value.direction,
                    unit=value.unit,
                    formula=value.formula,
                    value=value.value,
                    reason=value.undefined_reason,
                    aggregates=self._history.aggregates_of_run(value.run_seq),
                ).with_correction(value.value, value.correction),
                verdict=value.verdict,
            )
            for value in values
        }

    def _of_metric(self, reference: Reference | None) -> dict[int, Measurement]:
        if reference is None:
            return {}
        metrics = self._history.metrics(column_of(reference.key))
        return {
            run_seq: replace(measure_metric(reference, metric.aggregate), verdict=metric.verdict)
            for run_seq, metric in metrics.items()
        }
