"""turns of a trace; summaries of a shard"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('collected_traces', sa.Column('turns', sa.Integer(), nullable=True))
    op.add_column('run_shards', sa.Column('summaries', postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column('run_shards', 'summaries')
    op.drop_column('collected_traces', 'turns')
