"""Backtest of an alert rule: what it would have made of stored runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from mosaico.alerts.evaluation.judging import RuleEvaluation
from mosaico.alerts.rules import AlertEventState, AlertOutcome, Assessment, Condition, RuleSpec

MONTH = timedelta(days=30)
MIN_SPAN = timedelta(days=7)
PAGES = (AlertEventState.FIRING, AlertEventState.WORSE, AlertEventState.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The runs of one agent, in the order in which they were judged, with what a rule would have made of them."""

    runs: Sequence[RuleEvaluation]

    @property
    def assessments(self) -> list[Assessment]:
        """The assessments of the runs whose condition was evaluated, oldest first."""
        return [replayed.assessment for replayed in self.runs if replayed.assessment]

    def count_notifications(self, state: AlertEventState) -> int:
        return sum(replayed.change.notification is state for replayed in self.runs)

    @property
    def paged_runs(self) -> list[str]:
        """IDs of the runs that would have sent a page."""
        return [replayed.run.id for replayed in self.runs if replayed.change.notification in PAGES]

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
