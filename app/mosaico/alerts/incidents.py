"""Writes to incidents: open, advance and close them, and what people say about them."""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts import event_queries, incident_queries, queries
from mosaico.alerts.evaluation.incident_rules import with_noise, without_noise
from mosaico.alerts.evaluation.run_evaluation import AlertDecision, RunFields
from mosaico.alerts.evaluation.state_memory import (
    excluded_of,
    store_excluded,
)
from mosaico.alerts.incident_closing import (
    LockedIncident,
    close_by_person,
    dismiss,
    end_incident,
)
from mosaico.alerts.kept_states import keep_state
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState, Incident
from mosaico.alerts.rules import (
    AlertEventState,
    Condition,
    IncidentResolution,
    IncidentState,
    RunSpan,
)
from mosaico.alerts.stored_series import accept_series, return_series, withdraw_series
from mosaico.comparison import acceptance
from mosaico.notifications.inbox import set_read_at
from mosaico.notifications.models import Notification
from mosaico.notifications.queries import find_notification
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_history import find_runs, list_valid_seqs

NOISE = "noise"


def open_incident(
    session: Session,
    rule: AlertRule,
    row: AlertState,
    run: RunFields,
    event: AlertEvent,
) -> None:
    """Insert the incident that an event opens, and hold back its runs as baselines."""
    started_seq = row.breach_seq or run.run_seq
    started = find_runs(session, [started_seq]).get(started_seq)
    earlier = list_valid_seqs(
        session,
        run.benchmark_id,
        run.agent_id,
        started_seq,
        run.run_seq,
        limit=Incident.MAX_RUNS - 1,
    )
    run_seqs = [*earlier, run.run_seq]
    details = event.details
    session.add(
        Incident(
            id=event.id,
            rule_id=rule.id,
            name=rule.name,
            severity=rule.severity,
            condition=rule.condition,
            benchmark_id=run.benchmark_id,
            agent_id=run.agent_id,
            kpi=rule.kpi,
            metric=rule.metric,
            value_name=details.value_name or rule.name,
            unit=details.unit,
            state=IncidentState.OPEN,
            fingerprint=run.fingerprint,
            started_seq=started_seq,
            opened_seq=run.run_seq,
            run_seqs=run_seqs,
            started_run_id=started.id if started else run.run_id,
            opened_run_id=run.run_id,
            started_at=started.completed_at if started else event.created_at,
            opened_at=event.created_at,
            baseline=event.baseline,
            opened_value=event.value,
            value=event.value,
            explanation=event.explanation,
        )
    )
    event.details = details.model_copy(
        update={
            "since": started.completed_at if started else event.created_at,
            "since_run_id": started.id if started else run.run_id,
        }
    )
    session.flush()
    _hold(session, Condition(rule.condition), run_seqs)


def advance_incident(
    session: Session,
    row: AlertState,
    run: RunFields,
    decision: AlertDecision,
    event: AlertEvent | None,
) -> None:
    """Add a run to the open incident of a state; close it when the event ends it."""
    assert row.incident_id is not None, "the state has an incident"
    assert decision.assessed is not None, "the condition was evaluated"
    incident = incident_queries.get_incident(session, row.incident_id, for_update=True)
    incident.run_seqs = [*incident.run_seqs, run.run_seq][-Incident.MAX_RUNS :]
    incident.value = decision.assessed.assessment.value
    incident.explanation = decision.assessed.assessment.explanation
    _hold(session, Condition(incident.condition), [run.run_seq])
    if event is None:
        return
    event.details = event.details.model_copy(
        update={"since": incident.started_at, "since_run_id": incident.started_run_id}
    )
    if event.state == AlertEventState.RESOLVED:
        recovered = _recovered_runs(incident, decision, run.run_seq)
        end_incident(incident, _resolution(decision), min(recovered), row.run_id, event.created_at)
        acceptance.release_incident(session, recovered, is_noise=False)


def acknowledge(
    session: Session,
    incident_id: str,
    verdict: str,
    by: str | None,
    now: datetime,
    note: str | None = None,
) -> Incident:
    """Store whether an incident was true or noise; a later verdict replaces it.

    The runs of noise are history and baselines again, and an open incident is closed; that of a rule with a fixed
    threshold stays open. The recipients are told in both cases. When an incident that was noise is true after all, its bad runs leave the
    history and the baselines again. It stays closed: its end was notified, and later runs were judged without it.
    Raises: `IncidentNotFound`.
    """
    message = lock_message(session, incident_id)
    locked = lock_incident(session, incident_id)
    incident, row, _ = locked
    was_noise = incident.verdict == NOISE
    acknowledgement = {"verdict": verdict, "acknowledged_at": now, "acknowledged_by": by}
    event = event_queries.get_event(session, incident_id, for_update=True)
    for name, text in acknowledgement.items():
        setattr(incident, name, text)
        setattr(event, name, text)
    event.note = note
    # The reason of an accepted level stays.
    if note or incident.resolution != IncidentResolution.ACCEPTED:
        incident.note = note
    has_history = Condition(incident.condition).excludes_incidents
    if has_history and was_noise and verdict != NOISE:
        withdraw_runs(session, incident, row)
    if has_history and verdict == NOISE:
        if incident.state == IncidentState.OPEN:
            keep_state(session, incident, row)
            close_by_person(session, locked, IncidentResolution.NOISE, by, note, now)
        elif row is not None:
            _return_runs(incident, row)
        acceptance.release_incident(session, incident.run_seqs, is_noise=True)
        return_series(session, incident.run_seqs[-1])
    elif verdict == NOISE and incident.state == IncidentState.OPEN and not was_noise:
        dismiss(session, locked, by, note, now)
    session.flush()
    if message is not None and not _has_open_alert(session, message.id):
        set_read_at(session, message.id, now)
    return incident


