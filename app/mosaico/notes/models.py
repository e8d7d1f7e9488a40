"""Table of notes."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class Note(Base):
    """What somebody wrote about a run, about an item of a run, or about an incident; it goes with them.

    `created_by` is the ID of a person or an API key.
    """

    __tablename__ = "notes"
    __table_args__ = (
        CheckConstraint("num_nonnulls(run_id, incident_id) = 1", name="one_subject"),
        CheckConstraint("item_id IS NULL OR run_id IS NOT NULL", name="item_of_run"),
        Index("ix_notes_created_at_id", "created_at", "id"),
        Index("ix_notes_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        Index("ix_notes_run_id_created_at_id", "run_id", "created_at", "id"),
        Index("ix_notes_item_id_created_at_id", "item_id", "created_at", "id"),
        Index("ix_notes_incident_id_created_at_id", "incident_id", "created_at", "id"),
        Index("ix_notes_created_by_created_at_id", "created_by", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="CASCADE"))
    run_id: Mapped[str | None] = mapped_column(ForeignKey("benchmark_runs.id", ondelete="CASCADE"))
    item_id: Mapped[str | None]
    incident_id: Mapped[str | None] = mapped_column(ForeignKey("incidents.id", ondelete="CASCADE"))
    text: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str]
    created_at: Mapped[datetime]
