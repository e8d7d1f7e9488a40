"""Annotations of answers by people."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_INDEXED = ("benchmark_id", "run_id", "item_id", "annotator")


def upgrade() -> None:
    op.create_table(
        "annotations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("judgement", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("corrected_answer", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("expected_is_wrong", sa.Boolean(), nullable=False),
        sa.Column("annotator", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("judgement IN ('right', 'partly', 'wrong')", name=op.f("ck_annotations_judgement")),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmarks.id"], name="fk_annotations_benchmark_id_benchmarks", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["benchmark_runs.id"], name="fk_annotations_run_id_benchmark_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_annotations"),
        sa.UniqueConstraint("run_id", "trace_id", "annotator", name="uq_annotations_run_id_trace_id_annotator"),
    )
    op.create_index("ix_annotations_created_at_id", "annotations", ["created_at", "id"])
    for column in _INDEXED:
        op.create_index(f"ix_annotations_{column}_created_at_id", "annotations", [column, "created_at", "id"])


def downgrade() -> None:
    op.drop_table("annotations")
