"""When a rule fires, and what follows from it: conditions and states, decided without a database."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from app.kpis.verdicts import ValueVerdict
from app.statistics.anomaly import Judged, Learning, RunPoint, Side, judge_run
from app.statistics.verdict import Verdict

# Numbers that agree to this share are equal.
TOLERANCE = 1e-9
SMALLEST_RATE_CHANGE = 0.02
SMALLEST_SHARE = 0.02
VERDICT_DETAILS = {
    "verdict", "effect", "low", "high", "p", "p_adjusted", "items", "trials", "method",
}  # fmt: skip
TOO_LARGE = "the values of {} are too large to be compared"


class Condition(StrEnum):
    """What has to be true of the value of a run for its rule to fire."""

    LESS_THAN = "LESS_THAN"
    GREATER_THAN = "GREATER_THAN"
    EQUALS = "EQUALS"
    NOT_EQUALS = "NOT_EQUALS"
    PERCENTAGE_DROP = "PERCENTAGE_DROP"
    PERCENTAGE_RISE = "PERCENTAGE_RISE"
    ANOMALY_DETECTED = "ANOMALY_DETECTED"
    REGRESSED = "REGRESSED"

    @property
    def looks_back(self) -> bool:
        return self in (
            Condition.PERCENTAGE_DROP,
            Condition.PERCENTAGE_RISE,
            Condition.ANOMALY_DETECTED,
        )


class AlertState(StrEnum):
    """Where a rule stands for an agent; `RESOLVED` until the next run says otherwise."""

    OK = "OK"
    PENDING = "PENDING"
    FIRING = "FIRING"
    RESOLVED = "RESOLVED"
    NO_DATA = "NO_DATA"
    LEARNING = "LEARNING"


class NoDataPolicy(StrEnum):
    """What a valid run without a value does: its own notice, nothing, as healthy, as a breach."""

    NO_DATA = "NO_DATA"
    KEEP = "KEEP"
    OK = "OK"
    FIRING = "FIRING"


class Outcome(StrEnum):
    """What one run says about a condition."""

    BREACH = "BREACH"
    HEALTHY = "HEALTHY"
    NO_DATA = "NO_DATA"
    LEARNING = "LEARNING"


_VERDICT_OUTCOMES: Mapping[Verdict | None, Outcome] = {
    Verdict.REGRESSED: Outcome.BREACH,
    Verdict.NO_EVIDENCE: Outcome.HEALTHY,
    Verdict.IMPROVED: Outcome.HEALTHY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a rule asks. A percentage counts without its sign: -10 and 10 are the same drop.

    `threshold` of an anomaly is the distance at which it fires; None takes that of the method.
    `minimum_effect` is in the unit of the value; None is 0 for percentages, and for anomalies 0.02
    for shares, else 2 % of what was expected.
    """

    condition: Condition
    threshold: float | None = None
    for_runs: int = 1
    keep_firing_for_runs: int = 1
    cooldown: timedelta = timedelta()
    no_data: NoDataPolicy = NoDataPolicy.NO_DATA
    baseline_runs: int = 5
    minimum_effect: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a rule looks at: its name, and how its values are to be read.

    `harm` is the side on which a change is bad. `is_share` marks values between 0 and 1,
    `logarithmic` those of which ratios matter (times, costs, tokens).
    """

    name: str
    harm: Side = Side.LOW
    is_share: bool = False
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A run and the comparable ones before it, oldest first. `reason` says why there is no value;
    `resolution` is what one changed trace moves it, `verdict` how it stands beside its baseline.
    """

    value: float | None
    reason: str | None = None
    history: Sequence[RunPoint] = ()
    resolution: float = 0.0
    verdict: ValueVerdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a run says about a rule, in numbers and words.

    `visible` is the smallest harm that the rule could have seen; `details` how an anomaly was
    judged.
    """

    outcome: Outcome
    value: float | None
    explanation: str
    baseline: float | None = None
    visible: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is remembered of a rule from run to run.

    `open` while something has fired that is not resolved; `fired_at` is when that last began.
    `breaches` and `clears` count runs in a row.
    """

    state: AlertState = AlertState.OK
    open: bool = False
    breaches: int = 0
    clears: int = 0
    fired_at: datetime | None = None


class Step(NamedTuple):
    """Where a rule stands after a run, and what is to be told of it: FIRING, RESOLVED, NO_DATA."""

    standing: Standing
    told: AlertState | None = None


