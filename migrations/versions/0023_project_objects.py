"""Which objects belong to which project file."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project_objects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("wanted", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("shown", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_project_objects"),
        sa.UniqueConstraint("file", "path", name="uq_project_objects_file_path"),
        sa.UniqueConstraint("kind", "object_id", name="uq_project_objects_kind_object_id"),
    )
    op.create_index("ix_project_objects_created_at_id", "project_objects", ["created_at", "id"])


def downgrade() -> None:
    op.drop_table("project_objects")
