"""Writes of notes."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from mosaico.core.errors import Forbidden
from mosaico.core.ids import new_id
from mosaico.notes.models import Note
from mosaico.notes.queries import get_note, may_delete


class NotYourNote(Forbidden):
    """Somebody else wrote this note; its author or an administrator can delete it."""


class NoteSubject(NamedTuple):
    """What a note is about: a run, an item of a run, or an incident, of one benchmark."""

    benchmark_id: str
    run_id: str | None = None
    item_id: str | None = None
    incident_id: str | None = None


def add_note(session: Session, subject: NoteSubject, text: str, by: str, now: datetime) -> Note:
    """Store what somebody wrote."""
    note = Note(id=new_id(), **subject._asdict(), text=text, created_by=by, created_at=now)
    session.add(note)
    session.flush()
    return note


def delete_note(session: Session, note_id: str, caller_id: str, role: str) -> None:
    """Delete a note for good. Raises: `UnknownNote`, `NotYourNote`."""
    note = get_note(session, note_id)
    if not may_delete(note.created_by, caller_id, role):
        raise NotYourNote
    session.delete(note)
    session.flush()
