"""Revisions of resources: each edit is counted, with what it changed, when and by whom."""

from datetime import datetime

from sqlalchemy import Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.acting import current_actor
from mosaico.core.schemas import StoredText, WireModel


class RevisionColumns:
    """The columns of a table of revisions. `changed_by` is the ID of an API key or a person; NULL of edits of
    earlier versions, and of those that the service made.
    """

    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    changes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    changed_by: Mapped[str | None] = mapped_column(default=current_actor)
    changed_at: Mapped[datetime]


class RevisionView(WireModel):
    """An edit of a resource: what changed, when and by whom."""

    revision: int
    changes: list[str]
    changed_by: str | None
    changed_by_name: StoredText | None = None
    changed_at: datetime
