"""schedules"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('schedule_configs',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=True),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('cron_expression', sa.Text(), nullable=False),
    sa.Column('timezone', sa.Text(), nullable=False),
    sa.Column('dst_policy', sa.Text(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('run_name_pattern', sa.Text(), nullable=True),
    sa.Column('misfire_policy', sa.Text(), nullable=False),
    sa.Column('catchup_window_seconds', sa.BigInteger(), nullable=False),
    sa.Column('concurrency_policy', sa.Text(), nullable=False),
    sa.Column('auto_disable_on_failure', sa.Boolean(), nullable=False),
    sa.Column('max_consecutive_failures', sa.BigInteger(), nullable=False),
    sa.Column('consecutive_failures', sa.BigInteger(), nullable=False),
    sa.Column('last_run_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('next_run_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('disabled_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('disabled_reason', sa.Text(), nullable=True),
    sa.Column('revision', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_schedule_configs_agent_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_schedule_configs_benchmark_id'), ondelete='RESTRICT'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_schedule_configs'))
    )
    op.create_index(op.f('ix_schedule_configs_agent_id'), 'schedule_configs', ['agent_id'], unique=False)
    op.create_index(op.f('ix_schedule_configs_benchmark_id'), 'schedule_configs', ['benchmark_id'], unique=False)
    op.create_index('ix_schedule_configs_created_at_id', 'schedule_configs', ['created_at', 'id'], unique=False)
    op.create_index('ix_schedule_configs_next_run_at', 'schedule_configs', ['next_run_at'], unique=False, postgresql_where=sa.text('next_run_at IS NOT NULL'))
    op.create_table('schedule_fires',
    sa.Column('seq', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('schedule_id', sa.Text(), nullable=False),
    sa.Column('due_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('until', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('fired_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('triggered_by', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('detail', sa.Text(), nullable=True),
    sa.Column('plan', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('run_id', sa.Text(), nullable=True),
    sa.Column('settled_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['benchmark_runs.id'], name=op.f('fk_schedule_fires_run_id'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedule_configs.id'], name=op.f('fk_schedule_fires_schedule_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('seq', name=op.f('pk_schedule_fires')),
    sa.UniqueConstraint('schedule_id', 'due_at', name=op.f('uq_schedule_fires_schedule_id_due_at'))
    )
    op.create_index(op.f('ix_schedule_fires_run_id'), 'schedule_fires', ['run_id'], unique=False)


def downgrade() -> None:
    op.drop_table('schedule_fires')
    op.drop_table('schedule_configs')
