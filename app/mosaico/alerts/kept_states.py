"""Keeps what a judgement of an incident will change, so that it can be taken back."""

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from mosaico.alerts.incident_queries import list_open_incidents_of_run
from mosaico.alerts.models import AlertState, Incident
from mosaico.alerts.state_before import STATE_FIELDS, RunBefore, SeriesBefore, StateBefore
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_series import list_newest_series


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
