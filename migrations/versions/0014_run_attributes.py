"""What the traces of a run record, and what changed since its baseline."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_attributes",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("record", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_run_attributes_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_seq", name="pk_run_attributes"),
    )


def downgrade() -> None:
    op.drop_table("run_attributes")
