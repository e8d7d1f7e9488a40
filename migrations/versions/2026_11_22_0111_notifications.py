"""notifications"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None

INSTANT = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table('notifications',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('topic', sa.Text(), nullable=False),
    sa.Column('severity', sa.Text(), nullable=False),
    sa.Column('title', sa.Text(), nullable=False),
    sa.Column('message', postgresql.JSONB(none_as_null=True), nullable=False),
    sa.Column('once_key', sa.Text(), nullable=True),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.Column('read_at', INSTANT, nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_notifications')),
    sa.UniqueConstraint('once_key', name=op.f('uq_notifications_once_key'))
    )
    op.create_index('ix_notifications_created_at_id', 'notifications', ['created_at', 'id'], unique=False)
    op.create_index('ix_notifications_unread', 'notifications', ['created_at', 'id'], unique=False, postgresql_where=sa.text('read_at IS NULL'))
    op.create_table('endpoints',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('channel', sa.Text(), nullable=False),
    sa.Column('recipient', sa.Text(), nullable=False),
    sa.Column('secret', sa.Text(), nullable=True),
    sa.Column('earlier_secret', sa.Text(), nullable=True),
    sa.Column('earlier_until', INSTANT, nullable=True),
    sa.Column('daily_summary', sa.Boolean(), server_default='false', nullable=False),
    sa.Column('slow_tries', sa.Integer(), server_default='0', nullable=False),
    sa.Column('rests_until', INSTANT, nullable=True),
    sa.Column('failing_since', INSTANT, nullable=True),
    sa.Column('delivered_at', INSTANT, nullable=True),
    sa.Column('disabled_at', INSTANT, nullable=True),
    sa.Column('disabled_reason', sa.Text(), nullable=True),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_endpoints')),
    sa.UniqueConstraint('channel', 'recipient', name=op.f('uq_endpoints_channel_recipient'))
    )
    op.create_index('ix_endpoints_created_at_id', 'endpoints', ['created_at', 'id'], unique=False)
    op.create_table('deliveries',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('notification_id', sa.Text(), nullable=False),
    sa.Column('endpoint_id', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('round', sa.Integer(), server_default='0', nullable=False),
    sa.Column('detail', sa.Text(), nullable=True),
    sa.Column('due_at', INSTANT, nullable=True),
    sa.Column('tried_at', INSTANT, nullable=True),
    sa.Column('delivered_at', INSTANT, nullable=True),
    sa.Column('created_at', INSTANT, server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['notification_id'], ['notifications.id'], name=op.f('fk_deliveries_notification_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['endpoint_id'], ['endpoints.id'], name=op.f('fk_deliveries_endpoint_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_deliveries')),
    sa.UniqueConstraint('notification_id', 'endpoint_id', name=op.f('uq_deliveries_notification_id_endpoint_id'))
    )
    op.create_index('ix_deliveries_created_at_id', 'deliveries', ['created_at', 'id'], unique=False)
    op.create_index('ix_deliveries_pending', 'deliveries', ['endpoint_id'], unique=False, postgresql_where=sa.text("status = 'PENDING'"))
    op.create_index('ix_deliveries_due_at', 'deliveries', ['due_at'], unique=False, postgresql_where=sa.text('due_at IS NOT NULL'))
    op.create_index(op.f('ix_deliveries_endpoint_id'), 'deliveries', ['endpoint_id'], unique=False)


def downgrade() -> None:
    op.drop_table('deliveries')
    op.drop_table('endpoints')
    op.drop_table('notifications')