def evaluate_condition(rule: Rule, subject: Subject, seen: Observation) -> Assessment:
    """What a valid run says about a rule."""
    if seen.value is None:
        reason = seen.reason or "it was not computed"
        return _no_data(f"{subject.name} has no value: {reason}")
    if rule.condition is Condition.REGRESSED:
        return _regressed(subject, seen.value, seen.verdict)
    if rule.condition is Condition.ANOMALY_DETECTED:
        return _anomaly(rule, subject, seen, seen.value)
    assert rule.threshold is not None, "checked when the rule was saved"
    if rule.condition.looks_back:
        return _percentage(rule, subject, seen, seen.value, abs(rule.threshold))
    return _fixed(rule, subject, seen.value, rule.threshold)


def advance(standing: Standing, outcome: Outcome, rule: Rule, now: datetime) -> Step:
    """One run further. What fires is told once, and once that it is over."""
    match _counted_as(outcome, rule.no_data):
        case Outcome.BREACH:
            return _breached(standing, rule, now)
        case Outcome.HEALTHY:
            return _cleared(standing, rule)
        case Outcome.LEARNING:
            state = standing.state if standing.open else AlertState.LEARNING
            return Step(replace(standing, state=state, breaches=0))
        case _:
            return _without_data(standing, rule)


def _counted_as(outcome: Outcome, policy: NoDataPolicy) -> Outcome:
    if outcome is not Outcome.NO_DATA:
        return outcome
    meant = {NoDataPolicy.OK: Outcome.HEALTHY, NoDataPolicy.FIRING: Outcome.BREACH}
    return meant.get(policy, outcome)


def _breached(standing: Standing, rule: Rule, now: datetime) -> Step:
    seen = replace(standing, breaches=standing.breaches + 1, clears=0)
    if standing.open:
        return Step(replace(seen, state=AlertState.FIRING))
    if seen.breaches < rule.for_runs or is_cooling(standing, rule, now):
        return Step(replace(seen, state=AlertState.PENDING))
    fired = replace(seen, state=AlertState.FIRING, open=True, fired_at=now)
    return Step(fired, AlertState.FIRING)


def _cleared(standing: Standing, rule: Rule) -> Step:
    seen = replace(standing, breaches=0, clears=standing.clears + 1)
    if not standing.open:
        return Step(replace(seen, state=AlertState.OK, clears=0))
    if seen.clears <= rule.keep_firing_for_runs:
        return Step(replace(seen, state=AlertState.FIRING))
    resolved = replace(seen, state=AlertState.RESOLVED, open=False, clears=0)
    return Step(resolved, AlertState.RESOLVED)


def _without_data(standing: Standing, rule: Rule) -> Step:
    """Neither good nor bad: what was counted so far stays."""
    if rule.no_data is NoDataPolicy.KEEP:
        return Step(standing)
    known = standing.state is AlertState.NO_DATA
    return Step(replace(standing, state=AlertState.NO_DATA), None if known else AlertState.NO_DATA)


def is_cooling(standing: Standing, rule: Rule, now: datetime) -> bool:
    """Whether it fired so lately that it must not fire anew."""
    return standing.fired_at is not None and now - standing.fired_at < rule.cooldown


def _fixed(rule: Rule, subject: Subject, value: float, threshold: float) -> Assessment:
    equal = abs(value - threshold) <= TOLERANCE * max(abs(value), abs(threshold))
    holds = {
        Condition.LESS_THAN: value < threshold and not equal,
        Condition.GREATER_THAN: value > threshold and not equal,
        Condition.EQUALS: equal,
        Condition.NOT_EQUALS: not equal,
    }[rule.condition]
    relation = "equal to" if equal else "below" if value < threshold else "above"
    return Assessment(
        outcome=Outcome.BREACH if holds else Outcome.HEALTHY,
        value=value,
        explanation=f"{subject.name} is {number(value)}, {relation} {number(threshold)}.",
    )


