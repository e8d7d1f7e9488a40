"""Runs name the metrics that cannot read many of the expected texts."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("benchmark_runs", sa.Column("metric_warning", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("benchmark_runs", "metric_warning")
