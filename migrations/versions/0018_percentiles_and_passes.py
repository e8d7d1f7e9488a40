"""All percentiles of a metric over a run, and its items by their trials and passes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_metrics", sa.Column("percentiles", postgresql.ARRAY(sa.Double())))
    op.add_column("run_metrics", sa.Column("passes", postgresql.JSONB()))


def downgrade() -> None:
    op.drop_column("run_metrics", "passes")
    op.drop_column("run_metrics", "percentiles")
