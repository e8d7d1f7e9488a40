"""Takes back what somebody said of an incident: real, a false alarm, or the new level is correct.

A judgement that closed the incident can be taken back until the next run of the agent is judged: that run was judged
without the incident, and a reopened one would contradict it.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts.incident_closing import BY_PEOPLE
from mosaico.alerts.incidents import NOISE, lock_incident, lock_message, withdraw_runs
from mosaico.alerts.models import AlertEvent, AlertState, Incident
from mosaico.alerts.rules import AlertEventState, Condition, IncidentState
from mosaico.alerts.state_before import STATE_FIELDS, StateBefore
from mosaico.core.errors import Conflict
from mosaico.notifications.inbox import set_read_at
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_series import list_newest_series


class JudgementStands(Conflict):
    """Only a judgement can be taken back, and one that closed its incident only until the next run is judged."""


def withdraw_judgement(session: Session, incident_id: str) -> Incident:
    """Make an incident one that nobody judged; one that the judgement closed is open again.

    Locks: the message, the rule, the state and the incident, in the order of all writers.
    Raises: `IncidentNotFound`; `JudgementStands` when nobody judged it, or a later run was judged since.
    """
    message = lock_message(session, incident_id)
    incident, row, _ = lock_incident(session, incident_id)
    is_closed = incident.resolution in BY_PEOPLE
    if incident.verdict is None and not is_closed:
        raise JudgementStands(f"nobody has judged the incident {incident_id}")
    if is_closed:
        _reopen(session, incident, row)
    elif incident.verdict == NOISE and Condition(incident.condition).excludes_incidents:
        # It had ended before somebody called it noise: its runs became history again.
        withdraw_runs(session, incident, row)
    event = session.get(AlertEvent, incident_id, with_for_update=True)
    incident.verdict = incident.acknowledged_at = incident.acknowledged_by = incident.note = None
    if event is not None:
        event.verdict = event.acknowledged_at = event.acknowledged_by = event.note = None
    session.flush()
    if message is not None:
        set_read_at(session, message.id, None)
    return incident


def _reopen(session: Session, incident: Incident, row: AlertState | None) -> None:
    before = incident.state_before
    if (
        before is None
        or row is None
        or row.run_seq != before.run_seq
        or row.incident_id is not None
    ):
        raise JudgementStands(
            f"the incident {incident.id} was closed, and later runs were judged without it, or its rule was changed;"
            " acknowledge it as true if it was real"
        )
    for name in STATE_FIELDS:
        setattr(row, name, getattr(before, name))
    row.incident_id = incident.id
    _restore_runs(session, before)
    states = {(part.run_seq, part.series): part.state for part in before.newest_series}
    for series in list_newest_series(session, incident.run_seqs[-1]):
        if (series.run_seq, series.series) in states:
            series.state = states[series.run_seq, series.series]
    _free_closing_key(session, incident.id)
    incident.state, incident.resolution, incident.explanation = (
        IncidentState.OPEN,
        None,
        before.explanation,
    )
    incident.end_seq = incident.resolved_run_id = incident.resolved_at = None
    incident.resolved_by = incident.state_before = None


def _restore_runs(session: Session, before: StateBefore) -> None:
    """Give the runs their holds back, in the order of their numbers, as all writers lock them."""
    states = {state.seq: state for state in before.runs}
    runs = select(BenchmarkRun).where(BenchmarkRun.seq.in_(states)).order_by(BenchmarkRun.seq)
    for run in session.scalars(runs.with_for_update(key_share=True)):
        run.baseline_hold = states[run.seq].hold
        if not states[run.seq].is_accepted:
            run.accepted_at = run.accepted_by = run.acceptance_note = None


def _free_closing_key(session: Session, incident_id: str) -> None:
    """Let the incident end once more: the alert of its first end keeps its text under another key."""
    closing = select(AlertEvent).where(
        AlertEvent.dedup_key == f"resolved/{incident_id}",
        AlertEvent.state == AlertEventState.RESOLVED,
    )
    for event in session.scalars(closing):
        event.dedup_key = f"resolved/{incident_id}/{event.id}"
