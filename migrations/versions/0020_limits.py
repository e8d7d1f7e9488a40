"""Keys and people that see only some benchmarks; `env.py` installs the policies after every upgrade."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("api_keys", "people"):
        op.add_column(table, sa.Column("only", ARRAY(sa.Text())))


def downgrade() -> None:
    for table in ("api_keys", "people"):
        op.drop_column(table, "only")
