"""Reads of notes."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.access.authentication import Caller
from mosaico.access.queries import list_caller_names
from mosaico.core import keyset
from mosaico.core.errors import NotFound
from mosaico.core.keyset import ListRows, PageQuery, PageRows
from mosaico.core.list_filters import match_text, one_value, split_filters
from mosaico.core.schemas import view_of_row
from mosaico.notes.models import Note
from mosaico.notes.schemas import NoteFilter, NoteView

# Of one thing on its page.
SHOWN_NOTES = 50
# For the choice of their authors.
MAX_READ = 1_000


class UnknownNote(NotFound):
    """No note has this ID; GET /api/v1/notes lists all notes."""


def get_note(session: Session, note_id: str) -> Note:
    """One note. Raises: `UnknownNote`."""
    return UnknownNote.unless(session.get(Note, note_id))


def list_notes(
    session: Session,
    query: PageQuery,
    note_filter: NoteFilter,
    search_time_s: float = keyset.SEARCH_TIME_S,
) -> PageRows[NoteView]:
    """Notes with the names of their authors, newest first; a note about an item is also one of its run."""
    prefix, tested = split_filters(
        [
            (Note.run_id, one_value(note_filter.run_id)),
            (Note.incident_id, one_value(note_filter.incident_id)),
            (Note.item_id, one_value(note_filter.item_id)),
            (Note.created_by, one_value(note_filter.created_by)),
            (Note.benchmark_id, one_value(note_filter.benchmark_id)),
        ]
    )
    rows: ListRows = ListRows(
        statement=select(Note),
        keys=[Note.created_at, Note.id],
        descending=True,
        prefix=prefix,
        conditions=[*tested, *match_text(note_filter.text, Note.text)],
    )
    page = rows.read_page(session, query, search_time_s)
    return page.with_rows(note_views(session, [row[0] for row in page.rows]))


def note_views(session: Session, notes: Sequence[Note]) -> list[NoteView]:
    """Notes as the API returns them, with the names of their authors."""
    names = list_caller_names(session, {note.created_by for note in notes})
    return [
        view_of_row(NoteView, note, created_by_name=names.get(note.created_by)) for note in notes
    ]


def list_authors(session: Session) -> list[tuple[str, str]]:
    """The ID and the name of those who wrote the newest notes, by name."""
    newest = select(Note.created_by).order_by(Note.created_at.desc(), Note.id.desc())
    authors = list_caller_names(session, {*session.scalars(newest.limit(MAX_READ))})
    return sorted(authors.items(), key=lambda author: (author[1].lower(), author[0]))


def list_shown_notes(session: Session, caller: Caller, **subject: str) -> list[dict[str, Any]]:
    """The newest notes about one thing for its page, and whether the caller may delete each.

    `subject` are values of `NoteFilter`.
    """
    page = list_notes(session, PageQuery(SHOWN_NOTES), NoteFilter(**subject))
    return [
        {"note": note, "may_delete": may_delete(note.created_by, caller.key_id, caller.role)}
        for note in page.rows
    ]


def may_delete(created_by: str, caller_id: str, role: str) -> bool:
    """A note belongs to its author; administrators delete any."""
    return role == "admin" or (role == "run" and created_by == caller_id)
