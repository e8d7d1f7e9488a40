"""What a judgement changed, so that it can be taken back."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("incidents", sa.Column("state_before", JSONB()))


def downgrade() -> None:
    op.drop_column("incidents", "state_before")
