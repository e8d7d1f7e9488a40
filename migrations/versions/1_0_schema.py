"""The schema of version 1.0: tables, indexes, views, and the tables of the job engine."""

from pathlib import Path

from alembic import op
from procrastinate.schema import SchemaManager

revision = "1.0"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    database = op.get_bind().connection.driver_connection
    # Of the version that pyproject.toml allows; a test holds that it stays the same.
    database.execute(SchemaManager.get_schema())
    database.execute(Path(__file__).with_suffix(".sql").read_text("utf-8"))
