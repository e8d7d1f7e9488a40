"""harness"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('benchmarks', sa.Column('harness', postgresql.JSONB(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column('benchmarks', 'harness')
