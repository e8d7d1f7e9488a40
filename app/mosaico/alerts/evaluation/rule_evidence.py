"""Reads the data with which a run is judged by a rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy.orm import Session

from mosaico.alerts import incident_queries, queries
from mosaico.alerts.evaluation.series_decision import scale_of
from mosaico.alerts.evaluation.value_history import MeasurementHistory
from mosaico.alerts.evaluation.watched_values import RuleTarget, measure, observe
from mosaico.alerts.incident_queries import ValueSeries
from mosaico.alerts.models import AlertRule, AlertState, Incident
from mosaico.alerts.rules import (
    Condition,
    Observation,
    RunSpan,
    ValueSpec,
)
from mosaico.core.errors import AppError, Unavailable
from mosaico.kpis.series_types import OpenIncident, SeriesState
from mosaico.metrics.registry import column_of
from mosaico.run_store.plan import describe_changes
from mosaico.run_store.run_history import (
    PastRun,
    list_comparable_runs,
    read_plan,
)
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.run_series import (
    SeriesResult,
    find_series_state,
    kpi_series,
    metric_series,
)
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel


class RuleObservation(NamedTuple):
    """A rule with the value it watches in the run and in the runs before."""

    rule: AlertRule
    value_spec: ValueSpec
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvidence:
    """The data that the evaluation of one rule for a run reads.

    `series_result` has the levels of the run and of the runs of `series`, the state of a REGRESSED rule;
    None for a value without levels. `incident` is the open incident. `past` is the
    history, and `changes` lists the changes of agent, model and benchmark since its last run.
    """

    watched: RuleObservation
    seen_seq: int
    series: SeriesState
    series_result: SeriesResult | None
    incident: Incident | None
    past: Sequence[PastRun]
    changes: tuple[str, ...]

    def last_before(self, incident: OpenIncident | None) -> PastRun | None:
        """The last run before the first bad one: a page may come several bad runs after it."""
        if incident is None:
            return self.past[-1] if self.past else None
        return next((run for run in reversed(self.past) if run.seq < incident.started), None)


class HistoryReader:
    """Reads the histories of rules about one run; each value is read once for all of its rules."""

    def __init__(self, session: Session, result: RunResult) -> None:
        self._session = session
        self._result = result
        self._spans: dict[ValueSeries, list[RunSpan]] = {}
        self._changes_since: dict[int, tuple[str, ...]] = {}
        self._histories: dict[tuple[RunSpan, ...], tuple[list[PastRun], MeasurementHistory]] = {}

    def read(self, rule: AlertRule) -> RuleEvidence:
        session, result = self._session, self._result
        state = queries.get_state(session, rule.id, result.agent_id)
        key = ValueSeries(result.benchmark_id, result.agent_id, rule.kpi, rule.metric)
        if key not in self._spans:
            self._spans[key] = incident_queries.excluded_runs(session, key)
        past, measurements = self._history(tuple(self._spans[key]))
        return RuleEvidence(
            watched=_observe(rule, result, past, measurements),
            seen_seq=state.run_seq if state is not None else 0,
            series=self._series(rule, state, past),
            series_result=self._result.series.get(series_name(rule)),
            incident=self._open_incident(state),
            past=past,
            changes=self._changes(past[-1]) if past else (),
        )

    def _changes(self, previous: PastRun) -> tuple[str, ...]:
        if previous.seq not in self._changes_since:
            changes = read_changes(self._session, self._result, previous)
            self._changes_since[previous.seq] = changes
        return self._changes_since[previous.seq]

    def _history(self, spans: tuple[RunSpan, ...]) -> tuple[list[PastRun], MeasurementHistory]:
        if spans not in self._histories:
            past = list_comparable_runs(
                self._session,
                self._result.benchmark_id,
                self._result.agent_id,
                fingerprint=self._result.fingerprint,
                before=self._result.run_seq,
                # The reference of a series has at most so many runs; all others look at fewer.
                limit=MAX_REFERENCE,
                excluded=spans,
            )
            self._histories[spans] = past, MeasurementHistory(self._session, past)
        return self._histories[spans]

    def _series(
        self, rule: AlertRule, state: AlertState | None, past: Sequence[PastRun]
    ) -> SeriesState:
        """The series of a rule; a new rule starts with the runs that exist already."""
        if rule.condition != Condition.REGRESSED:
            return SeriesState()
        if state is not None and state.series is not None:
            return state.series
        runs = [run.seq for run in past]
        stored = find_series_state(self._session, series_name(rule), runs)
        return stored if stored.runs else SeriesState(reference=tuple(runs))

    def _open_incident(self, state: AlertState | None) -> Incident | None:
        if state is None or state.incident_id is None:
            return None
        return incident_queries.get_incident(self._session, state.incident_id)


def _observe(
    rule: AlertRule, result: RunResult, past: Sequence[PastRun], history: MeasurementHistory
) -> RuleObservation:
    """The watched value with its history. A value that cannot be computed (its metric was removed,
    say) counts as no data: a rule never fails a run.
    """
    target, value_spec = RuleTarget.of(rule.kpi, rule.metric), ValueSpec(name=rule.name)
    try:
        measurement = measure(target, result)
        measurements = history.measurements(target)
    except Unavailable:  # the database is away: the job is tried again
        raise
    except AppError as error:
        return RuleObservation(rule, value_spec, Observation(value=None, reason=error.detail))
    observation = observe(measurement, result.fingerprint, past, measurements)
    if measurement is not None:
        value_spec = measurement.spec
        series_result = result.series.get(series_name(rule)) if target.has_series else None
        runs = [*(run.seq for run in past), result.run_seq]
        observation = replace(observation, levels=_levels_of(series_result, runs, value_spec))
    return RuleObservation(rule, value_spec, observation)


def _levels_of(
    series_result: SeriesResult | None, runs: Sequence[int], value_spec: ValueSpec
) -> list[RunLevel]:
    """The levels of runs outside incidents; none where the last one has none, or on another scale."""
    if series_result is None or series_result.point.scale is not scale_of(value_spec):
        return []
    known = series_result.levels
    return [known[seq] for seq in runs if seq in known] if runs[-1] in known else []


def read_changes(session: Session, result: RunResult, previous: PastRun) -> tuple[str, ...]:
    """The changes of agent, model and benchmark between an earlier run and this one."""
    earlier = read_plan(session, previous.seq)
    return () if earlier is None else describe_changes(earlier, result.plan)


def series_name(rule: AlertRule) -> str:
    """The name of the series that a rule watches; only the mean of a metric has one."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.kpi_id is not None:
        return kpi_series(target.kpi_id)
    assert target.metric is not None, "checked when the rule was saved"
    return metric_series(column_of(target.metric.key))
