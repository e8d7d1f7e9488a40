"""Table of agents."""

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, Index, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base
from mosaico.core.encryption import ENCRYPTED
from mosaico.core.revisions import RevisionColumns


class Agent(Base):
    """An agent under test, and where its traces are: a project of a tool, a service of OpenTelemetry.

    `source_kind` is the tool, None for Langfuse or uploads. The columns that begin with `langfuse` are the address and
    the credentials of any tool: an encrypted text is bound to the name of its column.
    `langfuse_secret_key` is encrypted. `credentials_refused_at` is when the server first refused
    the current keys. A signed request to `run_address`, which is encrypted, runs the agent over a dataset;
    `run_url` is its redacted form, since the path of a URL may be a credential. `owners` are addresses of people, who
    need not have logged in yet.
    """

    __tablename__ = "agents"
    __table_args__ = (
        Index("ix_agents_archived_created_at_id", "archived", "created_at", "id"),
        # The search by name, and the order of runs by the names of their agents.
        Index("ix_agents_name_id", text("lower(name)"), "id"),
        Index("ix_agents_owners", "owners", postgresql_using="gin"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None]
    source_kind: Mapped[str | None]
    langfuse_project_name: Mapped[str | None]
    langfuse_url: Mapped[str | None]
    langfuse_public_key: Mapped[str | None]
    langfuse_secret_key: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    otel_service_name: Mapped[str | None]
    # In the order of creation: it gives an agent its color on every page.
    color_number: Mapped[int] = mapped_column(Identity(always=True), unique=True)
    run_url: Mapped[str | None]
    run_address: Mapped[str | None] = mapped_column(info=ENCRYPTED)
    credentials_refused_at: Mapped[datetime | None]
    owners: Mapped[list[str]] = mapped_column(
        ARRAY(Text), default=list, server_default=text("'{}'::text[]")
    )
    archived: Mapped[bool] = mapped_column(default=False)
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AgentRevision(RevisionColumns, Base):
    """An edit of an agent: what changed, when and by whom. The first revision has no row."""

    __tablename__ = "agent_revisions"

    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
