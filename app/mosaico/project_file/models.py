"""Table of the objects that project files made."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class ProjectObject(Base):
    """An object that belongs to a project file: its place in the file, and what was applied last.

    `wanted` are the fields as the file had them, secrets as digests. `shown` are the fields as the service showed them
    afterwards; None before the object exists. `object_id` is no foreign key, because its kind decides the table.
    """

    __tablename__ = "project_objects"
    __table_args__ = (
        UniqueConstraint("file", "path"),
        UniqueConstraint("kind", "object_id"),
        Index("ix_project_objects_created_at_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    file: Mapped[str]
    path: Mapped[str]
    kind: Mapped[str]
    object_id: Mapped[str]
    wanted: Mapped[dict[str, Any]] = mapped_column(JSONB)
    shown: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
