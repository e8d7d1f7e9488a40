"""Reads the data with which a run is judged by a rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from mosaico.alerts import queries
from mosaico.alerts.evaluation.judging import SeriesInput
from mosaico.alerts.evaluation.rule_history import RuleHistory, RunHistoryReader, ValueHistory
from mosaico.alerts.evaluation.rule_memory import Memory
from mosaico.alerts.evaluation.rule_series import series_name, watches_levels
from mosaico.alerts.evaluation.state_memory import memory_of
from mosaico.alerts.evaluation.value_history import MeasurementHistory
from mosaico.alerts.evaluation.watched_values import Measurement, RuleTarget, measure
from mosaico.alerts.models import AlertRule
from mosaico.alerts.rules import RunSpan, ValueSpec
from mosaico.core.errors import AppError, Unavailable
from mosaico.kpis.series_types import OpenIncident
from mosaico.run_store.run_history import PastRun, list_comparable_runs
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.series_points import SeriesResult
from mosaico.statistics.sequential import MAX_REFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvidence:
    """The data that the evaluation of one rule for a run reads.

    `memory` is what the rule remembers; None where that follows from `replayed`, all runs before: a rule that has
    not judged a run of the agent yet, or a run that is late. `values` has the value in the run and in `past`, its
    history.
    """

    rule: AlertRule
    seen_seq: int
    memory: Memory | None
    values: ValueHistory
    replayed: RuleHistory | None
    past: Sequence[PastRun]

    def last_before(self, incident: OpenIncident | None) -> PastRun | None:
        """The last run before the first bad one: a page may come several bad runs after it."""
        if incident is None:
            return self.past[-1] if self.past else None
        return next((run for run in reversed(self.past) if run.seq < incident.started), None)


class EvidenceReader:
    """Reads what rules about one run need; each value is read once for all of its rules."""

    def __init__(self, session: Session, result: RunResult, run: PastRun) -> None:
        self._session = session
        self._result, self._run = result, run
        self._histories: dict[tuple[RunSpan, ...], tuple[list[PastRun], MeasurementHistory]] = {}
        self._all_runs: RunHistoryReader | None = None

    def read(self, rule: AlertRule) -> RuleEvidence:
        state = queries.get_state(self._session, rule.id, self._run_agent)
        has_memory = state is not None and state.run_seq > 0
        memory = memory_of(state) if state is not None and has_memory else None
        past, history = self._history(memory.excluded_runs if memory is not None else ())
        needs_replay = self._run.is_late or memory is None
        return RuleEvidence(
            rule=rule,
            seen_seq=state.run_seq if state is not None else 0,
            memory=None if needs_replay else memory,
            values=self._values(rule, past, history),
            replayed=self._replayed(rule) if needs_replay else None,
            past=past,
        )

    @property
    def _run_agent(self) -> str:
        return self._result.agent_id

    def _history(self, spans: tuple[RunSpan, ...]) -> tuple[list[PastRun], MeasurementHistory]:
        if spans not in self._histories:
            past = list_comparable_runs(
                self._session,
                self._result.benchmark_id,
                self._run_agent,
                fingerprint=self._result.fingerprint,
                besides=self._run.seq,
                night=self._run.night,
                # The reference of a series has at most so many runs; all others look at fewer.
                limit=MAX_REFERENCE,
                excluded=spans,
            )
            measured = MeasurementHistory(self._session, past)
            self._histories[spans] = past, measured
        return self._histories[spans]

    def _replayed(self, rule: AlertRule) -> RuleHistory | None:
        """None for a value that cannot be computed any more: a rule never fails a run."""
        if self._all_runs is None:
            self._all_runs = RunHistoryReader(
                self._session, self._result.benchmark_id, self._run_agent
            )
        try:
            return self._all_runs.read(rule)
        except Unavailable:  # the database is away: the job is tried again
            raise
        except AppError:
            return None

    def _values(
        self, rule: AlertRule, past: Sequence[PastRun], history: MeasurementHistory
    ) -> ValueHistory:
        """The watched value in the run and in its history. A value that cannot be computed (its metric was removed,
        say) counts as no data.
        """
        target = RuleTarget.of(rule.kpi, rule.metric)
        measurements: dict[int, Measurement]
        try:
            measurements = {**history.measurements(target)}
            if (measurement := measure(target, self._result)) is not None:
                measurements[self._run.seq] = measurement
        except Unavailable:
            raise
        except AppError as error:
            spec = ValueSpec(name=rule.name)
            failed = Measurement(spec=spec, point=None, reason=error.detail)
            measurements = {self._run.seq: failed}
        series: Mapping[int, SeriesInput | None] = {}
        if watches_levels(rule):
            series = {self._run.seq: _series_input(self._result.series.get(series_name(rule)))}
        return ValueHistory(name=rule.name, runs=past, measurements=measurements, series=series)


def with_run(stored: ValueHistory, run: PastRun, values: ValueHistory) -> ValueHistory:
    """Stored values with those of a run that is not stored yet."""
    measured = {run.seq: values.measurements[run.seq]} if run.seq in values.measurements else {}
    return replace(
        stored,
        measurements={**stored.measurements, **measured},
        series={**stored.series, **values.series},
    )


def _series_input(series_result: SeriesResult | None) -> SeriesInput | None:
    if series_result is None:
        return None
    point = series_result.point
    return SeriesInput(series_result.levels, point.scale, point.side)
