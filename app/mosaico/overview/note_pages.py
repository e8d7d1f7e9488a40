"""Forms of notes on the pages of runs, items and incidents."""

from typing import Annotated

from fastapi import Path, Request, Response

from mosaico.access.deps import RUN, get_caller
from mosaico.core.errors import Invalid
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form, local_path
from mosaico.core.web.pages import see_other
from mosaico.core.web.routes import Router
from mosaico.notes import service
from mosaico.notes.schemas import NoteCreate
from mosaico.overview.note_subjects import find_incident_subject, find_run_subject

router = Router()

RunId = Annotated[str, Path(alias="runId")]
IncidentId = Annotated[str, Path(alias="incidentId")]
NoteId = Annotated[str, Path(alias="noteId")]


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
