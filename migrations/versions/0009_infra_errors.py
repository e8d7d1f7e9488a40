"""Patterns of errors for which a benchmark does not blame the agent."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "benchmarks",
        sa.Column("infra_errors", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
    )


def downgrade() -> None:
    op.drop_column("benchmarks", "infra_errors")
