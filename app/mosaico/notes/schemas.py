"""Requests and responses of notes."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from mosaico.core.schemas import ListFilter, WireModel

MAX_NOTE_CHARS = 2_000
# Of an item, which has the ID that its source gave it.
MAX_ITEM_CHARS = 1_000


class NoteCreate(WireModel):
    """A new note."""

    text: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NOTE_CHARS)
    ]


class RunNoteCreate(NoteCreate):
    """A new note about a run; with `itemId` about one of its items."""

    item_id: Annotated[str, Field(max_length=MAX_ITEM_CHARS)] | None = None


class NoteView(WireModel):
    """A note with its author; `runId` of a note about an item is the run in which somebody looked at it."""

    id: str
    benchmark_id: str
    run_id: str | None
    item_id: str | None
    incident_id: str | None
    text: str
    created_by: str
    created_by_name: str | None = None
    created_at: datetime


class NoteFilter(ListFilter):
    """Filters of the list of notes by exact value, and by a part of their text."""

    benchmark_id: str | None = Field(default=None, validation_alias="benchmarkId")
    run_id: str | None = Field(default=None, validation_alias="runId")
    item_id: str | None = Field(default=None, validation_alias="itemId")
    incident_id: str | None = Field(default=None, validation_alias="incidentId")
    created_by: str | None = Field(
        default=None,
        validation_alias="createdBy",
        description="ID of the person or the API key that wrote them.",
    )
    text: str | None = Field(
        default=None, max_length=200, description="Only notes that contain this text, in any case."
    )
