"""How much the value of a series is assumed to vary from run to run."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_series", sa.Column("assumed_sd", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("run_series", "assumed_sd")
