"""Table of stored comparisons."""

from datetime import datetime

from sqlalchemy import ForeignKey, func
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class StoredComparison(Base):
    """The comparison of two completed runs, as JSON, stored when somebody first asked for it.

    `request_digest` is of the runs and the options. `inputs_digest` is of everything else that the comparison depends
    on, so that an outdated one is computed again. It is deleted with one of its runs.
    """

    __tablename__ = "stored_comparisons"

    request_digest: Mapped[str] = mapped_column(primary_key=True)
    inputs_digest: Mapped[str]
    candidate_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), index=True
    )
    baseline_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), index=True
    )
    document: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
