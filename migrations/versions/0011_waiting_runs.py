"""What a run waits for while it collects its traces."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("benchmark_runs", sa.Column("waiting_for", sa.Text()))


def downgrade() -> None:
    op.drop_column("benchmark_runs", "waiting_for")
