"""verdicts"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('benchmarks', sa.Column('cluster_field', sa.Text(), nullable=True))
    op.add_column('benchmarks', sa.Column('baseline', postgresql.JSONB(), server_default='{}', nullable=False))
    op.add_column('benchmarks', sa.Column('judge_drift', postgresql.JSONB(), nullable=True))
    op.add_column('kpi_definitions', sa.Column('gate', sa.Boolean(), server_default='false', nullable=False))
    op.add_column('kpi_definitions', sa.Column('min_effect', sa.Float(), nullable=True))
    op.add_column('kpi_history', sa.Column('coverage', sa.Float(), nullable=True))
    op.add_column('kpi_history', sa.Column('missing', postgresql.JSONB(), server_default='{}', nullable=False))
    op.add_column('kpi_history', sa.Column('gate', sa.Boolean(), server_default='false', nullable=False))
    op.add_column('benchmark_runs', sa.Column('rescore_of', sa.Text(), nullable=True))
    op.create_foreign_key(
        'fk_benchmark_runs_rescore_of_benchmark_runs',
        'benchmark_runs', 'benchmark_runs', ['rescore_of'], ['id'], ondelete='SET NULL',
    )
    op.create_index('ix_benchmark_runs_rescore_of', 'benchmark_runs', ['rescore_of'])
    op.create_table(
        'benchmark_baselines',
        sa.Column('benchmark_id', sa.Text(), nullable=False),
        sa.Column('agent_id', sa.Text(), nullable=False),
        sa.Column('run_id', sa.Text(), nullable=False),
        sa.Column('pinned_at', sa.TIMESTAMP(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ['benchmark_id'], ['benchmarks.id'], ondelete='CASCADE',
            name=op.f('fk_benchmark_baselines_benchmark_id_benchmarks'),
        ),
        sa.ForeignKeyConstraint(
            ['agent_id'], ['agents.id'], ondelete='CASCADE',
            name=op.f('fk_benchmark_baselines_agent_id_agents'),
        ),
        sa.ForeignKeyConstraint(
            ['run_id'], ['benchmark_runs.id'], ondelete='RESTRICT',
            name=op.f('fk_benchmark_baselines_run_id_benchmark_runs'),
        ),
        sa.PrimaryKeyConstraint('benchmark_id', 'agent_id', name=op.f('pk_benchmark_baselines')),
    )
    op.create_index('ix_benchmark_baselines_agent_id', 'benchmark_baselines', ['agent_id'])
    op.create_index('ix_benchmark_baselines_run_id', 'benchmark_baselines', ['run_id'])


def downgrade() -> None:
    op.drop_table('benchmark_baselines')
    op.drop_index('ix_benchmark_runs_rescore_of', table_name='benchmark_runs')
    op.drop_constraint(
        'fk_benchmark_runs_rescore_of_benchmark_runs', 'benchmark_runs', type_='foreignkey'
    )
    op.drop_column('benchmark_runs', 'rescore_of')
    for column in ('gate', 'missing', 'coverage'):
        op.drop_column('kpi_history', column)
    op.drop_column('kpi_definitions', 'min_effect')
    op.drop_column('kpi_definitions', 'gate')
    for column in ('judge_drift', 'baseline', 'cluster_field'):
        op.drop_column('benchmarks', column)
