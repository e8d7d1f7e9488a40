"""The reader of the traces of a collection, which is a part of how its runs are measured."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collections", sa.Column("reader", JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("collections", "reader")
