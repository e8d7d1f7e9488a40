"""Table of drafts of a setup."""

from datetime import datetime
from typing import Any

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class SetupDraft(Base):
    """What was typed on the page that sets up a nightly, until its resources are created. It has no secrets."""

    __tablename__ = "setup_drafts"

    id: Mapped[str] = mapped_column(primary_key=True)
    fields: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())
