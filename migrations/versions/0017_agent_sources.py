"""The kind of the trace source of an agent, beside its address and credentials."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("source_kind", sa.Text()))


def downgrade() -> None:
    op.drop_column("agents", "source_kind")
