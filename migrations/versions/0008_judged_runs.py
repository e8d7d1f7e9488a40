"""Every run is judged: the data of a run, its place, and what each rule made of it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SERIES = ["benchmark_id", "agent_id"]


def upgrade() -> None:
    op.add_column("benchmark_runs", sa.Column("data_digest", sa.Text(), nullable=True))
    op.add_column("benchmark_runs", sa.Column("same_data_as", sa.Text(), nullable=True))
    for name in ("has_new_data", "is_late"):
        op.add_column(
            "benchmark_runs",
            sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False),
        )
    # Runs over a source run that was read before were not new; without digests nothing else is known of them.
    op.execute(
        "UPDATE benchmark_runs SET has_new_data = true WHERE status = 'COMPLETED'"
        " AND validity = 'VALID' AND rescore_of IS NULL AND coalesce(source_seq, seq) = seq"
    )
    op.drop_index("ix_benchmark_runs_completed_news", "benchmark_runs")
    op.create_index(
        "ix_benchmark_runs_new_data",
        "benchmark_runs",
        [*SERIES, "completed_at"],
        postgresql_where=sa.text("has_new_data"),
    )
    op.create_index("ix_benchmark_runs_data_digest", "benchmark_runs", [*SERIES, "data_digest", "seq"])
    op.create_index(
        "ix_benchmark_runs_same_data_as",
        "benchmark_runs",
        ["same_data_as"],
        postgresql_where=sa.text("same_data_as IS NOT NULL"),
    )
    op.create_table(
        "run_evaluations",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("rule_id", sa.Text(), nullable=False),
        sa.Column("rule_name", sa.Text(), nullable=False),
        sa.Column("rule_revision", sa.BigInteger(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("same_data_as", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_seq"], ["benchmark_runs.seq"], name="fk_run_evaluations_run_seq", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_seq", "rule_id", name="pk_run_evaluations"),
    )
    op.add_column(
        "alert_states",
        sa.Column("is_open", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("alert_states", sa.Column("fingerprint", sa.Text(), nullable=True))
    op.add_column(
        "alert_states",
        sa.Column(
            "excluded",
            postgresql.JSONB(none_as_null=True),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
        ),
    )
    op.execute(
        "UPDATE alert_states SET is_open = true, fingerprint = incident.fingerprint"
        " FROM incidents AS incident WHERE incident.id = alert_states.incident_id"
    )
    op.execute(
        """
        UPDATE alert_states SET excluded = spans.excluded FROM (
            SELECT rule_id, agent_id, jsonb_agg(
                CASE WHEN resolution = 'ACCEPTED' THEN jsonb_build_array(0, started_seq)
                     ELSE jsonb_build_array(started_seq, end_seq) END ORDER BY started_seq) AS excluded
            FROM incidents
            WHERE end_seq IS NOT NULL AND verdict IS DISTINCT FROM 'noise' AND rule_id IS NOT NULL
              AND condition IN ('PERCENTAGE_DROP', 'PERCENTAGE_RISE', 'ANOMALY_DETECTED', 'REGRESSED')
            GROUP BY rule_id, agent_id
        ) AS spans WHERE (spans.rule_id, spans.agent_id) = (alert_states.rule_id, alert_states.agent_id)
        """
    )
    op.drop_index("ix_incidents_excluded", "incidents")


def downgrade() -> None:
    op.create_index(
        "ix_incidents_excluded",
        "incidents",
        [*SERIES, sa.text("COALESCE(kpi, metric)"), "end_seq"],
        postgresql_where=sa.text(
            "condition IN ('PERCENTAGE_DROP', 'PERCENTAGE_RISE', 'ANOMALY_DETECTED', 'REGRESSED')"
            " AND verdict IS DISTINCT FROM 'noise'"
        ),
    )
    op.drop_column("alert_states", "excluded")
    op.drop_column("alert_states", "fingerprint")
    op.drop_column("alert_states", "is_open")
    op.drop_table("run_evaluations")
    op.drop_index("ix_benchmark_runs_new_data", "benchmark_runs")
    op.create_index(
        "ix_benchmark_runs_completed_news",
        "benchmark_runs",
        [*SERIES, "completed_at"],
        postgresql_where=sa.text("status = 'COMPLETED' AND rescore_of IS NULL"),
    )
    for name in ("same_data_as", "data_digest"):
        op.drop_index(f"ix_benchmark_runs_{name}", "benchmark_runs")
    for name in ("is_late", "has_new_data", "same_data_as", "data_digest"):
        op.drop_column("benchmark_runs", name)
