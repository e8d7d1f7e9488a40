"""light schedules"""

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None

FIRED_RUN = 'ix_schedule_fires_run_id'
OWNERS = ('benchmark_id', 'agent_id')


def upgrade() -> None:
    op.drop_constraint('fk_schedule_fires_schedule_id', 'schedule_fires', type_='foreignkey')
    op.drop_index(FIRED_RUN, 'schedule_fires')
    op.create_index(
        FIRED_RUN, 'schedule_fires', ['run_id'], postgresql_where=sa.text('run_id IS NOT NULL')
    )
    for column in OWNERS:
        op.drop_index(f'ix_schedule_configs_{column}', 'schedule_configs')


def downgrade() -> None:
    for column in OWNERS:
        op.create_index(f'ix_schedule_configs_{column}', 'schedule_configs', [column])
    op.drop_index(FIRED_RUN, 'schedule_fires')
    op.create_index(FIRED_RUN, 'schedule_fires', ['run_id'])
    op.execute(
        'DELETE FROM schedule_fires WHERE schedule_id NOT IN (SELECT id FROM schedule_configs)'
    )
    op.create_foreign_key(
        'fk_schedule_fires_schedule_id', 'schedule_fires', 'schedule_configs',
        ['schedule_id'], ['id'], ondelete='CASCADE',
    )
