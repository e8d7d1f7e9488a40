"""who changed what, and how many requests a key has sent"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None

# Whoever owns the table may still drop the trigger; a role that only uses it may not.
REFUSE = """
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is only added to; % is refused', TG_OP
    USING ERRCODE = 'insufficient_privilege';
END $$
"""
TRIGGER = """
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only()
"""


def upgrade() -> None:
    op.create_table('audit_log',
    sa.Column('seq', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('actor_type', sa.Text(), nullable=False),
    sa.Column('actor_id', sa.Text(), nullable=False),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('resource_type', sa.Text(), nullable=False),
    sa.Column('resource_id', sa.Text(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('fields', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('method', sa.Text(), nullable=True),
    sa.Column('path', sa.Text(), nullable=True),
    sa.Column('request_id', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('seq', name=op.f('pk_audit_log'))
    )
    op.create_index('ix_audit_log_actor_id_seq', 'audit_log', ['actor_id', 'seq'])
    op.create_index('ix_audit_log_resource_type_resource_id_seq', 'audit_log', ['resource_type', 'resource_id', 'seq'])
    op.execute(REFUSE)
    op.execute(TRIGGER)
    op.create_table('rate_windows',
    sa.Column('api_key_id', sa.Text(), nullable=False),
    sa.Column('minute', sa.BigInteger(), nullable=False),
    sa.Column('used', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('api_key_id', 'minute', name=op.f('pk_rate_windows')),
    prefixes=['UNLOGGED']
    )


def downgrade() -> None:
    op.drop_table('rate_windows')
    op.drop_index('ix_audit_log_resource_type_resource_id_seq', table_name='audit_log')
    op.drop_index('ix_audit_log_actor_id_seq', table_name='audit_log')
    op.drop_table('audit_log')
    op.execute('DROP FUNCTION audit_log_is_append_only()')
