"""Due times that do not exist: found by the zone of their schedules, and counted on the page Morning."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MISSED = "'MISSED', 'OUTSIDE_CATCHUP_WINDOW', 'TOO_MANY_MISSED'"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX ix_schedule_configs_timezone_cron_expression"
        " ON schedule_configs (timezone, cron_expression) WHERE next_run_at IS NOT NULL"
    )
    op.execute("DROP INDEX ix_schedule_fires_missed")
    op.execute(
        "CREATE INDEX ix_schedule_fires_missed ON schedule_fires (due_at, schedule_id)"
        f" WHERE reason IN ({MISSED}, 'NONEXISTENT_TIME')"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_schedule_fires_missed")
    op.execute(
        "CREATE INDEX ix_schedule_fires_missed ON schedule_fires (due_at, schedule_id)"
        f" WHERE reason IN ({MISSED})"
    )
    op.execute("DROP INDEX ix_schedule_configs_timezone_cron_expression")
