"""HTTP routes of notes."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.core.keyset import PageQuery, PageRows
from mosaico.core.resources import Resources
from mosaico.core.schemas import Page
from mosaico.core.web.csv_files import CSV_RESPONSE, csv_file, iter_views
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.notes import queries, service
from mosaico.notes.schemas import NoteCreate, NoteFilter, NoteView, RunNoteCreate
from mosaico.notes.service import NoteSubject
from mosaico.overview.note_subjects import find_incident_subject, find_run_subject

router = Router(prefix="/notes", tags=["notes"])
subject_router = Router(tags=["notes"])

RunId = Annotated[str, Path(alias="runId")]
IncidentId = Annotated[str, Path(alias="incidentId")]
NoteId = Annotated[str, Path(alias="noteId")]
NoteFilters = Annotated[NoteFilter, Query()]


@subject_router.post(
    "/benchmark-runs/{runId}/notes", status_code=201, response_model=NoteView, dependencies=RUN
)
def create_run_note(
    run_id: RunId, body: RunNoteCreate, request: Request, once: Idempotent, res: Res
) -> Response:
    """Write a note about a run or one of its items. Everybody who sees it sees the note with your name."""

    def create(session: Session) -> NoteView:
        subject = find_run_subject(session, run_id, body.item_id)
        return _add(session, subject, body.text, request, res)

    return once(body, create, location=_location)


@subject_router.post(
    "/incidents/{incidentId}/notes", status_code=201, response_model=NoteView, dependencies=RUN
)
def create_incident_note(
    incident_id: IncidentId, body: NoteCreate, request: Request, once: Idempotent, res: Res
) -> Response:
    """Write a note about an incident. Everybody who sees it sees the note with your name."""

    def create(session: Session) -> NoteView:
        return _add(session, find_incident_subject(session, incident_id), body.text, request, res)

    return once(body, create, location=_location)


@router.get("", dependencies=READ)
def list_notes(res: Res, page: PageParams, note_filter: NoteFilters) -> Page[NoteView]:
    """List notes, newest first. Notes about items of a run are among those of the run."""
    with res.db.read() as session:
        rows = queries.list_notes(session, page, note_filter)
        return Page(items=rows.rows, next_cursor=rows.next_cursor)


@router.get("/{noteId}", dependencies=READ)
def get_note(note_id: NoteId, res: Res) -> NoteView:
    """Show one note with the name of its author."""
    with res.db.read() as session:
        return queries.note_views(session, [queries.get_note(session, note_id)])[0]


@router.delete("/{noteId}", status_code=204, dependencies=RUN)
def delete_note(note_id: NoteId, request: Request, res: Res) -> None:
    """Delete a note of your own; admins delete any."""
    caller = get_caller(request)
    with res.db.begin() as session:
        service.delete_note(session, note_id, caller.key_id, caller.role)


@router.get(".csv", response_class=StreamingResponse, responses=CSV_RESPONSE, dependencies=READ)
def export_notes(res: Res, note_filter: NoteFilters) -> StreamingResponse:
    """Notes as CSV with the filters of the list, newest first; at most 10,000."""

    def read_page(session: Session, page: PageQuery) -> PageRows[NoteView]:
        return queries.list_notes(session, page, note_filter)

    return csv_file(iter_views(res.db, NoteView, read_page), "notes.csv")


def _add(
    session: Session, subject: NoteSubject, text: str, request: Request, res: Resources
) -> NoteView:
    by = get_caller(request).key_id
    note = service.add_note(session, subject, text, by, res.clock())
    return queries.note_views(session, [note])[0]


def _location(note: NoteView) -> str:
    return f"/api/v1/notes{path_of(note.id)}"
