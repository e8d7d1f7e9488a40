"""Backtest of an alert rule: replays it over stored runs with the functions that judge new runs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import TypeAlias

from mosaico.alerts.evaluation.conditions import assess_evidence, evaluate_condition
from mosaico.alerts.evaluation.series_decision import decide_step, scale_of
from mosaico.alerts.evaluation.watched_values import Measurement, observe
from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    Assessment,
    Condition,
    Observation,
    RuleSpec,
    RuleState,
    RunSpan,
    StateChange,
    ValueSpec,
    advance,
    advance_by_evidence,
)
from mosaico.kpis.series_types import SeriesState
from mosaico.run_store.run_history import PastRun
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES, MAX_REFERENCE, RunLevel

LevelsOf: TypeAlias = Callable[[SeriesState, PastRun], Mapping[int, RunLevel]]
"""The levels of a run and of the comparable runs of a series, by sequence number."""

MONTH = timedelta(days=30)
MIN_SPAN = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRun:
    """The result of a rule for one replayed run; `assessment` is None for a run that is not valid."""

    run: PastRun
    assessment: Assessment | None
    change: StateChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The runs of one agent, oldest first, with what a rule would have made of them."""

    runs: Sequence[BacktestRun]

    @property
    def assessments(self) -> list[Assessment]:
        """The assessments of the valid runs, oldest first."""
        return [replayed.assessment for replayed in self.runs if replayed.assessment]

    def count_notifications(self, state: AlertEventState) -> int:
        return sum(replayed.change.notification is state for replayed in self.runs)

    @property
    def paged_runs(self) -> list[str]:
        """IDs of the runs that would have sent a page."""
        return [
            replayed.run.id
            for replayed in self.runs
            if replayed.change.notification in (AlertEventState.FIRING, AlertEventState.WORSE)
        ]

    def outcomes(self) -> Counter[AlertOutcome]:
        return Counter(assessment.outcome for assessment in self.assessments)

    def false_alarms_per_month(self) -> float | None:
        """Return how often the rule fires, assuming that nothing was ever wrong; None for less than
        a week of history.
        """
        if not self.runs:
            return None
        span = self.runs[-1].run.completed_at - self.runs[0].run.completed_at
        if span < MIN_SPAN:
            return None
        return self.count_notifications(AlertEventState.FIRING) * (MONTH / span)

    def min_detectable_effect(self, spec: RuleSpec) -> float | None:
        """The smallest harmful change that the rule detects after the last run; for a fixed
        threshold the distance of the median value from it.
        """
        assessments = self.assessments
        if spec.condition.uses_history or spec.condition is Condition.REGRESSED:
            effects = (assessment.min_detectable_effect for assessment in reversed(assessments))
            return next((effect for effect in effects if effect), None)
        values = [assessment.value for assessment in assessments if assessment.value is not None]
        if not values or spec.threshold is None:
            return None
        return abs(median(values) - spec.threshold)


def replay(
    spec: RuleSpec,
    name: str,
    runs: Sequence[PastRun],
    measurements: Mapping[int, Measurement],
    levels: LevelsOf,
    false_pages: float = DEFAULT_FALSE_PAGES,
) -> Replay:
    """Evaluate runs in order, each against the earlier runs outside the incidents of the rule.
    `name` stands for the value in runs that did not compute it; `false_pages` is the number of false
    pages in 30 runs for a rule that sets none.
    """
    replayer = _Replayer(spec, name, runs, measurements, levels, false_pages)
    return Replay(runs=[replayer.judge(index) for index in range(len(runs))])


class _Replayer:
    """The state of a rule while its runs are replayed."""

    def __init__(
        self,
        spec: RuleSpec,
        name: str,
        runs: Sequence[PastRun],
        measurements: Mapping[int, Measurement],
        levels: LevelsOf,
        false_pages: float,
    ) -> None:
        self._spec, self._name, self._runs = spec, name, runs
        self._measurements, self._levels, self._false_pages = measurements, levels, false_pages
        self._state = RuleState()
        self._series = SeriesState()
        self._excluded: list[RunSpan] = []
        self._breach_seq: int | None = None
        self._clear_seq: int | None = None

    def judge(self, index: int) -> BacktestRun:
        run = self._runs[index]
        if not run.is_valid:
            return BacktestRun(run=run, assessment=None, change=StateChange(self._state))
        measurement = self._measurements.get(run.seq)
        value_spec = measurement.spec if measurement else ValueSpec(name=self._name)
        excluded = [*self._excluded, *self._open_span()]
        observation = observe(
            measurement, run.fingerprint, self._runs[:index], self._measurements, excluded
        )
        if self._spec.condition is Condition.ANOMALY_DETECTED:
            observation = replace(observation, levels=self._levels_outside(index, excluded))
        assessment = evaluate_condition(self._spec, value_spec, observation)
        if self._spec.condition is Condition.REGRESSED and observation.value is not None:
            assessment, change = self._judge_series(run, value_spec, observation, assessment)
        else:
            change = advance(self._state, assessment.outcome, self._spec, run.completed_at)
            self._note_span(run.seq, change)
        self._state = change.state
        return BacktestRun(run=run, assessment=assessment, change=change)

    def _judge_series(
        self, run: PastRun, value_spec: ValueSpec, observation: Observation, alone: Assessment
    ) -> tuple[Assessment, StateChange]:
        levels = self._levels(self._series, run)
        step = decide_step(
            self._series,
            levels,
            run.seq,
            scale_of(value_spec),
            value_spec.harm,
            observation.verdict,
            self._spec,
            self._false_pages,
        )
        self._series = step.state
        assessment = assess_evidence(value_spec, alone, step.evidence)
        change = advance_by_evidence(self._state, step.evidence, self._spec, run.completed_at)
        return assessment, change

    def _levels_outside(self, index: int, excluded: Sequence[RunSpan]) -> list[RunLevel]:
        """The levels of a run and of comparable runs before it, outside incidents."""
        run = self._runs[index]
        past = (
            earlier.seq
            for earlier in self._runs[:index]
            if not any(span.contains(earlier.seq) for span in excluded)
        )
        levels = self._levels(SeriesState(reference=tuple(past)[-MAX_REFERENCE:]), run)
        return [levels[seq] for seq in sorted(levels)] if run.seq in levels else []

    def _open_span(self) -> list[RunSpan]:
        return [] if self._breach_seq is None else [RunSpan(self._breach_seq, None)]

    def _note_span(self, seq: int, change: StateChange) -> None:
        """Keep the runs of an incident out of the history, as the stored incidents do."""
        if not self._spec.condition.excludes_incidents:
            return
        state = change.state
        if state.clears and not self._state.clears:
            self._clear_seq = seq
        if change.notification is AlertEventState.RESOLVED and self._breach_seq is not None:
            self._excluded.append(RunSpan(self._breach_seq, self._clear_seq or seq))
        if state.open or state.breaches:
            self._breach_seq = self._breach_seq or seq
        else:
            self._breach_seq = self._clear_seq = None
