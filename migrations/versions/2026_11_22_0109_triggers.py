"""triggers"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None

INSTANT = sa.TIMESTAMP(timezone=True)
DOCUMENT = postgresql.JSONB(none_as_null=True)


def upgrade() -> None:
    op.add_column('benchmarks', sa.Column('triggers', DOCUMENT, server_default='{}', nullable=False))
    op.add_column('benchmark_runs', sa.Column('trigger_event_id', sa.Text(), nullable=True))
    op.create_table('webhook_secrets',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=True),
    sa.Column('name', sa.Text(), nullable=True),
    sa.Column('secret', sa.Text(), nullable=False),
    sa.Column('created_at', INSTANT, nullable=False),
    sa.Column('expires_at', INSTANT, nullable=True),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_webhook_secrets_benchmark_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_webhook_secrets'))
    )
    op.create_index(op.f('ix_webhook_secrets_benchmark_id'), 'webhook_secrets', ['benchmark_id'], unique=False)
    op.create_table('trigger_events',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('type', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=True),
    sa.Column('once_key', sa.Text(), nullable=True),
    sa.Column('fingerprint', sa.Text(), nullable=True),
    sa.Column('secret_id', sa.Text(), nullable=True),
    sa.Column('details', DOCUMENT, nullable=False),
    sa.Column('times', sa.Integer(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('benchmark_ids', DOCUMENT, nullable=False),
    sa.Column('run_ids', DOCUMENT, nullable=False),
    sa.Column('received_at', INSTANT, nullable=False),
    sa.Column('due_at', INSTANT, nullable=True),
    sa.Column('settled_at', INSTANT, nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_trigger_events')),
    sa.UniqueConstraint('once_key', name=op.f('uq_trigger_events_once_key'))
    )
    op.create_index('ix_trigger_events_received_at_id', 'trigger_events', ['received_at', 'id'], unique=False)
    op.create_index('ix_trigger_events_due_at', 'trigger_events', ['due_at'], unique=False, postgresql_where=sa.text('due_at IS NOT NULL'))
    op.create_table('run_watches',
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=True),
    sa.Column('polled_at', INSTANT, nullable=True),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_run_watches_agent_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_run_watches_benchmark_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('benchmark_id', 'agent_id', name=op.f('pk_run_watches'))
    )
    op.create_table('seen_runs',
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['benchmark_id', 'agent_id'], ['run_watches.benchmark_id', 'run_watches.agent_id'], name=op.f('fk_seen_runs_benchmark_id_agent_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('benchmark_id', 'agent_id', 'run_id', name=op.f('pk_seen_runs'))
    )


def downgrade() -> None:
    op.drop_table('seen_runs')
    op.drop_table('run_watches')
    op.drop_table('trigger_events')
    op.drop_table('webhook_secrets')
    op.drop_column('benchmark_runs', 'trigger_event_id')
    op.drop_column('benchmarks', 'triggers')
