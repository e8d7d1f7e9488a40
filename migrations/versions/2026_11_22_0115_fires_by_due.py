"""what became of the instants of a day"""

from alembic import op

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index('ix_schedule_fires_due_at', 'schedule_fires', ['due_at'])


def downgrade() -> None:
    op.drop_index('ix_schedule_fires_due_at', table_name='schedule_fires')
