"""What a run means for the rules about it; decided from stored rows, before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from app.alerts import queries
from app.alerts.history import (
    MOST_TRACES,
    PastRun,
    Source,
    StoredValues,
    Stretch,
    confirmed_stretches,
    observe,
    past_runs,
    reading_of,
)
from app.alerts.models import AlertConfig
from app.alerts.rules import (
    Assessment,
    Condition,
    Observation,
    Outcome,
    Rule,
    Subject,
    evaluate_condition,
)
from app.alerts.schemas import rule_of
from app.alerts.traces import changed_traces
from app.core.db import Database
from app.core.errors import AppError, Unavailable
from app.formula import compile_formula
from app.kpis.evaluate import KpiValue
from app.kpis.verdicts import ValueVerdict
from app.metrics.aggregate import Aggregate
from app.metrics.registry import column_of

TRACES_SHOWN = 5
METRICS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRun:
    """A run that is about to end, with all that it was found to be; `traces` is how many. Verdicts
    are by KPI and by column.
    """

    seq: int
    id: str
    benchmark_id: str
    agent_id: str
    fingerprint: str | None
    is_valid: bool
    reasons: tuple[str, ...]
    traces: int
    kpis: Sequence[KpiValue]
    aggregates: Mapping[str, Aggregate]
    kpi_verdicts: Mapping[str, ValueVerdict] = field(default_factory=dict)
    metric_verdicts: Mapping[str, ValueVerdict] = field(default_factory=dict)

    def verdict_on(self, source: Source) -> ValueVerdict | None:
        """How a KPI or the mean of a metric stands beside its baseline."""
        if source.metric is None:
            return self.kpi_verdicts.get(source.kpi or "")
        return self.metric_verdicts.get(column_of(source.metric.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a run says about one revision of a rule, and the traces that made it so."""

    config_id: str
    revision: int
    assessment: Assessment
    traces: tuple[dict[str, Any], ...] = ()


class Decisions(NamedTuple):
    """What a run says about every rule; nothing when it is not valid."""

    run: EvaluatedRun
    items: tuple[Decision, ...] = ()


class _Seen(NamedTuple):
    """A rule, and what it is judged by."""

    config: AlertConfig
    subject: Subject
    observation: Observation


class AlertEvaluationService:
    """Judges runs by the rules about them. It reads; `service.record_decisions` writes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def evaluate_alerts_for_run(self, run: EvaluatedRun) -> Decisions:
        """What a run says about each enabled rule; call it before the run is stored as ended.

        An invalid run says nothing about any of them.
        """
        if not run.is_valid:
            return Decisions(run)
        with self._db.read() as session:
            configs = queries.enabled_configs(session, run.benchmark_id, run.agent_id)
            if not configs:
                return Decisions(run)
            past = past_runs(
                session,
                run.benchmark_id,
                run.agent_id,
                before=run.seq,
                fingerprint=run.fingerprint,
            )
            stored = StoredValues(session, past)
            ids = [config.id for config in configs]
            confirmed = confirmed_stretches(session, ids, run.agent_id)
            seen = [_seen(config, run, past, stored, confirmed[config.id]) for config in configs]
        assessed = [self.evaluate_condition(rule_of(one.config), one) for one in seen]
        return Decisions(run, self._decisions(run, past, seen, assessed))

    def evaluate_condition(self, rule: Rule, seen: _Seen) -> Assessment:
        """What a valid run says about one rule; pure."""
        return evaluate_condition(rule, seen.subject, seen.observation)

    def _decisions(
        self,
        run: EvaluatedRun,
        past: Sequence[PastRun],
        seen: Sequence[_Seen],
        assessed: Sequence[Assessment],
    ) -> tuple[Decision, ...]:
        earlier = past[-1].seq if past else None
        known: dict[tuple[str, bool], tuple[dict[str, Any], ...]] = {}
        decisions = []
        for one, assessment in zip(seen, assessed, strict=True):
            traces: tuple[dict[str, Any], ...] = ()
            if assessment.outcome is Outcome.BREACH and run.traces <= MOST_TRACES:
                down = _went_down(Condition(one.config.condition), assessment)
                for column in _columns(one.config, run)[:METRICS_SHOWN]:
                    if (column, down) not in known:
                        known[column, down] = self._changed(run.seq, earlier, column, down=down)
                    traces += known[column, down]
            decisions.append(
                Decision(
                    config_id=one.config.id,
                    revision=one.config.revision,
                    assessment=assessment,
                    traces=traces,
                )
            )
        return tuple(decisions)

    def _changed(
        self, run_seq: int, earlier: int | None, column: str, *, down: bool
    ) -> tuple[dict[str, Any], ...]:
        with self._db.read() as session:
            found = changed_traces(session, column, run_seq, earlier, down=down, most=TRACES_SHOWN)
        return tuple(
            {
                "metric": column,
                "traceId": trace.trace_id,
                "itemId": trace.item_id,
                "url": trace.url,
                "value": trace.value,
                "before": trace.before,
            }
            for trace in found
        )


def _seen(
    config: AlertConfig,
    run: EvaluatedRun,
    past: Sequence[PastRun],
    stored: StoredValues,
    confirmed: Sequence[Stretch],
) -> _Seen:
    """What a rule is judged by. What cannot be read is no data: it fails no run."""
    source, subject = Source.of(config.kpi, config.metric), Subject(name=config.name)
    needs_items = config.condition == Condition.ANOMALY_DETECTED
    try:
        reading = reading_of(source, run.kpis, run.aggregates)
        if reading is not None:
            reading = replace(reading, verdict=run.verdict_on(source))
        readings = stored.readings(source, with_items=needs_items)
    except Unavailable:
        raise
    except AppError as error:
        return _Seen(config, subject, Observation(value=None, reason=error.detail))
    observation = observe(reading, run.fingerprint, past, readings, confirmed)
    return _Seen(config, reading.subject if reading else subject, observation)


def _columns(config: AlertConfig, run: EvaluatedRun) -> list[str]:
    """The metrics behind a rule."""
    source = Source.of(config.kpi, config.metric)
    if source.metric is not None:
        return [column_of(source.metric.key)]
    formulas = [value.kpi.formula for value in run.kpis if value.kpi.id == source.kpi]
    return sorted(
        {column_of(ref.key) for formula in formulas for ref in compile_formula(formula).references}
    )


def _went_down(condition: Condition, assessment: Assessment) -> bool:
    """Which way the value went that made the rule fire."""
    if condition in (Condition.LESS_THAN, Condition.PERCENTAGE_DROP):
        return True
    if assessment.value is None or assessment.baseline is None:
        return condition is not Condition.GREATER_THAN
    return assessment.value < assessment.baseline
