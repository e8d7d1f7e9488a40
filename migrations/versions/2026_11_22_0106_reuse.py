"""collections and values that later runs use again"""

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('collections', sa.Column('digest', sa.LargeBinary(), nullable=True))
    op.add_column('collections', sa.Column('revision', sa.Text(), nullable=True))
    op.create_index('ix_collections_digest', 'collections', ['digest'])
    op.create_index('ix_collections_revision', 'collections', ['revision'])
    op.add_column(
        'benchmark_runs',
        sa.Column('metrics_reused', sa.BigInteger(), server_default='0', nullable=False),
    )


def downgrade() -> None:
    op.drop_column('benchmark_runs', 'metrics_reused')
    op.drop_index('ix_collections_revision', table_name='collections')
    op.drop_index('ix_collections_digest', table_name='collections')
    op.drop_column('collections', 'revision')
    op.drop_column('collections', 'digest')
