"""Table of annotations."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class Annotation(Base):
    """What one person says of one answer of a run; who judges it again replaces it.

    `annotator` is the ID of a person or an API key. `expected_is_wrong`: the expected answer of the item is wrong.
    """

    __tablename__ = "annotations"
    __table_args__ = (
        CheckConstraint("judgement IN ('right', 'partly', 'wrong')", name="judgement"),
        UniqueConstraint("run_id", "trace_id", "annotator"),
        Index("ix_annotations_created_at_id", "created_at", "id"),
        Index("ix_annotations_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        Index("ix_annotations_run_id_created_at_id", "run_id", "created_at", "id"),
        Index("ix_annotations_item_id_created_at_id", "item_id", "created_at", "id"),
        Index("ix_annotations_annotator_created_at_id", "annotator", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="CASCADE"))
    run_id: Mapped[str] = mapped_column(ForeignKey("benchmark_runs.id", ondelete="CASCADE"))
    trace_id: Mapped[str]
    item_id: Mapped[str]
    judgement: Mapped[str]
    score: Mapped[float | None]
    corrected_answer: Mapped[str | None] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    expected_is_wrong: Mapped[bool]
    annotator: Mapped[str]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
