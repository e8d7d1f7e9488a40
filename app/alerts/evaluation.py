"""What a run means for the alert rules about it; decided from stored rows, before any write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.alerts import queries
from app.alerts.models import AlertRule
from app.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    Observation,
    RuleSpec,
    ValueSpec,
    evaluate_condition,
)
from app.alerts.schemas import rule_spec
from app.alerts.value_history import MAX_TRACES, MeasurementHistory
from app.alerts.watched_values import IncidentSpan, RuleTarget, measure, observe
from app.core.db import Database
from app.core.errors import AppError, Unavailable
from app.formula import compile_formula
from app.metrics.registry import column_of
from app.results.run_history import PastRun, list_changed_traces, list_comparable_runs
from app.results.run_result import RunResult
from app.statistics.anomaly import WINDOW

TRACES_PER_METRIC = 5
MAX_METRICS = 3

ContributingTraces = tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """What a run says about one revision of a rule, and the traces that contributed most."""

    rule_id: str
    revision: int
    assessment: Assessment
    traces: ContributingTraces = ()


class RuleObservation(NamedTuple):
    """A rule with the value it watches in the run and in the runs before."""

    rule: AlertRule
    value_spec: ValueSpec
    observation: Observation


class AlertEvaluationService:
    """Judges runs by the rules about them. It only reads; `service.record_decisions` writes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def evaluate_alerts_for_run(self, result: RunResult) -> list[AlertDecision]:
        """The decision of each enabled rule; call it before the run is stored as completed.

        There are none for an invalid run: its numbers say nothing about the agent.
        """
        if not result.is_valid:
            return []
        with self._db.read() as session:
            rules = queries.list_enabled_rules(session, result.benchmark_id, result.agent_id)
            # Most runs have no rules: their history is not read.
            if not rules:
                return []
            past = list_comparable_runs(
                session,
                result.benchmark_id,
                result.agent_id,
                fingerprint=result.fingerprint,
                before=result.run_seq,
                # Anomaly detection looks at no more runs, and no other condition needs as many.
                limit=WINDOW,
            )
            history = MeasurementHistory(session, past)
            rule_ids = [rule.id for rule in rules]
            confirmed = queries.confirmed_incidents(session, rule_ids, result.agent_id)
            observations = [
                _observe(rule, result, past, history, confirmed[rule.id]) for rule in rules
            ]
        # From here on no transaction is open: anomaly statistics over the history take a while.
        traces = _TraceFinder(self._db, result, past)
        return [self._decide(observation, traces) for observation in observations]

    def evaluate_condition(self, spec: RuleSpec, observation: RuleObservation) -> Assessment:
        """What a valid run says about one rule; pure."""
        return evaluate_condition(spec, observation.value_spec, observation.observation)

    def _decide(self, observation: RuleObservation, traces: "_TraceFinder") -> AlertDecision:
        rule = observation.rule
        assessment = self.evaluate_condition(rule_spec(rule), observation)
        return AlertDecision(
            rule_id=rule.id,
            # The revision that was read: `record_decisions` drops the decision if the rule was
            # edited meanwhile.
            revision=rule.revision,
            assessment=assessment,
            traces=traces.find(rule, assessment),
        )


class _TraceFinder:
    """Finds the traces behind a breach; each metric is read once, however many rules breach."""

    def __init__(self, db: Database, result: RunResult, past: Sequence[PastRun]) -> None:
        self._db = db
        self._result = result
        self._previous_seq = past[-1].seq if past else None
        self._traces: dict[tuple[str, bool], ContributingTraces] = {}

    def find(self, rule: AlertRule, assessment: Assessment) -> ContributingTraces:
        # Larger runs are skipped: the query would read every trace of two runs for an illustration.
        if assessment.outcome is not AlertOutcome.BREACH or self._result.trace_count > MAX_TRACES:
            return ()
        fell = _value_fell(Condition(rule.condition), assessment)
        columns = _watched_columns(rule, self._result)[:MAX_METRICS]
        return tuple(trace for column in columns for trace in self._of_column(column, fell=fell))

    def _of_column(self, column: str, *, fell: bool) -> ContributingTraces:
        if (column, fell) not in self._traces:
            with self._db.read() as session:
                traces = list_changed_traces(
                    session,
                    column,
                    self._result.run_seq,
                    self._previous_seq,
                    fell=fell,
                    limit=TRACES_PER_METRIC,
                )
            self._traces[column, fell] = tuple(
                {
                    "metric": column,
                    "traceId": trace.trace_id,
                    "itemId": trace.item_id,
                    "url": trace.url,
                    "value": trace.value,
                    "before": trace.before,
                }
                for trace in traces
            )
        return self._traces[column, fell]


def _observe(
    rule: AlertRule,
    result: RunResult,
    past: Sequence[PastRun],
    history: MeasurementHistory,
    confirmed: Sequence[IncidentSpan],
) -> RuleObservation:
    """The watched value with its history. A value that cannot be computed (its metric was removed,
    say) counts as no data: a rule never fails a run.
    """
    target, value_spec = RuleTarget.of(rule.kpi, rule.metric), ValueSpec(name=rule.name)
    with_items = rule.condition == Condition.ANOMALY_DETECTED
    try:
        measurement = measure(target, result)
        measurements = history.measurements(target, with_items=with_items)
    except Unavailable:  # the database is away: the job is tried again
        raise
    except AppError as error:
        return RuleObservation(rule, value_spec, Observation(value=None, reason=error.detail))
    observation = observe(measurement, result.fingerprint, past, measurements, confirmed)
    return RuleObservation(rule, measurement.spec if measurement else value_spec, observation)


def _watched_columns(rule: AlertRule, result: RunResult) -> list[str]:
    """The metrics behind the value that a rule watches."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.metric is not None:
        return [column_of(target.metric.key)]
    formulas = [value.kpi.formula for value in result.kpis if value.kpi.id == target.kpi_id]
    return sorted(
        {column_of(ref.key) for formula in formulas for ref in compile_formula(formula).references}
    )


def _value_fell(condition: Condition, assessment: Assessment) -> bool:
    """Whether the breach is a value that fell, so that traces with lower values explain it."""
    if condition in (Condition.LESS_THAN, Condition.PERCENTAGE_DROP):
        return True
    if assessment.value is None or assessment.baseline is None:
        # Without a baseline the direction of the condition decides.
        return condition is not Condition.GREATER_THAN
    return assessment.value < assessment.baseline
