"""The traces behind a breach: those that changed most in the metrics that a rule watches."""

from collections.abc import Sequence

from mosaico.alerts.details import ContributingTrace
from mosaico.alerts.evaluation.value_history import MAX_TRACES
from mosaico.alerts.evaluation.watched_values import RuleTarget
from mosaico.alerts.models import AlertRule
from mosaico.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
)
from mosaico.core.db import Database
from mosaico.formula import compile_formula
from mosaico.metrics.registry import column_of
from mosaico.run_store.run_history import (
    PastRun,
    list_changed_traces,
)
from mosaico.run_store.run_result import RunResult

TRACES_PER_METRIC = 5

ContributingTraces = tuple[ContributingTrace, ...]


class TraceFinder:
    """Finds the traces behind a breach; each metric is read once, however many rules breach."""

    def __init__(self, db: Database, result: RunResult) -> None:
        self._db = db
        self._result = result
        self._traces: dict[tuple[str, int | None, bool], ContributingTraces] = {}

    def find(
        self,
        rule: AlertRule,
        assessment: Assessment,
        columns: Sequence[str],
        previous: PastRun | None,
    ) -> ContributingTraces:
        # Larger runs are skipped: the query would read every trace of two runs for an illustration.
        if assessment.outcome is not AlertOutcome.BREACH or self._result.trace_count > MAX_TRACES:
            return ()
        fell = _value_fell(Condition(rule.condition), assessment)
        previous_seq = previous.seq if previous else None
        return tuple(
            trace
            for column in columns
            for trace in self._of_column(column, previous_seq, fell=fell)
        )

    def _of_column(
        self, column: str, previous_seq: int | None, *, fell: bool
    ) -> ContributingTraces:
        key = (column, previous_seq, fell)
        if key not in self._traces:
            with self._db.read() as session:
                traces = list_changed_traces(
                    session,
                    column,
                    self._result.run_seq,
                    previous_seq,
                    fell=fell,
                    limit=TRACES_PER_METRIC,
                )
            self._traces[key] = tuple(
                ContributingTrace(metric=column, **trace._asdict()) for trace in traces
            )
        return self._traces[key]


def watched_columns(rule: AlertRule, result: RunResult) -> list[str]:
    """The metrics behind the value that a rule watches."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.metric is not None:
        return [column_of(target.metric.key)]
    formulas = [value.kpi.formula for value in result.kpis if value.kpi.id == target.kpi_id]
    return sorted(
        {column_of(ref.key) for formula in formulas for ref in compile_formula(formula).references}
    )


def _value_fell(condition: Condition, assessment: Assessment) -> bool:
    """Return whether the breach is a value that fell, so that traces with lower values
    explain it.
    """
    if condition in (Condition.LESS_THAN, Condition.PERCENTAGE_DROP):
        return True
    if assessment.value is None or assessment.baseline is None:
        # Without a baseline the direction of the condition decides.
        return condition is not Condition.GREATER_THAN
    return assessment.value < assessment.baseline
