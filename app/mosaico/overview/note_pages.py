"""The list of notes, and their forms on the pages of runs, items and incidents."""

from typing import Annotated

from fastapi import Depends, Path, Request, Response

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.benchmarks.queries import list_owner_names
from mosaico.core.errors import Invalid
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form, local_path
from mosaico.core.web.page_paths import incident_page_path, run_page_path
from mosaico.core.web.pages import build_url, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.notes import queries, service
from mosaico.notes.schemas import NoteCreate, NoteFilter, NoteView
from mosaico.overview.note_subjects import find_incident_subject, find_run_subject

router = Router()

RunId = Annotated[str, Path(alias="runId")]
IncidentId = Annotated[str, Path(alias="incidentId")]
NoteId = Annotated[str, Path(alias="noteId")]
NoteFilters = Annotated[
    SentFilters[NoteFilter], Depends(PageFilters(NoteFilter, "text benchmark createdBy"))
]


@router.get("/notes", dependencies=READ)
def show_notes(request: Request, res: Res, query: ListQuery, filters: NoteFilters) -> Response:
    """All notes, newest first, with what they are about."""
    with res.db.read() as session:
        page = queries.list_notes(session, query, filters.of_list)
        names = list_owner_names(session)
        authors = queries.list_authors(session)
    return render_page(
        request,
        "notes.html",
        title="Notes",
        nav="/notes",
        api=list_in_api(request, "/notes", **filters.in_api),
        csv=build_url("/api/v1/notes.csv", filters.in_api),
        filters=filters.fields,
        names={"benchmark": names["benchmark"], "createdBy": authors},
        rows=[(note, *_subject_of(note)) for note in page.rows],
        benchmarks=dict(names["benchmark"]),
        next_cursor=page.next_cursor,
    )


def _subject_of(note: NoteView) -> tuple[str, str]:
    """What a note is about, and its page."""
    if note.incident_id is not None:
        return f"incident {note.incident_id}", f"{incident_page_path(note.incident_id)}#notes"
    run_page = run_page_path(note.run_id or "")
    if note.item_id is None:
        return f"run {note.run_id}", f"{run_page}#notes"
    return f"item {note.item_id}", build_url(f"{run_page}/items", item=note.item_id)


@router.post("/runs/{runId}/notes", dependencies=RUN)
def create_run_note(request: Request, run_id: RunId, form: SentForm, res: Res) -> Response:
    """Write a note about a run or one of its items."""
    text, by = _read_text(form), get_caller(request).key_id
    with res.db.begin() as session:
        subject = find_run_subject(session, run_id, form.text("itemId") or None)
        service.add_note(session, subject, text, by, res.clock())
    return see_other(local_path(form.text("next", "/")))


@router.post("/incidents/{incidentId}/notes", dependencies=RUN)
def create_incident_note(
    request: Request, incident_id: IncidentId, form: SentForm, res: Res
) -> Response:
    """Write a note about an incident."""
    text, by = _read_text(form), get_caller(request).key_id
    with res.db.begin() as session:
        subject = find_incident_subject(session, incident_id)
        service.add_note(session, subject, text, by, res.clock())
    return see_other(local_path(form.text("next", "/")))


@router.post("/notes/{noteId}/delete", dependencies=RUN)
def delete_note(request: Request, note_id: NoteId, form: SentForm, res: Res) -> Response:
    """Delete a note of one's own; admins delete any."""
    caller = get_caller(request)
    with res.db.begin() as session:
        service.delete_note(session, note_id, caller.key_id, caller.role)
    return see_other(local_path(form.text("next", "/")))


def _read_text(form: FormFields) -> str:
    """The text of a new note. Raises: `Invalid`."""
    checked = check_form(NoteCreate, {"text": form.text("text")})
    if checked.body is None:
        raise Invalid(f"the note {checked.errors['text']}")
    return checked.body.text
