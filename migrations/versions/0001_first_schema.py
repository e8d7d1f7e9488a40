"""The first schema: every table, its indexes, and the tables of the job engine."""

import sqlalchemy as sa
from alembic import op
from procrastinate.schema import SchemaManager
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

JSON = postgresql.JSONB(none_as_null=True)
TIMESTAMP = sa.TIMESTAMP(timezone=True)

# The orders of the list of runs.
VERDICT_KEY = (
    "COALESCE(NULLIF(validity, 'VALID'::text), verdict ->> 'verdict'::text, ''::text)"
)
COMPLETED_KEY = "COALESCE(completed_at, '1970-01-01 00:00:00+00'::timestamp with time zone)"
BENCHMARK_NAME_KEY = (
    "\"left\"(lower(COALESCE(NULLIF(TRIM(BOTH FROM jsonb_extract_path_text("
    "metadata, VARIADIC ARRAY['name'::text])), ''::text), id)), 200)"
)
TRACES_KEY = "COALESCE(traces_total, '0'::bigint)"

# The owner of the table can drop the trigger; a role that only uses the table cannot.
CREATE_APPEND_ONLY_FUNCTION = """
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.at < now() - interval '400 days' THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'the audit log is append-only: % is refused', TG_OP
    USING ERRCODE = 'insufficient_privilege';
END $$
"""
CREATE_APPEND_ONLY_TRIGGERS = """
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();
CREATE TRIGGER audit_log_keeps_entries BEFORE DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only()
"""
# With the rights of the owner: the role of the service need not be able to delete from the log.
CREATE_AUDIT_RETENTION = """
CREATE FUNCTION delete_old_audit_entries(cutoff timestamptz, batch_rows integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  WITH deleted AS (
    DELETE FROM audit_log WHERE seq IN (
      SELECT seq FROM audit_log WHERE at < cutoff ORDER BY at, seq LIMIT batch_rows
    ) RETURNING seq
  )
  SELECT count(*) FROM deleted
$$
"""

# procrastinate has no migration that removes its schema.
DROP_JOB_ENGINE = """
    DO $$ DECLARE function record; BEGIN
        DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs,
                   procrastinate_workers CASCADE;
        FOR function IN SELECT oid::regprocedure AS name FROM pg_proc
                        WHERE proname LIKE 'procrastinate\\_%' LOOP
            EXECUTE 'DROP FUNCTION ' || function.name || ' CASCADE';
        END LOOP;
        DROP TYPE procrastinate_job_to_defer_v1, procrastinate_job_status,
                  procrastinate_job_event_type CASCADE;
    END $$
"""


