"""What benchmarks remove from texts before they are stored, and texts that are kept for a time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

WITH_RULES = "ix_benchmarks_redact"


def upgrade() -> None:
    rules = postgresql.JSONB(none_as_null=True)
    op.add_column("benchmarks", sa.Column("redact", rules))
    op.add_column("benchmarks", sa.Column("keep_text_days", sa.BigInteger()))
    has_rules = sa.text("redact IS NOT NULL AND NOT archived")
    op.create_index(WITH_RULES, "benchmarks", ["id"], postgresql_where=has_rules)
    op.add_column("collections", sa.Column("redaction", rules))
    for table in ("collections", "benchmark_runs"):
        count = sa.Column("redacted_texts", sa.BigInteger(), server_default="0", nullable=False)
        op.add_column(table, count)
        op.add_column(table, sa.Column("texts_removed_at", sa.TIMESTAMP(timezone=True)))


def downgrade() -> None:
    for table in ("benchmark_runs", "collections"):
        op.drop_column(table, "texts_removed_at")
        op.drop_column(table, "redacted_texts")
    op.drop_column("collections", "redaction")
    op.drop_index(WITH_RULES, "benchmarks")
    op.drop_column("benchmarks", "keep_text_days")
    op.drop_column("benchmarks", "redact")
