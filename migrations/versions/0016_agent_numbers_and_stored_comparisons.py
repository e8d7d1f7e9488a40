"""A number for each agent, which gives it its color, and comparisons that are stored at first sight."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "agents", sa.Column("color_number", sa.BigInteger(), sa.Identity(always=True), nullable=False)
    )
    op.create_unique_constraint("uq_agents_color_number", "agents", ["color_number"])


def downgrade() -> None:
    op.drop_column("agents", "color_number")
