"""how many traces a source says there are"""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('collections', sa.Column('expected_count', sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column('collections', 'expected_count')