def upgrade() -> None:
    # Later versions of the job engine bring migrations of their own; one per procrastinate release.
    op.get_bind().connection.driver_connection.execute(SchemaManager.get_schema())
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("langfuse_project_name", sa.Text(), nullable=True),
        sa.Column("langfuse_url", sa.Text(), nullable=True),
        sa.Column("langfuse_public_key", sa.Text(), nullable=True),
        sa.Column("langfuse_secret_key", sa.Text(), nullable=True),
        sa.Column("otel_service_name", sa.Text(), nullable=True),
        sa.Column("run_url", sa.Text(), nullable=True),
        sa.Column("run_address", sa.Text(), nullable=True),
        sa.Column("credentials_refused_at", TIMESTAMP, nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
    )
    op.create_index("ix_agents_archived_created_at_id", "agents", ["archived", "created_at", "id"])
    op.create_index("ix_agents_name_id", "agents", [sa.text("lower(name)"), "id"])
    op.create_table(
        "alert_silences",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("matchers", JSON, nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("starts_at", TIMESTAMP, nullable=False),
        sa.Column("ends_at", TIMESTAMP, nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_silences"),
    )
    op.create_index("ix_alert_silences_created_at_id", "alert_silences", ["created_at", "id"])
    op.create_index("ix_alert_silences_ends_at", "alert_silences", ["ends_at"])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
        sa.Column("last_used_at", TIMESTAMP, nullable=True),
        sa.Column("revoked_at", TIMESTAMP, nullable=True),
        sa.CheckConstraint("role IN ('read', 'run', 'admin')", name=op.f("ck_api_keys_role")),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_created_at_id", "api_keys", ["created_at", "id"])
    op.create_index(
        "ix_api_keys_active_role_expires_at",
        "api_keys",
        ["role", "expires_at"],
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_index(
        "ix_api_keys_active_admins",
        "api_keys",
        ["name"],
        postgresql_where=sa.text("role = 'admin' AND revoked_at IS NULL"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"],
            ["api_keys.id"],
            name="fk_browser_sessions_api_key_id_api_keys",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_browser_sessions"),
    )
    op.create_index("ix_browser_sessions_api_key_id", "browser_sessions", ["api_key_id"])
    op.create_index("ix_browser_sessions_expires_at", "browser_sessions", ["expires_at"])
    op.create_table(
        "login_links",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"],
            ["api_keys.id"],
            name="fk_login_links_api_key_id_api_keys",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_login_links"),
    )
    op.create_index("ix_login_links_api_key_id", "login_links", ["api_key_id"])
    op.create_index("ix_login_links_expires_at", "login_links", ["expires_at"])
    op.create_table(
        "audit_log",
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("actor_type", sa.Text(), nullable=False),
        sa.Column("actor_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("resource_type", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("fields", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_at_seq", "audit_log", ["at", "seq"])
    op.create_index("ix_audit_log_actor_id_at_seq", "audit_log", ["actor_id", "at", "seq"])
    op.create_index("ix_audit_log_action_at_seq", "audit_log", ["action", "at", "seq"])
    op.create_index("ix_audit_log_resource_type_at_seq", "audit_log", ["resource_type", "at", "seq"])
    op.create_index("ix_audit_log_resource_id_at_seq", "audit_log", ["resource_id", "at", "seq"])
    op.create_index("ix_audit_log_request_id", "audit_log", ["request_id"])
    op.create_index(
        "ix_audit_log_refused", "audit_log", ["at", "seq"], postgresql_where=sa.text("outcome = 'refused'")
    )
    op.create_table(
        "benchmarks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("dataset_ref", sa.Text(), nullable=True),
        sa.Column("run_name", sa.Text(), nullable=True),
        sa.Column("task_def", sa.Text(), nullable=True),
        sa.Column("features", JSON, nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("min_coverage", sa.Double(), nullable=False),
        sa.Column("max_error_share", sa.Double(), nullable=False),
        sa.Column("keep_days", sa.BigInteger(), nullable=True),
        sa.Column("triggers", JSON, server_default="{}", nullable=False),
        sa.Column("late_scores", sa.Boolean(), nullable=False),
        sa.Column("expect_items", JSON, nullable=True),
        sa.Column("settle_for", sa.Text(), nullable=True),
        sa.Column("input_path", sa.Text(), nullable=True),
        sa.Column("output_path", sa.Text(), nullable=True),
        sa.Column("expected_path", sa.Text(), nullable=True),
        sa.Column("write_back", JSON, nullable=False),
        sa.Column("harness", JSON, nullable=True),
        sa.Column("production", JSON, nullable=True),
        sa.Column("cluster_field", sa.Text(), nullable=True),
        sa.Column("baseline", JSON, server_default="{}", nullable=False),
        sa.Column("judge_calibration", JSON, nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_benchmarks"),
    )
    op.create_index("ix_benchmarks_archived_created_at_id", "benchmarks", ["archived", "created_at", "id"])
    op.create_index("ix_benchmarks_name_id", "benchmarks", [sa.text(BENCHMARK_NAME_KEY), "id"])
    op.create_index(
        "ix_benchmarks_langfuse_rules",
        "benchmarks",
        ["id"],
        postgresql_where=sa.text("NOT archived AND triggers -> 'langfuse' -> 0 IS NOT NULL"),
    )
    op.create_index("ix_benchmarks_dataset_ref", "benchmarks", ["dataset_ref"])
    op.create_table(
        "collections",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("query", JSON, nullable=False),
        sa.Column("cursor", sa.Text(), nullable=True),
        sa.Column("trace_count", sa.BigInteger(), nullable=False),
        sa.Column("expected_count", sa.BigInteger(), nullable=True),
        sa.Column("dataset_items", sa.BigInteger(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("completed_at", TIMESTAMP, nullable=True),
        sa.Column("as_of", TIMESTAMP, nullable=True),
        sa.Column("source_run_id", sa.Text(), nullable=True),
        sa.Column("source_run_at", TIMESTAMP, nullable=True),
        sa.Column("source_warning", sa.Text(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column("revision", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
    )
    op.create_index("ix_collections_digest", "collections", ["digest"])
    op.create_index("ix_collections_revision", "collections", ["revision"])
    op.create_table(
        "endpoints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("recipient_hash", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("previous_secret", sa.Text(), nullable=True),
        sa.Column("previous_expires_at", TIMESTAMP, nullable=True),
        sa.Column("daily_summary", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("slow_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("paused_until", TIMESTAMP, nullable=True),
        sa.Column("first_failed_at", TIMESTAMP, nullable=True),
        sa.Column("delivered_at", TIMESTAMP, nullable=True),
        sa.Column("disabled_at", TIMESTAMP, nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_endpoints"),
        sa.UniqueConstraint("channel", "recipient_hash", name="uq_endpoints_channel_recipient_hash"),
    )
    op.create_index("ix_endpoints_created_at_id", "endpoints", ["created_at", "id"])
    op.create_index("ix_endpoints_disabled", "endpoints", ["id"], postgresql_where=sa.text("disabled_at IS NOT NULL"))
    op.create_index("ix_endpoints_failing", "endpoints", ["id"], postgresql_where=sa.text("first_failed_at IS NOT NULL"))
    op.create_index("ix_endpoints_daily_summary", "endpoints", ["id"], postgresql_where=sa.text("daily_summary"))
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_table(
        "llm_cache",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_llm_cache"),
    )
    op.create_index("ix_llm_cache_created_at", "llm_cache", ["created_at"])
    op.create_table(
        "local_datasets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("run_name", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("collection_id", sa.BigInteger(), nullable=False),
        sa.Column("trace_count", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("ignored_keys", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name="fk_local_datasets_agent_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name="fk_local_datasets_collection_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_local_datasets"),
        sa.UniqueConstraint(
            "name",
            "run_name",
            "agent_id",
            name="uq_local_datasets_name_run_name_agent_id",
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index(
        "ix_local_datasets_agent_id_created_at_id", "local_datasets", ["agent_id", "created_at", "id"]
    )
    op.create_index("ix_local_datasets_collection_id", "local_datasets", ["collection_id"])
    op.create_index("ix_local_datasets_created_at_id", "local_datasets", ["created_at", "id"])
    op.create_index("ix_local_datasets_name_created_at_id", "local_datasets", ["name", "created_at", "id"])
    op.create_table(
        "notifications",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("message", JSON, nullable=False),
        sa.Column("dedup_key", sa.Text(), nullable=True),
        sa.Column("in_inbox", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("read_at", TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
        sa.UniqueConstraint("dedup_key", name="uq_notifications_dedup_key"),
    )
    op.create_index("ix_notifications_created_at_id", "notifications", ["created_at", "id"])
    op.create_index(
        "ix_notifications_unread",
        "notifications",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("read_at IS NULL AND in_inbox"),
    )
    op.create_index(
        "ix_notifications_read",
        "notifications",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("read_at IS NOT NULL AND in_inbox"),
    )
    op.create_table(
        "purge_marks",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("marked_at", TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("kind", name="pk_purge_marks"),
    )
    op.create_table(
        "rate_windows",
        sa.Column("api_key_id", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("request_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("api_key_id", "minute", name="pk_rate_windows"),
        prefixes=["UNLOGGED"],
    )
    op.create_table(
        "otel_traces",
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("occurred_at", TIMESTAMP, nullable=False),
        sa.Column("has_root", sa.Boolean(), nullable=False),
        sa.Column("first_received_at", TIMESTAMP, nullable=False),
        sa.Column("last_received_at", TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("trace_id", name="pk_otel_traces"),
    )
    op.create_index("ix_otel_traces_occurred_at_trace_id", "otel_traces", ["occurred_at", "trace_id"])
    op.create_index("ix_otel_traces_last_received_at", "otel_traces", ["last_received_at"])
    op.create_table(
        "otel_spans",
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=True),
        sa.Column("run_name", sa.Text(), nullable=True),
        sa.Column("item_id", sa.Text(), nullable=True),
        sa.Column("facts", JSON, nullable=True),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "span_id", name="pk_otel_spans"),
    )
    op.create_index(
        "ix_otel_spans_dataset_run_name_trace_id",
        "otel_spans",
        ["dataset", "run_name", "trace_id"],
        postgresql_where=sa.text("item_id IS NOT NULL"),
    )
    op.create_table(
        "circuit_breakers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("open_until", TIMESTAMP, nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_circuit_breakers"),
    )
    op.create_table(
        "worker_processes",
        sa.Column("worker_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name="pk_worker_processes"),
    )
    op.create_table(
        "trace_results",
        sa.Column("run_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("values", postgresql.ARRAY(postgresql.DOUBLE_PRECISION()), nullable=False),
        sa.Column("notes", JSON, nullable=True),
        sa.PrimaryKeyConstraint("run_seq", "position", name="pk_trace_results"),
    )
    op.create_table(
        "trigger_events",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("dedup_key", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("secret_id", sa.Text(), nullable=True),
        sa.Column("details", JSON, nullable=False),
        sa.Column("occurrences", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("benchmark_ids", JSON, nullable=False),
        sa.Column("run_ids", JSON, nullable=False),
        sa.Column("received_at", TIMESTAMP, nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=True),
        sa.Column("settled_at", TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trigger_events"),
        sa.UniqueConstraint("dedup_key", name="uq_trigger_events_dedup_key"),
    )
    op.create_index(
        "ix_trigger_events_due_at",
        "trigger_events",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index("ix_trigger_events_received_at_id", "trigger_events", ["received_at", "id"])
    op.create_index("ix_trigger_events_status_received_at_id", "trigger_events", ["status", "received_at", "id"])
    op.create_index("ix_trigger_events_type_received_at_id", "trigger_events", ["type", "received_at", "id"])
    op.create_table(
        "alert_rules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("metric", sa.Text(), nullable=True),
        sa.Column("kpi", sa.Text(), nullable=True),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=True),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("channels", JSON, nullable=False),
        sa.Column("endpoints", JSON, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("cooldown_minutes", sa.Integer(), nullable=False),
        sa.Column("for_runs", sa.Integer(), nullable=False),
        sa.Column("keep_firing_for_runs", sa.Integer(), nullable=False),
        sa.Column("no_data", sa.Text(), nullable=False),
        sa.Column("baseline_runs", sa.Integer(), nullable=False),
        sa.Column("minimum_effect", sa.Double(), nullable=True),
        sa.Column("false_pages_per_month", sa.Double(), nullable=True),
        sa.Column("max_hours_without_run", sa.Integer(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_alert_rules_agent_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_alert_rules_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rules"),
    )
    op.create_index("ix_alert_rules_agent_id_created_at_id", "alert_rules", ["agent_id", "created_at", "id"])
    op.create_index("ix_alert_rules_benchmark_id_created_at_id", "alert_rules", ["benchmark_id", "created_at", "id"])
    op.create_index(
        "ix_alert_rules_disabled",
        "alert_rules",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("enabled IS false"),
    )
    op.create_index("ix_alert_rules_created_at_id", "alert_rules", ["created_at", "id"])
    op.create_index("ix_alert_rules_benchmark_id_agent_id", "alert_rules", ["benchmark_id", "agent_id"])
    op.create_index(
        "ix_alert_rules_benchmark_id_kpi_condition", "alert_rules", ["benchmark_id", "kpi", "condition"]
    )
    op.create_index("ix_alert_rules_name_id", "alert_rules", [sa.text("lower(name)"), "id"])
    op.create_index(
        "ix_alert_rules_endpoints",
        "alert_rules",
        ["endpoints"],
        postgresql_using="gin",
        postgresql_ops={"endpoints": "jsonb_path_ops"},
    )
    op.create_index(
        "ix_alert_rules_max_hours",
        "alert_rules",
        ["id"],
        postgresql_where=sa.text("enabled AND max_hours_without_run IS NOT NULL"),
    )
    op.create_table(
        "benchmark_agents",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_benchmark_agents_agent_id", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_benchmark_agents_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("benchmark_id", "agent_id", name="pk_benchmark_agents"),
    )
    op.create_index("ix_benchmark_agents_agent_id", "benchmark_agents", ["agent_id"])
    op.create_table(
        "benchmark_revisions",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("changes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("revision_note", sa.Text(), nullable=True),
        sa.Column("changed_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_benchmark_revisions_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("benchmark_id", "revision", name="pk_benchmark_revisions"),
    )
    op.create_table(
        "benchmark_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("triggered_by", sa.Text(), nullable=False),
        sa.Column("trigger_event_id", sa.Text(), nullable=True),
        sa.Column("schedule_id", sa.Text(), nullable=True),
        sa.Column("run_name", sa.Text(), nullable=True),
        sa.Column("trace_window", JSON, nullable=True),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("rescore_of", sa.Text(), nullable=True),
        sa.Column("collection_id", sa.BigInteger(), nullable=True),
        sa.Column("source_key", sa.Text(), nullable=True),
        sa.Column("source_seq", sa.BigInteger(), nullable=True),
        sa.Column("source_run_id", sa.Text(), nullable=True),
        sa.Column("source_run_at", TIMESTAMP, nullable=True),
        sa.Column("source_warning", sa.Text(), nullable=True),
        sa.Column("same_source_as", sa.Text(), nullable=True),
        sa.Column("plan", JSON, nullable=True),
        sa.Column("metric_keys", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("shards_total", sa.Integer(), nullable=True),
        sa.Column("shards_done", sa.Integer(), nullable=False),
        sa.Column("traces_total", sa.BigInteger(), nullable=True),
        sa.Column("traces_collected", sa.BigInteger(), nullable=False),
        sa.Column("traces_processed", sa.BigInteger(), nullable=False),
        sa.Column("metrics_computed", sa.BigInteger(), nullable=False),
        sa.Column("metrics_reused", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("validity", sa.Text(), nullable=True),
        sa.Column("validity_reasons", JSON, nullable=True),
        sa.Column("coverage", sa.Double(), nullable=True),
        sa.Column("error_share", sa.Double(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("verdict", JSON, nullable=True),
        sa.Column("baseline_hold", sa.Text(), nullable=True),
        sa.Column("accepted_at", TIMESTAMP, nullable=True),
        sa.Column("accepted_by", sa.Text(), nullable=True),
        sa.Column("acceptance_note", sa.Text(), nullable=True),
        sa.Column("write_back", JSON, nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", TIMESTAMP, nullable=True),
        sa.Column("completed_at", TIMESTAMP, nullable=True),
        sa.Column("purged_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_benchmark_runs_agent_id", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_benchmark_runs_benchmark_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name="fk_benchmark_runs_collection_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["rescore_of"], ["benchmark_runs.id"], name="fk_benchmark_runs_rescore_of", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["retry_of"], ["benchmark_runs.id"], name="fk_benchmark_runs_retry_of", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_benchmark_runs"),
        sa.UniqueConstraint("seq", name="uq_benchmark_runs_seq"),
    )
    op.create_index("ix_benchmark_runs_agent_id_seq", "benchmark_runs", ["agent_id", "seq"])
    op.create_index(
        "ix_benchmark_runs_benchmark_id_agent_id_seq", "benchmark_runs", ["benchmark_id", "agent_id", "seq"]
    )
    op.create_index(
        "ix_benchmark_runs_completed_news",
        "benchmark_runs",
        ["benchmark_id", "agent_id", "completed_at"],
        postgresql_where=sa.text("status = 'COMPLETED' AND rescore_of IS NULL"),
    )
    op.create_index(
        "ix_benchmark_runs_schedule_id_seq",
        "benchmark_runs",
        ["schedule_id", "seq"],
        postgresql_where=sa.text("schedule_id IS NOT NULL"),
    )
    op.create_index("ix_benchmark_runs_benchmark_id_seq", "benchmark_runs", ["benchmark_id", "seq"])
    op.create_index("ix_benchmark_runs_collection_id", "benchmark_runs", ["collection_id"])
    op.create_index(
        "ix_benchmark_runs_created_at_seq",
        "benchmark_runs",
        ["created_at", "seq"],
    )
    op.create_index(
        "ix_benchmark_runs_status_created_at",
        "benchmark_runs",
        ["status", "created_at"],
        postgresql_include=["validity"],
    )
    op.create_index(
        "ix_benchmark_runs_same_source_as", "benchmark_runs", ["same_source_as"], postgresql_where=sa.text("same_source_as IS NOT NULL")
    )
    op.create_index(
        "ix_benchmark_runs_rescore_of", "benchmark_runs", ["rescore_of"], postgresql_where=sa.text("rescore_of IS NOT NULL")
    )
    op.create_index(
        "ix_benchmark_runs_unpurged",
        "benchmark_runs",
        ["benchmark_id", "completed_at"],
        postgresql_where=sa.text("purged_at IS NULL"),
    )
    op.create_index(
        "ix_benchmark_runs_restorable",
        "benchmark_runs",
        ["seq"],
        postgresql_where=sa.text("purged_at IS NOT NULL AND collection_id IS NOT NULL"),
    )
    op.create_index(
        "ix_benchmark_runs_retry_of", "benchmark_runs", ["retry_of"], postgresql_where=sa.text("retry_of IS NOT NULL")
    )
    op.create_index(
        "ix_benchmark_runs_accepted",
        "benchmark_runs",
        ["benchmark_id", "agent_id", "fingerprint", sa.text("COALESCE(source_seq, seq)")],
        postgresql_where=sa.text("accepted_at IS NOT NULL"),
    )
    op.create_index(
        "ix_benchmark_runs_position",
        "benchmark_runs",
        ["benchmark_id", "agent_id", sa.text("COALESCE(source_seq, seq)"), "seq"],
    )
    op.create_index(
        "ix_benchmark_runs_series",
        "benchmark_runs",
        ["benchmark_id", "agent_id", "fingerprint", sa.text("COALESCE(source_seq, seq)"), "seq"],
    )
    op.create_index(
        "ix_benchmark_runs_held",
        "benchmark_runs",
        ["source_seq"],
        postgresql_where=sa.text("baseline_hold IS NOT NULL"),
    )
    op.create_index(
        "ix_benchmark_runs_source_key",
        "benchmark_runs",
        ["benchmark_id", "agent_id", "source_key", "source_seq", "seq"],
    )
    op.create_index("ix_benchmark_runs_source_seq", "benchmark_runs", ["source_seq"])
    op.create_index("ix_benchmark_runs_verdict_seq", "benchmark_runs", [sa.text(VERDICT_KEY), "seq"])
    op.create_index("ix_benchmark_runs_completed_at_seq", "benchmark_runs", [sa.text(COMPLETED_KEY), "seq"])
    op.create_index("ix_benchmark_runs_traces_total_seq", "benchmark_runs", [sa.text(TRACES_KEY), "seq"])
    op.create_index("ix_benchmark_runs_status_seq", "benchmark_runs", ["status", "seq"])
    op.create_table(
        "collected_traces",
        sa.Column("collection_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("trial", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=True),
        sa.Column("expected_output", sa.Text(), nullable=True),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("attributes", JSON, nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=True),
        sa.Column("tool_calls", JSON, nullable=True),
        sa.Column("turns", sa.Integer(), nullable=True),
        sa.Column("scores", JSON, nullable=True),
        sa.PrimaryKeyConstraint("collection_id", "position", name="pk_collected_traces"),
        sa.UniqueConstraint("collection_id", "trace_id", name="uq_collected_traces_collection_id_trace_id"),
    )
    op.create_table(
        "trace_transcripts",
        sa.Column("collection_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("transcript", JSON, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "position", name="pk_trace_transcripts"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("notification_id", sa.Text(), nullable=False),
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fencing_token", sa.Integer(), server_default="0", nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("due_at", TIMESTAMP, nullable=True),
        sa.Column("tried_at", TIMESTAMP, nullable=True),
        sa.Column("delivered_at", TIMESTAMP, nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["notification_id"], ["notifications.id"], name="fk_deliveries_notification_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.UniqueConstraint("notification_id", "endpoint_id", name="uq_deliveries_notification_id_endpoint_id"),
    )
    op.create_index("ix_deliveries_created_at_id", "deliveries", ["created_at", "id"])
    op.create_index(
        "ix_deliveries_with_job",
        "deliveries",
        ["endpoint_id"],
        postgresql_where=sa.text("status = 'PENDING' AND due_at IS NULL"),
    )
    op.create_index("ix_deliveries_status_created_at_id", "deliveries", ["status", "created_at", "id"])
    op.create_index("ix_deliveries_endpoint_id_created_at_id", "deliveries", ["endpoint_id", "created_at", "id"])
    op.create_index(
        "ix_deliveries_pending",
        "deliveries",
        ["endpoint_id", "due_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'PENDING'"),
    )
    op.create_index(
        "ix_deliveries_held",
        "deliveries",
        ["endpoint_id", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'HELD'"),
    )
    op.create_table(
        "kpi_definitions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=True),
        sa.Column("threshold_min", sa.Double(), nullable=True),
        sa.Column("threshold_max", sa.Double(), nullable=True),
        sa.Column("gate", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("min_effect", sa.Double(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("retired_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_kpi_definitions_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", "revision", name="pk_kpi_definitions"),
    )
    op.create_index(
        "uq_kpi_definitions_current_name",
        "kpi_definitions",
        ["benchmark_id", sa.literal_column("lower(name)")],
        unique=True,
        postgresql_where=sa.text("retired_at IS NULL"),
    )
    op.create_index("ix_kpi_definitions_benchmark_id", "kpi_definitions", ["benchmark_id"])
    op.create_index(
        "ix_kpi_definitions_current_benchmark_id_name_id",
        "kpi_definitions",
        ["benchmark_id", "name", "id"],
        unique=False,
        postgresql_where=sa.text("retired_at IS NULL"),
    )
    op.create_index(
        "ix_kpi_definitions_current_name_id",
        "kpi_definitions",
        [sa.text("lower(name)"), "id"],
        postgresql_where=sa.text("retired_at IS NULL"),
    )
    op.create_table(
        "source_subscriptions",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("source_digest", sa.Text(), nullable=True),
        sa.Column("polled_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_source_subscriptions_agent_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_source_subscriptions_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("benchmark_id", "agent_id", name="pk_source_subscriptions"),
    )
    op.create_table(
        "awaited_runs",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("known_runs", JSON, nullable=True),
        sa.Column("forwarded_at", TIMESTAMP, nullable=True),
        sa.Column("polled_at", TIMESTAMP, nullable=True),
        sa.Column("ends_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_awaited_runs_agent_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_awaited_runs_benchmark_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["event_id"], ["trigger_events.id"], name="fk_awaited_runs_event_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("event_id", "benchmark_id", "agent_id", name="pk_awaited_runs"),
    )
    op.create_index("ix_awaited_runs_agent_id", "awaited_runs", ["agent_id"])
    op.create_index("ix_awaited_runs_benchmark_id", "awaited_runs", ["benchmark_id"])
    op.create_table(
        "schedule_configs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("cron_expression", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("dst_policy", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("run_name_pattern", sa.Text(), nullable=True),
        sa.Column("misfire_policy", sa.Text(), nullable=False),
        sa.Column("catchup_window_seconds", sa.BigInteger(), nullable=False),
        sa.Column("concurrency_policy", sa.Text(), nullable=False),
        sa.Column("auto_disable_on_failure", sa.Boolean(), nullable=False),
        sa.Column("max_consecutive_failures", sa.BigInteger(), nullable=False),
        sa.Column("consecutive_failures", sa.BigInteger(), nullable=False),
        sa.Column("last_run_at", TIMESTAMP, nullable=True),
        sa.Column("next_run_at", TIMESTAMP, nullable=True),
        sa.Column("disabled_at", TIMESTAMP, nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_schedule_configs_agent_id", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_schedule_configs_benchmark_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_schedule_configs"),
    )
    op.create_index("ix_schedule_configs_created_at_id", "schedule_configs", ["created_at", "id"])
    op.create_index("ix_schedule_configs_name_id", "schedule_configs", [sa.text("lower(name)"), "id"])
    op.create_index(
        "ix_schedule_configs_benchmark_id_created_at_id", "schedule_configs", ["benchmark_id", "created_at", "id"]
    )
    op.create_index("ix_schedule_configs_agent_id_created_at_id", "schedule_configs", ["agent_id", "created_at", "id"])
    op.create_index(
        "ix_schedule_configs_disabled",
        "schedule_configs",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("enabled IS false"),
    )
    op.create_index(
        "ix_schedule_configs_next_run_at",
        "schedule_configs",
        ["next_run_at"],
        unique=False,
        postgresql_where=sa.text("next_run_at IS NOT NULL"),
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_webhook_secrets_benchmark_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_secrets"),
    )
    op.create_index(
        "ix_webhook_secrets_benchmark_id_created_at_id", "webhook_secrets", ["benchmark_id", "created_at", "id"]
    )
    op.create_index("ix_webhook_secrets_benchmark_id_expires_at", "webhook_secrets", ["benchmark_id", "expires_at"])
    op.create_index(
        "ix_webhook_secrets_langfuse",
        "webhook_secrets",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("benchmark_id IS NULL"),
    )
    op.create_table(
        "alert_events",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("dedup_key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("rule_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("run_seq", sa.BigInteger(), nullable=True),
        sa.Column("incident_id", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("details", JSON, nullable=False),
        sa.Column("silence_id", sa.Text(), nullable=True),
        sa.Column("notification_id", sa.Text(), nullable=True),
        sa.Column("publish_by", TIMESTAMP, nullable=True),
        sa.Column("endpoint_ids", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("acknowledged_at", TIMESTAMP, nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_events"),
        sa.UniqueConstraint("dedup_key", name="uq_alert_events_dedup_key"),
    )
    op.create_index("ix_alert_events_rule_id_created_at_id", "alert_events", ["rule_id", "created_at", "id"])
    op.create_index("ix_alert_events_benchmark_id_created_at_id", "alert_events", ["benchmark_id", "created_at", "id"])
    op.create_index("ix_alert_events_agent_id_created_at_id", "alert_events", ["agent_id", "created_at", "id"])
    op.create_index("ix_alert_events_created_at_id", "alert_events", ["created_at", "id"])
    op.create_index("ix_alert_events_incident_id", "alert_events", ["incident_id"])
    op.create_index("ix_alert_events_run_id", "alert_events", ["run_id"])
    op.create_index(
        "ix_alert_events_open",
        "alert_events",
        ["run_id", "id"],
        postgresql_where=sa.text("state = 'FIRING' AND verdict IS NULL"),
    )
    op.create_index(
        "ix_alert_events_fired", "alert_events", ["rule_id", "created_at"], postgresql_where=sa.text("state = 'FIRING'")
    )
    op.create_index("ix_alert_events_notification_id_id", "alert_events", ["notification_id", "id"])
    op.create_index(
        "ix_alert_events_silence_id_created_at_id",
        "alert_events",
        ["silence_id", "created_at", "id"],
        postgresql_where=sa.text("silence_id IS NOT NULL"),
    )
    op.create_index(
        "ix_alert_events_gathered", "alert_events", ["agent_id", "id"], postgresql_where=sa.text("publish_by IS NOT NULL")
    )
    op.create_index(
        "ix_alert_events_acknowledged", "alert_events", ["rule_id"], postgresql_where=sa.text("verdict IS NOT NULL")
    )
    op.create_index("ix_alert_events_state_created_at_id", "alert_events", ["state", "created_at", "id"])
    op.create_index("ix_alert_events_name_created_at_id", "alert_events", ["name", "created_at", "id"])
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rule_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("kpi", sa.Text(), nullable=True),
        sa.Column("metric", sa.Text(), nullable=True),
        sa.Column("value_name", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("started_seq", sa.BigInteger(), nullable=False),
        sa.Column("opened_seq", sa.BigInteger(), nullable=False),
        sa.Column("end_seq", sa.BigInteger(), nullable=True),
        sa.Column("run_seqs", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("started_run_id", sa.Text(), nullable=False),
        sa.Column("opened_run_id", sa.Text(), nullable=False),
        sa.Column("resolved_run_id", sa.Text(), nullable=True),
        sa.Column("started_at", TIMESTAMP, nullable=False),
        sa.Column("opened_at", TIMESTAMP, nullable=False),
        sa.Column("resolved_at", TIMESTAMP, nullable=True),
        sa.Column("resolved_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("opened_value", sa.Double(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("acknowledged_at", TIMESTAMP, nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
    )
    op.create_index(
        "ix_incidents_open", "incidents", ["benchmark_id", "agent_id"], postgresql_where=sa.text("state = 'OPEN'")
    )
    op.create_index("ix_incidents_kpi_started_at", "incidents", ["benchmark_id", "agent_id", "kpi", "started_at"])
    op.create_index(
        "ix_incidents_excluded",
        "incidents",
        ["benchmark_id", "agent_id", sa.text("COALESCE(kpi, metric)"), "end_seq"],
        postgresql_where=sa.text(
            "condition IN ('PERCENTAGE_DROP', 'PERCENTAGE_RISE', 'ANOMALY_DETECTED', 'REGRESSED')"
            " AND verdict IS DISTINCT FROM 'noise'"
        ),
    )
    op.create_index("ix_incidents_opened_at_id", "incidents", ["opened_at", "id"])
    op.create_index("ix_incidents_rule_id_opened_at_id", "incidents", ["rule_id", "opened_at", "id"])
    op.create_index("ix_incidents_benchmark_id_opened_at_id", "incidents", ["benchmark_id", "opened_at", "id"])
    op.create_index("ix_incidents_agent_id_opened_at_id", "incidents", ["agent_id", "opened_at", "id"])
    op.create_index("ix_incidents_state_opened_at_id", "incidents", ["state", "opened_at", "id"])
    op.create_index("ix_incidents_name_opened_at_id", "incidents", ["name", "opened_at", "id"])
    op.create_table(
        "alert_states",
        sa.Column("rule_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("breaches", sa.Integer(), nullable=False),
        sa.Column("clears", sa.Integer(), nullable=False),
        sa.Column("fired_at", TIMESTAMP, nullable=True),
        sa.Column("incident_id", sa.Text(), nullable=True),
        sa.Column("series", JSON, nullable=True),
        sa.Column("breach_seq", sa.BigInteger(), nullable=True),
        sa.Column("clear_seq", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("evaluated_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_alert_states_agent_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["alert_rules.id"], name="fk_alert_states_rule_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("rule_id", "agent_id", name="pk_alert_states"),
    )
    op.create_index("ix_alert_states_agent_id", "alert_states", ["agent_id"])
    op.create_table(
        "benchmark_baselines",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("pinned_at", TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name="fk_benchmark_baselines_agent_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_benchmark_baselines_benchmark_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["benchmark_runs.id"], name="fk_benchmark_baselines_run_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("benchmark_id", "agent_id", name="pk_benchmark_baselines"),
    )
    op.create_index("ix_benchmark_baselines_agent_id", "benchmark_baselines", ["agent_id"])
    op.create_index("ix_benchmark_baselines_run_id", "benchmark_baselines", ["run_id"])
    op.create_table(
        "kpi_history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("kpi_id", sa.Text(), nullable=False),
        sa.Column("kpi_revision", sa.BigInteger(), nullable=False),
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("undefined_reason", sa.Text(), nullable=True),
        sa.Column("unit", sa.Text(), nullable=True),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("within_thresholds", sa.Boolean(), nullable=True),
        sa.Column("validity", sa.Text(), nullable=False),
        sa.Column("gate", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("coverage", sa.Double(), nullable=True),
        sa.Column("missing", JSON, server_default="{}", nullable=False),
        sa.Column("interval_low", sa.Double(), nullable=True),
        sa.Column("interval_high", sa.Double(), nullable=True),
        sa.Column("verdict", JSON, nullable=True),
        sa.Column("over_runs", JSON, nullable=True),
        sa.Column("recorded_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_kpi_history_agent_id", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["benchmark_id"], ["benchmarks.id"], name="fk_kpi_history_benchmark_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["kpi_id", "kpi_revision"],
            ["kpi_definitions.id", "kpi_definitions.revision"],
            name="fk_kpi_history_kpi_id_kpi_revision",
        ),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_kpi_history_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_kpi_history"),
    )
    op.create_index("ix_kpi_history_agent_id_recorded_at_id", "kpi_history", ["agent_id", "recorded_at", "id"])
    op.create_index("ix_kpi_history_name_recorded_at_id", "kpi_history", ["name", "recorded_at", "id"])
    op.create_index("ix_kpi_history_recorded_at_id", "kpi_history", ["recorded_at", "id"])
    op.create_index(
        "ix_kpi_history_trend", "kpi_history", ["benchmark_id", "agent_id", "kpi_id", "recorded_at", "id"]
    )
    op.create_index(
        "ix_kpi_history_benchmark_id_agent_id_recorded_at_id",
        "kpi_history",
        ["benchmark_id", "agent_id", "recorded_at", "id"],
    )
    op.create_index("ix_kpi_history_benchmark_id_recorded_at_id", "kpi_history", ["benchmark_id", "recorded_at", "id"])
    op.create_index("ix_kpi_history_kpi_id_recorded_at_id", "kpi_history", ["kpi_id", "recorded_at", "id"])
    op.create_index("uq_kpi_history_run_seq_kpi_id", "kpi_history", ["run_seq", "kpi_id"], unique=True)
    op.create_table(
        "run_metrics",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("expected", sa.BigInteger(), nullable=False),
        sa.Column("mean", sa.Double(), nullable=True),
        sa.Column("std", sa.Double(), nullable=True),
        sa.Column("min", sa.Double(), nullable=True),
        sa.Column("max", sa.Double(), nullable=True),
        sa.Column("p50", sa.Double(), nullable=True),
        sa.Column("p95", sa.Double(), nullable=True),
        sa.Column("p99", sa.Double(), nullable=True),
        sa.Column("sum", sa.Double(), nullable=True),
        sa.Column("coverage", sa.Double(), nullable=True),
        sa.Column("interval_low", sa.Double(), nullable=True),
        sa.Column("interval_high", sa.Double(), nullable=True),
        sa.Column("missing", JSON, nullable=False),
        sa.Column("verdict", JSON, nullable=True),
        sa.Column("over_runs", JSON, nullable=True),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_run_metrics_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_seq", "metric", name="pk_run_metrics"),
    )
    op.create_table(
        "run_shards",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("fencing_token", sa.Integer(), nullable=False),
        sa.Column("done_at", TIMESTAMP, nullable=True),
        sa.Column("summaries", JSON, nullable=True),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_run_shards_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_seq", "shard", name="pk_run_shards"),
    )
    op.create_table(
        "run_items",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("keys", sa.LargeBinary(), nullable=False),
        sa.Column("traces", sa.LargeBinary(), nullable=False),
        sa.Column("clusters", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_run_items_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_seq", name="pk_run_items"),
    )
    op.create_table(
        "run_series",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.Column("item_values", sa.LargeBinary(), nullable=True),
        sa.Column("state", JSON, nullable=True),
        sa.ForeignKeyConstraint(["run_seq"], ["benchmark_runs.seq"], name="fk_run_series_run_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_seq", "series", name="pk_run_series"),
    )
    op.create_table(
        "run_llm_usage",
        sa.Column("run_seq", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_seq"], ["benchmark_runs.seq"], name="fk_run_llm_usage_run_seq", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_seq", "model", name="pk_run_llm_usage"),
    )
    op.create_table(
        "schedule_fires",
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("range_end", TIMESTAMP, nullable=True),
        sa.Column("fired_at", TIMESTAMP, nullable=False),
        sa.Column("triggered_by", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("plan", JSON, nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("settled_at", TIMESTAMP, nullable=True),
        sa.Column("reported_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["benchmark_runs.id"], name="fk_schedule_fires_run_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_schedule_fires"),
        sa.UniqueConstraint("schedule_id", "due_at", name="uq_schedule_fires_schedule_id_due_at"),
    )
    op.create_index(
        "ix_schedule_fires_status_due_at",
        "schedule_fires",
        ["status", "due_at"],
        postgresql_include=["schedule_id", "reason"],
    )
    op.create_index(
        "ix_schedule_fires_unsettled",
        "schedule_fires",
        ["schedule_id"],
        postgresql_where=sa.text("settled_at IS NULL AND run_id IS NOT NULL"),
    )
    op.create_index(
        "ix_schedule_fires_missed",
        "schedule_fires",
        ["due_at", "schedule_id"],
        postgresql_where=sa.text("reason IN ('MISSED', 'OUTSIDE_CATCHUP_WINDOW', 'TOO_MANY_MISSED')"),
    )
    op.create_index(
        "ix_schedule_fires_run_id",
        "schedule_fires",
        ["run_id"],
        unique=False,
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )
    op.create_index(
        "ix_schedule_fires_unreported",
        "schedule_fires",
        ["fired_at"],
        postgresql_where=sa.text(
            "reported_at IS NULL AND (status = 'FAILED' OR reason IN"
            " ('MISSED', 'OUTSIDE_CATCHUP_WINDOW', 'TOO_MANY_MISSED'))"
        ),
    )
    op.create_table(
        "processed_source_runs",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("source_run_id", sa.Text(), nullable=False),
        sa.Column("ended_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["benchmark_id", "agent_id"],
            ["source_subscriptions.benchmark_id", "source_subscriptions.agent_id"],
            name="fk_processed_source_runs_benchmark_id_agent_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("benchmark_id", "agent_id", "source_run_id", name="pk_processed_source_runs"),
    )
    op.execute(CREATE_APPEND_ONLY_FUNCTION)
    op.execute(CREATE_APPEND_ONLY_TRIGGERS)
    op.execute(CREATE_AUDIT_RETENTION)


def downgrade() -> None:
    op.drop_table("processed_source_runs")
    op.drop_table("schedule_fires")
    op.drop_table("run_llm_usage")
    op.drop_table("run_series")
    op.drop_table("run_items")
    op.drop_table("run_shards")
    op.drop_table("run_metrics")
    op.drop_table("kpi_history")
    op.drop_table("benchmark_baselines")
    op.drop_table("alert_states")
    op.drop_table("incidents")
    op.drop_table("alert_events")
    op.drop_table("webhook_secrets")
    op.drop_table("schedule_configs")
    op.drop_table("awaited_runs")
    op.drop_table("source_subscriptions")
    op.drop_table("kpi_definitions")
    op.drop_table("deliveries")
    op.drop_table("trace_transcripts")
    op.drop_table("collected_traces")
    op.drop_table("benchmark_runs")
    op.drop_table("benchmark_revisions")
    op.drop_table("benchmark_agents")
    op.drop_table("alert_rules")
    op.drop_table("trigger_events")
    op.drop_table("trace_results")
    op.drop_table("worker_processes")
    op.drop_table("otel_spans")
    op.drop_table("otel_traces")
    op.drop_table("circuit_breakers")
    op.drop_table("rate_windows")
    op.drop_table("purge_marks")
    op.drop_table("notifications")
    op.drop_table("local_datasets")
    op.drop_table("llm_cache")
    op.drop_table("idempotency_keys")
    op.drop_table("endpoints")
    op.drop_table("collections")
    op.drop_table("benchmarks")
    op.drop_table("audit_log")
    op.drop_table("login_links")
    op.drop_table("browser_sessions")
    op.drop_table("api_keys")
    op.drop_table("alert_silences")
    op.drop_table("agents")
    op.execute("DROP FUNCTION audit_log_is_append_only()")
    op.execute("DROP FUNCTION delete_old_audit_entries(timestamptz, integer)")
    op.execute(DROP_JOB_ENGINE)
