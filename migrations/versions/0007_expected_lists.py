"""Traces with several expected answers: any of them is right, or an answer must fit all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = ("expected_any", "expected_all")


def upgrade() -> None:
    # Without a default: no row of a large table is written.
    for name in COLUMNS:
        op.add_column("collected_traces", sa.Column(name, sa.ARRAY(sa.Text()), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("collected_traces", name)
