"""A rule replayed over stored history, by the same functions that judge new runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from app.alerts.history import PastRun, Reading, Stretch, observe
from app.alerts.rules import (
    AlertState,
    Assessment,
    Outcome,
    Rule,
    Standing,
    Step,
    Subject,
    advance,
    evaluate_condition,
)

A_MONTH = timedelta(days=30)
SHORTEST = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRun:
    """What a run would have said and done; `assessment` is None for one that is not valid."""

    run: PastRun
    assessment: Assessment | None
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Runs of one agent, oldest first, and what a rule would have made of them."""

    runs: Sequence[ReplayedRun]

    def told(self, state: AlertState) -> int:
        return sum(each.step.told is state for each in self.runs)

    def outcomes(self) -> Counter[Outcome]:
        return Counter(each.assessment.outcome for each in self.runs if each.assessment)

    def false_alarms_per_month(self) -> float | None:
        """How often it fires if nothing was ever wrong; None where a week is not covered."""
        if not self.runs:
            return None
        span = self.runs[-1].run.completed_at - self.runs[0].run.completed_at
        return None if span < SHORTEST else self.told(AlertState.FIRING) * (A_MONTH / span)

    def smallest_visible(self, rule: Rule) -> float | None:
        """The smallest harm that the rule sees after the last run; for a fixed limit how far the
        median lies from it.
        """
        assessed = [each.assessment for each in self.runs if each.assessment]
        if rule.condition.looks_back:
            return next((found.visible for found in reversed(assessed) if found.visible), None)
        values = [found.value for found in assessed if found.value is not None]
        if not values or rule.threshold is None:
            return None
        return abs(median(values) - rule.threshold)


def replay(
    rule: Rule,
    name: str,
    runs: Sequence[PastRun],
    readings: Mapping[int, Reading],
    confirmed: Sequence[Stretch] = (),
) -> Replay:
    """Judge runs one after the other, each by those before it that are not in a `confirmed` stretch;
    `name` is told where a run says nothing of the subject.
    """
    standing = Standing()
    replayed = []
    for place, run in enumerate(runs):
        step, assessment = Step(standing), None
        if run.is_valid:
            reading = readings.get(run.seq)
            subject = reading.subject if reading else Subject(name=name)
            seen = observe(reading, run.fingerprint, runs[:place], readings, confirmed)
            assessment = evaluate_condition(rule, subject, seen)
            step = advance(standing, assessment.outcome, rule, run.completed_at)
        standing = step.standing
        replayed.append(ReplayedRun(run=run, assessment=assessment, step=step))
    return Replay(runs=replayed)
