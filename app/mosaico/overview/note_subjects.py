"""What a note is about: a run, an item of a run, or an incident that exists."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts.incident_queries import get_incident
from mosaico.core.errors import NotFound
from mosaico.notes.service import NoteSubject
from mosaico.run_store.queries import get_run
from mosaico.traces.models import CollectedTrace


class ItemNotInRun(NotFound):
    """The run has no item with this ID; GET /api/v1/benchmark-runs/{runId}/results lists its items."""


def find_run_subject(session: Session, run_id: str, item_id: str | None) -> NoteSubject:
    """A run, or one of its items. Raises: `RunNotFound`, `ItemNotInRun`."""
    run = get_run(session, run_id)
    if item_id is not None:
        has_item = select(CollectedTrace.position).where(
            CollectedTrace.collection_id == run.collection_id, CollectedTrace.item_id == item_id
        )
        if session.scalar(has_item.limit(1)) is None:
            raise ItemNotInRun
    return NoteSubject(run.benchmark_id, run_id=run.id, item_id=item_id)


def find_incident_subject(session: Session, incident_id: str) -> NoteSubject:
    """An incident. Raises: `IncidentNotFound`."""
    incident = get_incident(session, incident_id)
    return NoteSubject(incident.benchmark_id, incident_id=incident.id)
