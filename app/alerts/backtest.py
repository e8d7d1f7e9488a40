"""Backtest of an alert rule: replays it over stored runs with the functions that judge new runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from app.alerts.rules import (
    AlertOutcome,
    AlertStatus,
    Assessment,
    RuleSpec,
    RuleState,
    StateChange,
    ValueSpec,
    advance,
    evaluate_condition,
)
from app.alerts.watched_values import IncidentSpan, Measurement, observe
from app.results.run_history import PastRun

MONTH = timedelta(days=30)
MIN_SPAN = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRun:
    """What a rule would have made of one run; `assessment` is None for a run that is not valid."""

    run: PastRun
    assessment: Assessment | None
    change: StateChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The runs of one agent, oldest first, with what a rule would have made of them."""

    runs: Sequence[BacktestRun]

    @property
    def assessments(self) -> list[Assessment]:
        """Those of the valid runs, oldest first."""
        return [replayed.assessment for replayed in self.runs if replayed.assessment]

    def count_notifications(self, status: AlertStatus) -> int:
        return sum(replayed.change.notification is status for replayed in self.runs)

    def outcomes(self) -> Counter[AlertOutcome]:
        return Counter(assessment.outcome for assessment in self.assessments)

    def false_alarms_per_month(self) -> float | None:
        """How often the rule fires, assuming that nothing was ever wrong; None for less than a week
        of history.
        """
        if not self.runs:
            return None
        span = self.runs[-1].run.completed_at - self.runs[0].run.completed_at
        if span < MIN_SPAN:
            return None
        return self.count_notifications(AlertStatus.FIRING) * (MONTH / span)

    def min_detectable_effect(self, spec: RuleSpec) -> float | None:
        """The smallest harmful change that the rule detects after the last run; for a fixed
        threshold the distance of the median value from it.
        """
        assessments = self.assessments
        if spec.condition.uses_history:
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
    confirmed: Sequence[IncidentSpan] = (),
) -> Replay:
    """Judge runs one after the other, each by the runs before it that belong to no confirmed
    incident. `name` stands for the value in runs that did not compute it.
    """
    state = RuleState()
    replayed = []
    for index, run in enumerate(runs):
        change, assessment = StateChange(state), None
        if run.is_valid:
            measurement = measurements.get(run.seq)
            value_spec = measurement.spec if measurement else ValueSpec(name=name)
            observation = observe(
                measurement, run.fingerprint, runs[:index], measurements, confirmed
            )
            assessment = evaluate_condition(spec, value_spec, observation)
            change = advance(state, assessment.outcome, spec, run.completed_at)
        state = change.state
        replayed.append(BacktestRun(run=run, assessment=assessment, change=change))
    return Replay(runs=replayed)
