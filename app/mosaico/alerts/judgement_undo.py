"""Takes back what somebody said of an incident: real, a false alarm, or the new level is correct.

A judgement that closed the incident can be taken back until the next run of the agent is judged: that run was judged
without the incident, and a reopened one would contradict it.
"""

from typing import Final

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from mosaico.alerts.incident_queries import get_incident, list_open_incidents_of_run
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState, Incident
from mosaico.alerts.rules import AlertEventState, IncidentResolution, IncidentState
from mosaico.alerts.state_before import STATE_FIELDS, RunBefore, SeriesBefore, StateBefore
from mosaico.core.errors import Conflict
from mosaico.notifications.inbox import set_read_at
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_series import list_newest_series

BY_PEOPLE: Final = (IncidentResolution.NOISE, IncidentResolution.ACCEPTED)


class JudgementStands(Conflict):
    """Only a judgement can be taken back, and one that closed its incident only until the next run is judged."""


def keep_state(session: Session, incident: Incident, row: AlertState | None) -> None:
    """Keep what a judgement will change, before it closes an open incident."""
    if row is None:
        return
    seqs = incident.run_seqs
    last_source = select(BenchmarkRun.source_seq).where(BenchmarkRun.seq == seqs[-1])
    # All runs over one source run are accepted together.
    concerned = or_(
        BenchmarkRun.seq.in_(seqs), BenchmarkRun.source_seq == last_source.scalar_subquery()
    )
    columns = (BenchmarkRun.seq, BenchmarkRun.baseline_hold, BenchmarkRun.accepted_at)
    runs = session.execute(select(*columns).where(concerned)).all()
    incident.state_before = StateBefore(
        **{name: getattr(row, name) for name in ("run_seq", "run_id", *STATE_FIELDS)},
        explanation=incident.explanation,
        runs=[
            RunBefore(seq=run.seq, hold=run.baseline_hold, is_accepted=run.accepted_at is not None)
            for run in runs
        ],
        newest_series=[
            SeriesBefore(run_seq=part.run_seq, series=part.series, state=part.state)
            for part in list_newest_series(session, seqs[-1])
        ],
    )


def keep_states_of_run(session: Session, run: BenchmarkRun) -> None:
    """Keep what the acceptance of a run will change of the open incidents that it belongs to."""
    for incident in list_open_incidents_of_run(session, run.benchmark_id, run.agent_id, run.seq):
        if incident.rule_id is not None:
            row = session.get(AlertState, (incident.rule_id, incident.agent_id))
            keep_state(session, incident, row)


def withdraw_judgement(session: Session, incident_id: str) -> Incident:
    """Make an incident one that nobody judged; one that the judgement closed is open again.

    Locks: the rule, the state and the incident, in the order of all writers.
    Raises: `IncidentNotFound`; `JudgementStands` when nobody judged it, or a later run was judged since.
    """
    incident = get_incident(session, incident_id)
    row = _lock_state(session, incident)
    incident = get_incident(session, incident_id, for_update=True)
    is_closed = incident.resolution in BY_PEOPLE
    if incident.verdict is None and not is_closed:
        raise JudgementStands(f"nobody has judged the incident {incident_id}")
    if is_closed:
        _reopen(session, incident, row)
    event = session.get(AlertEvent, incident_id, with_for_update=True)
    incident.verdict = incident.acknowledged_at = incident.acknowledged_by = None
    if event is not None:
        event.verdict = event.acknowledged_at = event.acknowledged_by = event.note = None
    session.flush()
    if event is not None and event.notification_id is not None:
        set_read_at(session, event.notification_id, None)
    return incident


def _lock_state(session: Session, incident: Incident) -> AlertState | None:
    if incident.rule_id is None:
        return None
    session.get(AlertRule, incident.rule_id, with_for_update={"read": True})
    key = (incident.rule_id, incident.agent_id)
    return session.get(AlertState, key, with_for_update=True, populate_existing=True)


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
    incident.resolved_by = incident.note = incident.state_before = None


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
