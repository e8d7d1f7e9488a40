"""Owners of agents, assignees of incidents, and who made each revision of benchmarks, agents and alert rules."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_REVISIONS = (("agent_revisions", "agent_id", "agents"), ("alert_rule_revisions", "rule_id", "alert_rules"))


def upgrade() -> None:
    op.add_column("agents", sa.Column("owners", ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'::text[]")))
    op.create_index("ix_agents_owners", "agents", ["owners"], postgresql_using="gin")
    op.add_column("incidents", sa.Column("assignee_id", sa.Text(), nullable=True))
    op.add_column("incidents", sa.Column("assigned_by", sa.Text(), nullable=True))
    op.add_column("incidents", sa.Column("assigned_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_incidents_assigned", "incidents", ["assignee_id"], postgresql_where=sa.text("assignee_id IS NOT NULL")
    )
    op.create_index("ix_notes_created_by_created_at_id", "notes", ["created_by", "created_at", "id"])
    op.add_column("benchmark_revisions", sa.Column("changed_by", sa.Text(), nullable=True))
    for table, column, owner in _REVISIONS:
        op.create_table(
            table,
            sa.Column(column, sa.Text(), nullable=False),
            sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("changes", ARRAY(sa.Text()), nullable=False),
            sa.Column("changed_by", sa.Text(), nullable=True),
            sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
            sa.ForeignKeyConstraint([column], [f"{owner}.id"], name=f"fk_{table}_{column}_{owner}", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint(column, "revision", name=f"pk_{table}"),
        )


def downgrade() -> None:
    for table, _, _ in _REVISIONS:
        op.drop_table(table)
    op.drop_column("benchmark_revisions", "changed_by")
    op.drop_index("ix_notes_created_by_created_at_id", "notes")
    for column in ("assigned_at", "assigned_by", "assignee_id"):
        op.drop_column("incidents", column)
    op.drop_column("agents", "owners")
