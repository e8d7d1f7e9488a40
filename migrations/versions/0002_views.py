"""Views for dashboards and SQL clients: no texts of traces, no addresses, no secrets."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# A database role that may read these views needs no right on any table.
VIEWS = {
    "metric_snapshots": """
        SELECT run.id AS run_id, run.benchmark_id, run.agent_id, trace.trace_id, trace.item_id,
               trace.trial, metric.key AS metric, result.values[metric.ordinal] AS value,
               CASE WHEN result.values[metric.ordinal] IS NULL
                    THEN result.notes -> metric.key END AS missing,
               result.notes -> metric.key ->> 'reason' AS reason
        FROM trace_results AS result
        JOIN benchmark_runs AS run ON run.seq = result.run_seq
        JOIN collected_traces AS trace
          ON trace.collection_id = run.collection_id AND trace.position = result.position
        CROSS JOIN LATERAL unnest(run.metric_keys) WITH ORDINALITY AS metric (key, ordinal)""",
    "run_history": """
        SELECT id AS run_id, benchmark_id, agent_id, run_name, status, triggered_by, validity,
               coverage, error_share, traces_total, verdict ->> 'verdict' AS verdict, error_code,
               created_at, started_at, completed_at,
               extract(epoch FROM completed_at - started_at)::float8 AS seconds
        FROM benchmark_runs""",
    "kpi_values": """
        SELECT run_id, benchmark_id, agent_id, kpi_id, name AS kpi, value, undefined_reason, unit,
               direction, within_thresholds, validity, interval_low, interval_high,
               verdict ->> 'verdict' AS verdict, recorded_at
        FROM kpi_history""",
    "metric_values": """
        SELECT run.id AS run_id, run.benchmark_id, run.agent_id, run.validity, run.completed_at,
               metric.metric, metric.n, metric.mean, metric.std, metric.p50, metric.p95,
               metric.coverage, metric.interval_low, metric.interval_high
        FROM run_metrics AS metric JOIN benchmark_runs AS run ON run.seq = metric.run_seq""",
    "alert_history": """
        SELECT id AS alert_id, state, rule_id AS alert_config_id, name, severity, benchmark_id,
               agent_id, run_id, incident_id, value, baseline, explanation,
               silence_id IS NOT NULL AS silenced, verdict, created_at
        FROM alert_events""",
    "rule_states": """
        SELECT rule.id AS alert_config_id, rule.name, rule.severity, rule.benchmark_id,
               state.agent_id, state.state, state.value, state.baseline,
               state.explanation, state.fired_at, state.evaluated_at
        FROM alert_states AS state JOIN alert_rules AS rule ON rule.id = state.rule_id
        WHERE state.run_seq > 0""",
    "delivery_history": """
        SELECT delivery.id AS delivery_id, delivery.notification_id, endpoint.channel,
               delivery.status, delivery.attempts, delivery.created_at, delivery.delivered_at
        FROM deliveries AS delivery JOIN endpoints AS endpoint ON endpoint.id = delivery.endpoint_id""",
}


def upgrade() -> None:
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
