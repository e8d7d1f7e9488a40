"""A number for each agent, which gives it its color, and comparisons that are stored at first sight."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0011"
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
    for column in ("candidate_seq", "baseline_seq"):
        op.create_index(
            op.f(f"ix_stored_comparisons_{column}"), "stored_comparisons", [column], unique=False
        )
    op.create_unique_constraint("uq_agents_color_number", "agents", ["color_number"])


def downgrade() -> None:
    op.drop_table("stored_comparisons")
    op.drop_column("agents", "color_number")
