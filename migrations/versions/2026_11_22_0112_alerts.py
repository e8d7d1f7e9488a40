"""alerts"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None

INSTANT = sa.TIMESTAMP(timezone=True)
DOCUMENT = postgresql.JSONB(none_as_null=True)


def upgrade() -> None:
    op.create_table('alert_configs',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=True),
    sa.Column('metric', sa.Text(), nullable=True),
    sa.Column('kpi', sa.Text(), nullable=True),
    sa.Column('condition', sa.Text(), nullable=False),
    sa.Column('threshold', sa.Float(), nullable=True),
    sa.Column('severity', sa.Text(), nullable=False),
    sa.Column('channels', DOCUMENT, nullable=False),
    sa.Column('recipients', DOCUMENT, nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('cooldown_minutes', sa.Integer(), nullable=False),
    sa.Column('for_runs', sa.Integer(), nullable=False),
    sa.Column('keep_firing_for_runs', sa.Integer(), nullable=False),
    sa.Column('no_data', sa.Text(), nullable=False),
    sa.Column('baseline_runs', sa.Integer(), nullable=False),
    sa.Column('minimum_effect', sa.Float(), nullable=True),
    sa.Column('revision', sa.BigInteger(), nullable=False),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_alert_configs_agent_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_alert_configs_benchmark_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_configs'))
    )
    op.create_index('ix_alert_configs_created_at_id', 'alert_configs', ['created_at', 'id'], unique=False)
    op.create_index('ix_alert_configs_benchmark_id_id', 'alert_configs', ['benchmark_id', 'id'], unique=False)
    op.create_index(op.f('ix_alert_configs_agent_id'), 'alert_configs', ['agent_id'], unique=False)
    op.create_table('alert_states',
    sa.Column('config_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('run_seq', sa.BigInteger(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('breaches', sa.Integer(), nullable=False),
    sa.Column('clears', sa.Integer(), nullable=False),
    sa.Column('fired_at', INSTANT, nullable=True),
    sa.Column('episode', sa.Text(), nullable=True),
    sa.Column('value', sa.Float(), nullable=True),
    sa.Column('baseline', sa.Float(), nullable=True),
    sa.Column('explanation', sa.Text(), nullable=False),
    sa.Column('evaluated_at', INSTANT, nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_alert_states_agent_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['config_id'], ['alert_configs.id'], name=op.f('fk_alert_states_config_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('config_id', 'agent_id', name=op.f('pk_alert_states'))
    )
    op.create_index(op.f('ix_alert_states_agent_id'), 'alert_states', ['agent_id'], unique=False)
    op.create_table('alert_events',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('once_key', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('config_id', sa.Text(), nullable=True),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('severity', sa.Text(), nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=True),
    sa.Column('run_seq', sa.BigInteger(), nullable=True),
    sa.Column('episode', sa.Text(), nullable=True),
    sa.Column('value', sa.Float(), nullable=True),
    sa.Column('baseline', sa.Float(), nullable=True),
    sa.Column('explanation', sa.Text(), nullable=False),
    sa.Column('details', DOCUMENT, nullable=False),
    sa.Column('traces', DOCUMENT, nullable=False),
    sa.Column('silence_id', sa.Text(), nullable=True),
    sa.Column('notification_id', sa.Text(), nullable=True),
    sa.Column('verdict', sa.Text(), nullable=True),
    sa.Column('acknowledged_at', INSTANT, nullable=True),
    sa.Column('acknowledged_by', sa.Text(), nullable=True),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['config_id'], ['alert_configs.id'], name=op.f('fk_alert_events_config_id'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_events')),
    sa.UniqueConstraint('once_key', name=op.f('uq_alert_events_once_key'))
    )
    op.create_index('ix_alert_events_created_at_id', 'alert_events', ['created_at', 'id'], unique=False)
    op.create_index('ix_alert_events_config_id_created_at', 'alert_events', ['config_id', 'created_at'], unique=False)
    op.create_index('ix_alert_events_run_id', 'alert_events', ['run_id'], unique=False)
    op.create_index(op.f('ix_alert_events_episode'), 'alert_events', ['episode'], unique=False)
    op.create_table('alert_silences',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('matchers', DOCUMENT, nullable=False),
    sa.Column('comment', sa.Text(), nullable=True),
    sa.Column('starts_at', INSTANT, nullable=False),
    sa.Column('ends_at', INSTANT, nullable=False),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_silences'))
    )
    op.create_index('ix_alert_silences_created_at_id', 'alert_silences', ['created_at', 'id'], unique=False)
    op.create_index('ix_alert_silences_ends_at', 'alert_silences', ['ends_at'], unique=False)


def downgrade() -> None:
    op.drop_table('alert_silences')
    op.drop_table('alert_events')
    op.drop_table('alert_states')
    op.drop_table('alert_configs')
