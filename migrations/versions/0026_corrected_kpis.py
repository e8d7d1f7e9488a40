"""KPIs that annotations correct, and how far the judges of a run agree with people."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("benchmarks", sa.Column("min_agreement", sa.Double(), nullable=True))
    op.add_column("kpi_definitions", sa.Column("corrected", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.add_column("kpi_history", sa.Column("correction", JSONB(), nullable=True))
    op.add_column("run_metrics", sa.Column("agreement", JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("run_metrics", "agreement")
    op.drop_column("kpi_history", "correction")
    op.drop_column("kpi_definitions", "corrected")
    op.drop_column("benchmarks", "min_agreement")
