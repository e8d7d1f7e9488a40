"""An index of traces by item: one item over all nights."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_collected_traces_collection_id_item_id", "collected_traces", ["collection_id", "item_id"]
    )


def downgrade() -> None:
    op.drop_index("ix_collected_traces_collection_id_item_id", "collected_traces")
