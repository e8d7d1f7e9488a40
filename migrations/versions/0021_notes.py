"""Notes of people, and who made a silence."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_INDEXED = ("benchmark_id", "run_id", "item_id", "incident_id")


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("item_id", sa.Text(), nullable=True),
        sa.Column("incident_id", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("num_nonnulls(run_id, incident_id) = 1", name=op.f("ck_notes_one_subject")),
        sa.CheckConstraint("item_id IS NULL OR run_id IS NOT NULL", name=op.f("ck_notes_item_of_run")),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmarks.id"], name="fk_notes_benchmark_id_benchmarks", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["benchmark_runs.id"], name="fk_notes_run_id_benchmark_runs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_notes_incident_id_incidents", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_notes"),
    )
    op.create_index("ix_notes_created_at_id", "notes", ["created_at", "id"])
    for column in _INDEXED:
        op.create_index(f"ix_notes_{column}_created_at_id", "notes", [column, "created_at", "id"])
    op.add_column("alert_silences", sa.Column("created_by", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("alert_silences", "created_by")
    op.drop_table("notes")
