"""The words of alert rules and their states: when an alert opens and ends, without a database."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mosaico.alerts.details import AlertDetails
from mosaico.core.defaults import BASELINE_RUNS
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.anomaly import RunPoint
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import Side


class Condition(StrEnum):
    """The condition under which a rule fires, on the value of a run."""

    LESS_THAN = "LESS_THAN"
    GREATER_THAN = "GREATER_THAN"
    EQUALS = "EQUALS"
    NOT_EQUALS = "NOT_EQUALS"
    PERCENTAGE_DROP = "PERCENTAGE_DROP"
    PERCENTAGE_RISE = "PERCENTAGE_RISE"
    ANOMALY_DETECTED = "ANOMALY_DETECTED"
    REGRESSED = "REGRESSED"

    @property
    def uses_history(self) -> bool:
        """Return whether the condition compares the value with the values of earlier runs, one run
        at a time.
        """
        return self in (
            Condition.PERCENTAGE_DROP,
            Condition.PERCENTAGE_RISE,
            Condition.ANOMALY_DETECTED,
        )

    @property
    def excludes_incidents(self) -> bool:
        """Return whether the runs of its incidents are excluded from the history of later runs."""
        return self.uses_history or self is Condition.REGRESSED


class AlertStatus(StrEnum):
    """The state of a rule for one agent."""

    OK = "OK"
    PENDING = "PENDING"
    FIRING = "FIRING"
    RESOLVED = "RESOLVED"
    NO_DATA = "NO_DATA"
    WARMUP = "WARMUP"


class AlertEventState(StrEnum):
    """The kind of event that an alert reports.

    WORSE and PARTLY_BACK are changes inside of an open incident; only WORSE pages. LATE is a breach of a run that
    ended after a later night was judged: it opens no incident. DISMISSED: somebody said that an incident is a false
    alarm, and it stays open. STALE: an agent has had no new data for too long.
    """

    FIRING = "FIRING"
    WORSE = "WORSE"
    PARTLY_BACK = "PARTLY_BACK"
    RESOLVED = "RESOLVED"
    DISMISSED = "DISMISSED"
    NO_DATA = "NO_DATA"
    LATE = "LATE"
    STALE = "STALE"
    RUN_INVALID = "RUN_INVALID"
    RUN_FAILED = "RUN_FAILED"
    SCHEDULE_MISSED = "SCHEDULE_MISSED"
    RUN_MISSED = "RUN_MISSED"


class IncidentState(StrEnum):
    """Whether an incident has ended."""

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"


class IncidentResolution(StrEnum):
    """The reason why an incident ended.

    RECOVERED: the runs are back. ACCEPTED: a user accepted the new level. NOISE: a user
    acknowledged the incident as noise. NOT_COMPARABLE: the runs can no longer be compared with
    those before the incident, or those were deleted. RULE_CHANGED: the rule was changed, disabled or deleted.
    """

    RECOVERED = "RECOVERED"
    ACCEPTED = "ACCEPTED"
    NOISE = "NOISE"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    RULE_CHANGED = "RULE_CHANGED"


class NoDataPolicy(StrEnum):
    """Handling of a valid run without a value: a notice, nothing, as healthy, or as a breach.

    A REGRESSED rule takes OK as KEEP: a missing value is not evidence of recovery.
    """

    NO_DATA = "NO_DATA"
    KEEP = "KEEP"
    OK = "OK"
    FIRING = "FIRING"


class AlertOutcome(StrEnum):
    """The result of the condition of a rule for one run."""

    BREACH = "BREACH"
    HEALTHY = "HEALTHY"
    NO_DATA = "NO_DATA"
    WARMUP = "WARMUP"


class RuleOutcome(StrEnum):
    """What a rule made of a run.

    FIRED: a breach with an open incident. PENDING: a breach that waits for `forRuns` or for the end of a cooldown.
    NO_BREACH: the condition does not hold. SAME_DATA: the run repeats an earlier one. LATE: it was judged for its
    own night. NO_HISTORY: too few comparable runs to decide. NO_VALUE: the run has no value.
    """

    FIRED = "FIRED"
    PENDING = "PENDING"
    NO_BREACH = "NO_BREACH"
    SAME_DATA = "SAME_DATA"
    LATE = "LATE"
    NO_HISTORY = "NO_HISTORY"
    NO_VALUE = "NO_VALUE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """The condition of a rule and its parameters.

    `threshold` is a value; for percentages its sign is ignored (-10 and 10 are the same drop); for
    anomalies it replaces the limit of z. `minimum_effect` is in the unit of the value; None means 0
    for percentages, and for anomalies 0.02 for shares and 2 % of the expected value for the rest.
    `false_pages_per_month` is the limit of false alarms of REGRESSED rules; None means that of the service.
    """

    condition: Condition
    threshold: float | None = None
    for_runs: int = 1
    keep_firing_for_runs: int = 1
    cooldown: timedelta = timedelta()
    no_data: NoDataPolicy = NoDataPolicy.NO_DATA
    baseline_runs: int = BASELINE_RUNS
    minimum_effect: float | None = None
    false_pages_per_month: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSpec:
    """Name, unit, scale and harmful direction of the watched value.

    `harm` is the side on which a change is harmful. `is_share` marks values between 0 and 1,
    `logarithmic` values that are compared as ratios (times, costs, tokens). No value is below
    `minimum` or above `maximum`.
    """

    name: str
    harm: Side = Side.LOW
    is_share: bool = False
    logarithmic: bool = False
    unit: str | None = None
    minimum: float = -math.inf
    maximum: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The watched value of a run and, oldest first, of the comparable runs before it.

    `levels` are those of the history and of the run, where runs store the value by item.
    `reason` is the reason for a missing value; `resolution` is the effect of one changed trace;
    `verdict` compares it with the baseline of the run. `corrected` is the value that annotations correct: a fixed
    threshold is one of it, everything else compares the scores of the judge.
    """

    value: float | None
    corrected: float | None = None
    reason: str | None = None
    history: Sequence[RunPoint] = ()
    levels: Sequence[RunLevel] = ()
    resolution: float = 0.0
    verdict: ValueVerdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The evaluation of a rule for a run: the outcome, its numbers and its explanation.

    `min_detectable_effect` is the smallest harmful change that the rule could have detected;
    `details` contains the computation of an anomaly or a verdict.
    """

    outcome: AlertOutcome
    value: float | None
    explanation: str
    baseline: float | None = None
    min_detectable_effect: float | None = None
    details: AlertDetails = field(default_factory=AlertDetails)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """The state of a rule between two runs.

    `open` holds from the first firing of an incident to its resolution, `fired_at` is that first
    firing of the last incident. `breaches` and `clears` count consecutive runs.
    """

    status: AlertStatus = AlertStatus.OK
    open: bool = False
    breaches: int = 0
    clears: int = 0
    fired_at: datetime | None = None


class RunSpan(NamedTuple):
    """Consecutive runs, by sequence number: `end` is not included; None: without end."""

    first: int
    end: int | None

    def contains(self, seq: int) -> bool:
        return self.first <= seq and (self.end is None or seq < self.end)


class StateChange(NamedTuple):
    """The state after a run, and the alert to publish."""

    state: RuleState
    notification: AlertEventState | None = None


def advance(state: RuleState, outcome: AlertOutcome, spec: RuleSpec, now: datetime) -> StateChange:
    """The state after one more run. An incident is notified when it begins and when it ends."""
    match _apply_no_data_policy(outcome, spec):
        case AlertOutcome.BREACH:
            return _after_breach(state, spec, now)
        case AlertOutcome.HEALTHY:
            return _after_healthy_run(state, spec)
        case AlertOutcome.WARMUP:
            # An open incident stays open: a run that cannot be judged resolves nothing.
            status = state.status if state.open else AlertStatus.WARMUP
            # The chain of consecutive breaches is broken: this run is not one of them.
            return StateChange(replace(state, status=status, breaches=0))
        case _:
            return _after_missing_value(state, spec)


def advance_by_evidence(
    state: RuleState, evidence: RunsEvidence, spec: RuleSpec, now: datetime
) -> StateChange:
    """The state after a valid run that was compared as part of its series.

    An incident that opens within the cooldown is announced by the first run after it.
    """
    is_open = evidence.status is SeriesStatus.FIRING
    if not is_open:
        status = AlertStatus.RESOLVED if state.open else _QUIET_STATUSES[evidence.status]
        closed = replace(state, status=status, open=False, breaches=0, clears=0)
        return StateChange(closed, AlertEventState.RESOLVED if state.open else None)
    counted = replace(state, breaches=state.breaches + 1)
    if state.open:
        change = _INCIDENT_CHANGES.get(evidence.event) if evidence.event else None
        return StateChange(replace(counted, status=AlertStatus.FIRING), change)
    if is_in_cooldown(state, spec, now):
        return StateChange(replace(counted, status=AlertStatus.PENDING))
    firing = replace(counted, status=AlertStatus.FIRING, open=True, fired_at=now)
    return StateChange(firing, AlertEventState.FIRING)


_QUIET_STATUSES = {
    SeriesStatus.WARMUP: AlertStatus.WARMUP,
    SeriesStatus.OK: AlertStatus.OK,
}
_INCIDENT_CHANGES = {
    SeriesEvent.WORSE: AlertEventState.WORSE,
    SeriesEvent.PARTLY_BACK: AlertEventState.PARTLY_BACK,
}


def loses_reference(condition: Condition, outcome: AlertOutcome, *, is_same_series: bool) -> bool:
    """Return whether an open incident can never be compared with the runs before it again.

    `is_same_series`: the run has the fingerprint of the incident.
    """
    if outcome is not AlertOutcome.WARMUP:
        return False
    # The runs of an incident never join the history: what is too short now is too short for ever.
    return condition.uses_history or not is_same_series


def _apply_no_data_policy(outcome: AlertOutcome, spec: RuleSpec) -> AlertOutcome:
    if outcome is not AlertOutcome.NO_DATA:
        return outcome
    policy = _no_data_policy(spec)
    replacements = {
        NoDataPolicy.OK: AlertOutcome.HEALTHY,
        NoDataPolicy.FIRING: AlertOutcome.BREACH,
    }
    return replacements.get(policy, outcome)


def _no_data_policy(spec: RuleSpec) -> NoDataPolicy:
    # The series keeps its incident until its levels recover, and would page again as a new one.
    if spec.condition is Condition.REGRESSED and spec.no_data is NoDataPolicy.OK:
        return NoDataPolicy.KEEP
    return spec.no_data


def _after_breach(state: RuleState, spec: RuleSpec, now: datetime) -> StateChange:
    counted = replace(state, breaches=state.breaches + 1, clears=0)
    # An open incident is never notified again, whatever its run and cooldown settings say now.
    if state.open:
        return StateChange(replace(counted, status=AlertStatus.FIRING))
    if counted.breaches < spec.for_runs or is_in_cooldown(state, spec, now):
        # The breach stays counted: a value that is still bad after the cooldown fires at once.
        return StateChange(replace(counted, status=AlertStatus.PENDING))
    firing = replace(counted, status=AlertStatus.FIRING, open=True, fired_at=now)
    return StateChange(firing, AlertEventState.FIRING)


def _after_healthy_run(state: RuleState, spec: RuleSpec) -> StateChange:
    counted = replace(state, breaches=0, clears=state.clears + 1)
    if not state.open:
        return StateChange(replace(counted, status=AlertStatus.OK, clears=0))
    # More healthy runs than this are needed to resolve, so that a value around its limit does not
    # notify with every run.
    if counted.clears <= spec.keep_firing_for_runs:
        return StateChange(replace(counted, status=AlertStatus.FIRING))
    resolved = replace(counted, status=AlertStatus.RESOLVED, open=False, clears=0)
    return StateChange(resolved, AlertEventState.RESOLVED)


def _after_missing_value(state: RuleState, spec: RuleSpec) -> StateChange:
    """A missing value is neither good nor bad: the counters stay."""
    if _no_data_policy(spec) is NoDataPolicy.KEEP:
        return StateChange(state)
    # Notified only on entering NO_DATA: a metric that was removed must not alert with every run.
    is_new = state.status is not AlertStatus.NO_DATA
    notification = AlertEventState.NO_DATA if is_new else None
    return StateChange(replace(state, status=AlertStatus.NO_DATA), notification)


def is_in_cooldown(state: RuleState, spec: RuleSpec, now: datetime) -> bool:
    """Return whether the last incident began so recently that no new one may begin."""
    return state.fired_at is not None and now - state.fired_at < spec.cooldown
