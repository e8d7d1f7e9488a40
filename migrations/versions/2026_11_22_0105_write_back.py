"""write_back"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

JSONB = postgresql.JSONB(none_as_null=True)
TIME = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.add_column(
        'benchmarks',
        sa.Column('late_scores', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    )
    op.add_column(
        'benchmarks',
        sa.Column(
            'write_back',
            postgresql.JSONB(),
            server_default=sa.text("""'{"kpis": false, "metrics": false}'"""),
            nullable=False,
        ),
    )
    op.add_column('benchmark_runs', sa.Column('write_back', JSONB, nullable=True))
    op.add_column('collections', sa.Column('source_run_id', sa.Text(), nullable=True))
    op.add_column('collections', sa.Column('source_run_at', TIME, nullable=True))
    op.add_column('agents', sa.Column('credentials_refused_at', TIME, nullable=True))
    op.create_table(
        'source_limits',
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('closed_until', TIME, nullable=True),
        sa.Column('failures', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('name', name=op.f('pk_source_limits')),
    )


def downgrade() -> None:
    op.drop_table('source_limits')
    op.drop_column('agents', 'credentials_refused_at')
    op.drop_column('collections', 'source_run_at')
    op.drop_column('collections', 'source_run_id')
    op.drop_column('benchmark_runs', 'write_back')
    op.drop_column('benchmarks', 'write_back')
    op.drop_column('benchmarks', 'late_scores')
