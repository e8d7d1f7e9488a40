"""Datasets with versions of their items; which version a run tests."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

TIME = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("item_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.Column("updated_at", TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_index("ix_datasets_created_at_id", "datasets", ["created_at", "id"])
    op.create_table(
        "dataset_versions",
        sa.Column(
            "dataset_id",
            sa.Text(),
            sa.ForeignKey("datasets.id", ondelete="RESTRICT"),
            primary_key=True,
        ),
        sa.Column("version", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("item_count", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("retired", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
    )
    op.create_table(
        "dataset_items",
        sa.Column(
            "dataset_id",
            sa.Text(),
            sa.ForeignKey("datasets.id", ondelete="RESTRICT"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("is_retired", sa.Boolean(), nullable=False),
        sa.Column("question", sa.Text()),
        sa.Column("input", sa.Text()),
        sa.Column("expected_output", sa.Text()),
        sa.Column("expected_any", ARRAY(sa.Text()), nullable=False),
        sa.Column("expected_all", ARRAY(sa.Text()), nullable=False),
        sa.Column("tags", ARRAY(sa.Text()), nullable=False),
        sa.Column("attributes", JSONB(), nullable=False),
        sa.Column("origin", JSONB()),
        sa.UniqueConstraint("dataset_id", "item_id", "version"),
    )
    op.add_column(
        "collections",
        sa.Column("retired_traces", sa.BigInteger(), server_default="0", nullable=False),
    )
    for column in (sa.Column("dataset_name", sa.Text()), sa.Column("dataset_version", sa.BigInteger())):
        op.add_column("benchmark_runs", column)


def downgrade() -> None:
    for name in ("dataset_version", "dataset_name"):
        op.drop_column("benchmark_runs", name)
    op.drop_column("collections", "retired_traces")
    for table in ("dataset_items", "dataset_versions", "datasets"):
        op.drop_table(table)
