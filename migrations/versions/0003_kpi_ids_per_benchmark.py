"""The ID of a KPI is unique inside its benchmark."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FOREIGN_KEY = "fk_kpi_history_kpi_id_kpi_revision"
NEW_FOREIGN_KEY = "fk_kpi_history_kpi_id_benchmark_id_kpi_revision"
NAME_INDEX = "ix_kpi_definitions_current_name_id"
NEW_NAME_INDEX = "ix_kpi_definitions_current_name_id_benchmark_id"
HISTORY_INDEX = "ix_kpi_history_benchmark_id_kpi_id_recorded_at_id"


def upgrade() -> None:
    op.drop_constraint(FOREIGN_KEY, "kpi_history", type_="foreignkey")
    op.drop_constraint("pk_kpi_definitions", "kpi_definitions", type_="primary")
    op.create_primary_key("pk_kpi_definitions", "kpi_definitions", ["id", "benchmark_id", "revision"])
    op.create_foreign_key(
        NEW_FOREIGN_KEY,
        "kpi_history",
        "kpi_definitions",
        ["kpi_id", "benchmark_id", "kpi_revision"],
        ["id", "benchmark_id", "revision"],
    )
    op.execute(f"DROP INDEX {NAME_INDEX}")
    op.execute(
        f"CREATE INDEX {NEW_NAME_INDEX} ON kpi_definitions (lower(name), id, benchmark_id)"
        " WHERE retired_at IS NULL"
    )
    op.create_index(HISTORY_INDEX, "kpi_history", ["benchmark_id", "kpi_id", "recorded_at", "id"])


def downgrade() -> None:
    # Fails while two benchmarks have a KPI with the same ID: one of them would lose its history.
    op.drop_index(HISTORY_INDEX, "kpi_history")
    op.execute(f"DROP INDEX {NEW_NAME_INDEX}")
    op.execute(
        f"CREATE INDEX {NAME_INDEX} ON kpi_definitions (lower(name), id) WHERE retired_at IS NULL"
    )
    op.drop_constraint(NEW_FOREIGN_KEY, "kpi_history", type_="foreignkey")
    op.drop_constraint("pk_kpi_definitions", "kpi_definitions", type_="primary")
    op.create_primary_key("pk_kpi_definitions", "kpi_definitions", ["id", "revision"])
    op.create_foreign_key(
        FOREIGN_KEY, "kpi_history", "kpi_definitions", ["kpi_id", "kpi_revision"], ["id", "revision"]
    )