def _percentage(
    rule: Rule, subject: Subject, seen: Observation, value: float, percent: float
) -> Assessment:
    earlier = [point.value for point in seen.history[-rule.baseline_runs :]]
    if not earlier:
        return _learning(value, f"{subject.name} has no earlier valid run to compare with.")
    baseline = sum(earlier) / len(earlier)
    if baseline == 0 or value * baseline < 0:
        return _no_data(
            f"{subject.name} went from {number(baseline)} to {number(value)}, of which a percentage"
            " says nothing; use LESS_THAN, GREATER_THAN or ANOMALY_DETECTED for such values",
            value=value,
            baseline=baseline,
        )
    change = (value - baseline) / abs(baseline) * 100
    if not math.isfinite(change):
        return _no_data(TOO_LARGE.format(subject.name), value=value)
    against = -change if rule.condition is Condition.PERCENTAGE_DROP else change
    least = rule.minimum_effect or 0.0
    holds = _reaches(against, percent) and _reaches(abs(value - baseline), least)
    moved = "fell" if value < baseline else "rose"
    small = " That is below the minimum effect." if against >= percent and not holds else ""
    return Assessment(
        outcome=Outcome.BREACH if holds else Outcome.HEALTHY,
        value=value,
        baseline=baseline,
        visible=max(percent / 100 * abs(baseline), least),
        explanation=f"{subject.name} {moved} by {number(abs(change))} % to {number(value)}, from"
        f" {number(baseline)} (mean of {runs(len(earlier))}); the limit is {number(percent)} %."
        + small,
    )


def _anomaly(rule: Rule, subject: Subject, seen: Observation, value: float) -> Assessment:
    try:
        found = judge_run(
            RunPoint(value=value),
            seen.history,
            side=subject.harm,
            logarithmic=subject.logarithmic,
            resolution=seen.resolution,
            critical=None if rule.threshold is None else abs(rule.threshold),
        )
    except OverflowError:
        return _no_data(TOO_LARGE.format(subject.name), value=value)
    if isinstance(found, Learning):
        return _learning(
            value,
            f"{subject.name} is {number(value)}; learning what is normal:"
            f" {found.have} of {found.need} runs.",
        )
    least = _least_effect(rule, subject, found.center)
    holds = found.stands_out and _reaches(abs(value - found.center), least)
    small = " That is below the minimum effect." if found.stands_out and not holds else ""
    slide = " It has been sliding for several runs." if found.method == "cusum" else ""
    return Assessment(
        outcome=Outcome.BREACH if holds else Outcome.HEALTHY,
        value=value,
        baseline=found.center,
        visible=max(found.visible, least),
        explanation=f"{subject.name} is {number(value)}; {number(found.low)} to"
        f" {number(found.high)} was to be expected after {runs(found.history)}"
        f" ({found.method}, z {number(found.z)}, limit {number(found.critical)}).{slide}{small}",
        details=_details(found),
    )


def _regressed(subject: Subject, value: float, verdict: ValueVerdict | None) -> Assessment:
    """What the comparison with the baseline says; where it decides nothing, nothing changes."""
    if verdict is None:
        return _learning(
            value, f"{subject.name} is {number(value)} and was not compared with a baseline."
        )
    return Assessment(
        outcome=_VERDICT_OUTCOMES.get(verdict.verdict, Outcome.LEARNING),
        value=value,
        baseline=verdict.baseline_value,
        visible=verdict.min_detectable_effect,
        explanation=verdict.explanation,
        details=verdict.model_dump(mode="json", include=VERDICT_DETAILS, exclude_none=True),
    )


def _details(found: Judged) -> dict[str, Any]:
    return {
        "method": found.method,
        "history": found.history,
        "z": found.z,
        "critical": found.critical,
        "expectedLow": found.low,
        "expectedHigh": found.high,
        "smallestVisible": found.visible,
    }


def _least_effect(rule: Rule, subject: Subject, expected: float) -> float:
    if rule.minimum_effect is not None:
        return rule.minimum_effect
    return SMALLEST_RATE_CHANGE if subject.is_share else SMALLEST_SHARE * abs(expected)


def _no_data(
    explanation: str, *, value: float | None = None, baseline: float | None = None
) -> Assessment:
    return Assessment(
        outcome=Outcome.NO_DATA, value=value, baseline=baseline, explanation=f"{explanation}."
    )


def _learning(value: float, explanation: str) -> Assessment:
    return Assessment(outcome=Outcome.LEARNING, value=value, explanation=explanation)


def _reaches(value: float, limit: float) -> bool:
    """At least the limit, but for what rounding takes away."""
    return value >= limit * (1 - TOLERANCE)


def number(value: float) -> str:
    """A number as people read it."""
    return f"{value:.4g}"


def runs(count: int) -> str:
    return "the last valid run" if count == 1 else f"the last {count} valid runs"
