"""A number for each agent, which gives it its color; stored comparisons; drafts of a setup; the columns of an upload."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "agents", sa.Column("color_number", sa.BigInteger(), sa.Identity(always=True), nullable=False)
    )
    op.create_table(
        "stored_comparisons",
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("inputs_digest", sa.Text(), nullable=False),
        sa.Column("candidate_seq", sa.BigInteger(), nullable=False),
        sa.Column("baseline_seq", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["candidate_seq"],
            ["benchmark_runs.seq"],
            name=op.f("fk_stored_comparisons_candidate_seq_benchmark_runs"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["baseline_seq"],
            ["benchmark_runs.seq"],
            name=op.f("fk_stored_comparisons_baseline_seq_benchmark_runs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("request_digest", name=op.f("pk_stored_comparisons")),
    )
    op.add_column(
        "local_datasets",
        sa.Column("columns", postgresql.JSONB(), server_default="{}", nullable=False),
    )
    op.create_table(
        "setup_drafts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fields", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_setup_drafts")),
    )
    for column in ("candidate_seq", "baseline_seq"):
        op.create_index(
            op.f(f"ix_stored_comparisons_{column}"), "stored_comparisons", [column], unique=False
        )
    op.create_unique_constraint("uq_agents_color_number", "agents", ["color_number"])


def downgrade() -> None:
    op.drop_table("setup_drafts")
    op.drop_column("local_datasets", "columns")
    op.drop_table("stored_comparisons")
    op.drop_column("agents", "color_number")