def lock_message(session: Session, incident_id: str) -> Notification | None:
    """The message of the alert that opened an incident, locked until the transaction ends.

    Before the incident, as by those who judge a whole message: the other order could deadlock. Of two people who judge
    the last two alerts of a message, the second one sees both.
    """
    event = session.get(AlertEvent, incident_id)
    if event is None or event.notification_id is None:
        return None
    return find_notification(session, event.notification_id, for_update=True)


def _has_open_alert(session: Session, notification_id: str) -> bool:
    """Return whether nobody has judged a firing alert of a message."""
    open_alerts = select(AlertEvent.id).where(
        AlertEvent.notification_id == notification_id,
        AlertEvent.state == AlertEventState.FIRING,
        AlertEvent.verdict.is_(None),
    )
    return session.scalar(open_alerts.limit(1)) is not None


def _return_runs(incident: Incident, row: AlertState) -> None:
    """Make the runs of an incident that has ended history again: it was noise."""
    if row.series is not None:
        row.series = with_noise(row.series, incident.run_seqs)
    started = incident.started_seq
    kept = [
        span for span in excluded_of(row) if span.first != started and span != RunSpan(0, started)
    ]
    store_excluded(row, tuple(kept))


def withdraw_runs(session: Session, incident: Incident, row: AlertState | None) -> None:
    """Take the bad runs of an incident that was noise out of the history and the baselines."""
    bad_runs = [
        seq for seq in incident.run_seqs if incident.end_seq is None or seq < incident.end_seq
    ]
    if not bad_runs:
        return
    if row is not None and row.series is not None:
        row.series = without_noise(row.series, bad_runs, good_runs=incident.run_seqs)
    if row is not None and Condition(incident.condition).uses_history:
        span = RunSpan(incident.started_seq, incident.end_seq)
        store_excluded(row, tuple(sorted((*excluded_of(row), span))))
    acceptance.hold_incident(session, bad_runs)
    withdraw_series(session, bad_runs)


def accept(
    session: Session, incident_id: str, by: str, note: str | None, now: datetime
) -> Incident:
    """Accept the level of an open incident: later runs are compared with it.

    Raises: `IncidentNotFound`, `NothingToAccept`.
    """
    locked = lock_incident(session, incident_id)
    incident, row, _ = locked
    if incident.state != IncidentState.OPEN:
        raise acceptance.NothingToAccept(
            f"the incident ended at {incident.resolved_at:%Y-%m-%d %H:%M} UTC"
            f" ({incident.resolution}); only the level of an open incident can be accepted"
        )
    if not Condition(incident.condition).excludes_incidents:
        raise acceptance.NothingToAccept(
            f"{incident.condition} compares with a fixed threshold;"
            " PATCH the `threshold` of the alert rule instead"
        )
    keep_state(session, incident, row)
    close_by_person(session, locked, IncidentResolution.ACCEPTED, by, note, now)
    run = find_runs(session, [incident.run_seqs[-1]]).get(incident.run_seqs[-1])
    if run is not None:
        # The run is not a baseline yet, or somebody has accepted it before.
        with suppress(acceptance.NothingToAccept):
            acceptance.accept_level(session, run.id, by=by, note=note, now=now)
        accept_series(session, run.seq)
    return incident


def accept_of_run(
    session: Session, run: BenchmarkRun, by: str, note: str | None, now: datetime
) -> None:
    """Close the open incidents that an accepted run belongs to: its level is the new normal."""
    for listed_incident in incident_queries.list_open_incidents_of_run(
        session, run.benchmark_id, run.agent_id, run.seq
    ):
        if Condition(listed_incident.condition).excludes_incidents:
            locked = lock_incident(session, listed_incident.id)
            if locked.incident.state == IncidentState.OPEN:
                close_by_person(session, locked, IncidentResolution.ACCEPTED, by, note, now)


def lock_incident(session: Session, incident_id: str) -> LockedIncident:
    """Lock and return an incident with its state and its rule, if they exist.

    Locks: the rule, the state and the incident, in the order of all writers.
    """
    incident = incident_queries.get_incident(session, incident_id)
    rule_id = incident.rule_id
    rule = session.get(AlertRule, rule_id, with_for_update={"read": True}) if rule_id else None
    states = queries.lock_states(session, [rule_id], incident.agent_id) if rule_id else {}
    incident = incident_queries.get_incident(session, incident_id, for_update=True)
    row = states.get(rule_id) if rule_id else None
    is_current = row is not None and (
        row.incident_id == incident_id or incident.state == IncidentState.RESOLVED
    )
    return LockedIncident(incident, row if is_current else None, rule)


def _recovered_runs(incident: Incident, decision: AlertDecision, run_seq: int) -> list[int]:
    """The runs of a closing incident that are history again; at least the last one."""
    # The last run begins a new history; the bad runs before it stay what they are.
    if decision.is_reference_lost:
        return [run_seq]
    if decision.step is not None:
        # Bad runs that may have been chance are in the reference, too, but returned.
        state = decision.step.state
        recovered = {*state.reference} - {*state.returned}
        return [seq for seq in incident.run_seqs if seq in recovered] or [run_seq]
    first = decision.memory.clear_seq or run_seq
    return [seq for seq in incident.run_seqs if seq >= first] or [run_seq]


def _resolution(decision: AlertDecision) -> IncidentResolution:
    is_lost = decision.is_reference_lost
    return IncidentResolution.NOT_COMPARABLE if is_lost else IncidentResolution.RECOVERED


def _hold(session: Session, condition: Condition, run_seqs: Collection[int]) -> None:
    if condition.excludes_incidents:
        acceptance.hold_incident(session, run_seqs)
