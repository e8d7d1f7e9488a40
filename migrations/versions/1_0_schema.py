"""The schema of version 1.0: tables, indexes, views, and the tables of the job engine."""

from pathlib import Path

from alembic import op

revision = "1.0"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    database = op.get_bind().connection.driver_connection
    for name in ("1_0_jobs.sql", "1_0_schema.sql"):
        database.execute(Path(__file__).with_name(name).read_text("utf-8"))
