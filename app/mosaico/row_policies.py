"""Which rows of which tables a limited caller sees: the policies that `mosaico.core.row_limits` relies on.

Each upgrade of the database removes and installs them. Source: PostgreSQL, row security policies.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, text

from mosaico.core.row_limits import LIMITED_ROLE, VISIBLE_ROWS

EVERY_ROW: Final = "every_row"

# As an array of a sub-select, which is computed once for each statement, and which an index can look up.
_VISIBLE: Final = "{column} = ANY ((SELECT mosaico_benchmarks())::text[])"
_VISIBLE_MESSAGE: Final = "{column} = ANY ((SELECT mosaico_messages())::text[])"
_OF_BENCHMARK: Final = _VISIBLE.format(column="benchmark_id")
_OF_RUN: Final = "EXISTS (SELECT FROM benchmark_runs run WHERE run.seq = run_seq)"
_OF_RULE: Final = "EXISTS (SELECT FROM alert_rules rule WHERE rule.id = rule_id)"
_OF_COLLECTION: Final = (
    "EXISTS (SELECT FROM benchmark_runs run WHERE run.collection_id = {column})"
    " OR EXISTS (SELECT FROM local_datasets uploaded WHERE uploaded.collection_id = {column})"
)

# Which rows of a table a limited caller sees and changes. The tables in a condition are limited, too; a name that they
# share with the outer table is theirs.
LIMITED_TABLES: Final[Mapping[str, str]] = {
    "benchmarks": _VISIBLE.format(column="id"),
    **dict.fromkeys(
        (
            "alert_events", "alert_rules", "annotations", "awaited_runs", "benchmark_agents", "benchmark_baselines",
            "benchmark_revisions", "benchmark_runs", "incidents", "kpi_definitions", "kpi_history", "notes",
            "processed_source_runs", "schedule_configs", "source_subscriptions", "webhook_secrets",
        ),
        _OF_BENCHMARK,
    ),
    **dict.fromkeys(
        ("run_attributes", "run_items", "run_llm_usage", "run_metrics", "run_series", "run_shards", "trace_results"),
        _OF_RUN,
    ),
    "stored_comparisons": "EXISTS (SELECT FROM benchmark_runs run WHERE run.seq = candidate_seq)"
    " AND EXISTS (SELECT FROM benchmark_runs run WHERE run.seq = baseline_seq)",
    "agents": "EXISTS (SELECT FROM benchmark_agents evaluated WHERE evaluated.agent_id = agents.id)"
    " OR EXISTS (SELECT FROM benchmark_runs run WHERE run.agent_id = agents.id)",
    "agent_revisions": "EXISTS (SELECT FROM agents WHERE agents.id = agent_id)",
    "alert_rule_revisions": _OF_RULE,
    "alert_states": _OF_RULE,
    "run_evaluations": _OF_RULE,
    "alert_silences": _VISIBLE.format(column="(matchers ->> 'benchmarkId')"),
    "notifications": _VISIBLE_MESSAGE.format(column="id"),
    "deliveries": _VISIBLE_MESSAGE.format(column="notification_id"),
    "endpoints": "EXISTS (SELECT FROM alert_rules rule WHERE rule.endpoints @> to_jsonb(endpoints.id))",
    "schedule_fires": "EXISTS (SELECT FROM schedule_configs schedule WHERE schedule.id = schedule_id)",
    "local_datasets": "EXISTS (SELECT FROM benchmarks tested WHERE tested.dataset_ref = local_datasets.name)",
    "datasets": "EXISTS (SELECT FROM benchmarks tested WHERE tested.dataset_ref = datasets.name)",
    **dict.fromkeys(
        ("dataset_items", "dataset_versions"), "EXISTS (SELECT FROM datasets edited WHERE edited.id = dataset_id)"
    ),
    "collections": _OF_COLLECTION.format(column="collections.id"),
    "collected_traces": _OF_COLLECTION.format(column="collected_traces.collection_id"),
    "trace_transcripts": _OF_COLLECTION.format(column="trace_transcripts.collection_id"),
    # Of no benchmark that could be known.
    **dict.fromkeys(("otel_spans", "otel_traces", "setup_drafts", "trigger_events"), "false"),
}  # fmt: skip
# What the service needs for every request, and what only administrators see, who are never limited.
INTERNAL_TABLES: Final = frozenset(
    {
        "api_keys", "audit_log", "browser_sessions", "circuit_breakers", "idempotency_keys", "llm_cache",
        "login_links", "people", "project_objects", "purge_marks", "rate_windows", "worker_processes",
    }
)  # fmt: skip

_FUNCTIONS: Final = (
    """
    CREATE OR REPLACE FUNCTION mosaico_benchmarks() RETURNS text[] LANGUAGE sql STABLE
    RETURN ARRAY(
        SELECT jsonb_array_elements_text(COALESCE(current_setting('mosaico.benchmarks', true), '[]')::jsonb)
    )
    """,
    """
    CREATE OR REPLACE FUNCTION mosaico_sees_dataset(dataset text) RETURNS boolean LANGUAGE sql STABLE AS
    'SELECT EXISTS (SELECT FROM benchmarks WHERE dataset_ref = dataset AND id = ANY (mosaico_benchmarks()))'
    """,
    """
    CREATE OR REPLACE FUNCTION mosaico_sees_agent(agent text) RETURNS boolean LANGUAGE sql STABLE AS
    'SELECT EXISTS (SELECT FROM agents WHERE id = agent)'
    """,
)


def remove_policies(connection: Connection) -> None:
    """Remove the policies: a migration could not change the columns that they read.

    A table with row security but without policies would have no rows for the role of the service.
    """
    present = connection.execute(
        text(
            "SELECT tablename, policyname FROM pg_policies"
            " WHERE schemaname = current_schema() AND policyname = ANY(:policies)"
        ),
        {"policies": [EVERY_ROW, VISIBLE_ROWS]},
    )
    for table, policy in present.all():
        connection.exec_driver_sql(f"DROP POLICY {policy} ON {table}")
        connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")


# A message about an agent gathers the alerts of all its benchmarks: with one that is foreign, it is foreign. It reads
# alerts as the owner of the tables, to whom foreign ones are not hidden.
_MESSAGES: Final = """
    CREATE OR REPLACE FUNCTION mosaico_messages() RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS
    'SELECT ARRAY(
        SELECT DISTINCT notification_id FROM alert_events AS seen
        WHERE benchmark_id = ANY ((SELECT mosaico_benchmarks())::text[]) AND notification_id IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM alert_events AS gathered WHERE gathered.notification_id = seen.notification_id
                    AND (gathered.benchmark_id = ANY ((SELECT mosaico_benchmarks())::text[])) IS NOT TRUE
            )
     )'
    """


def install_policies(connection: Connection) -> bool:
    """Create the role and the policies of all tables; returns whether the role exists.

    An owner of tables that may not create roles leaves the limits away, and a key with a limit
    is then refused: see docs/access.md.
    """
    has_role = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :role)"
    may_create = "SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user"
    if not connection.scalar(text(has_role), {"role": LIMITED_ROLE}):
        if not connection.scalar(text(may_create)):
            return False
        connection.exec_driver_sql(f"CREATE ROLE {LIMITED_ROLE} NOLOGIN")
        # Who creates a role may grant it, but not yet use it.
        connection.exec_driver_sql(
            f"GRANT {LIMITED_ROLE} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE"
        )
    for function in _FUNCTIONS:
        connection.exec_driver_sql(function)
    schema = connection.scalar(text("SELECT quote_ident(current_schema())"))
    connection.exec_driver_sql(_MESSAGES.format(schema=schema))
    for table, condition in LIMITED_TABLES.items():
        connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"CREATE POLICY {EVERY_ROW} ON {table} USING (true)")
        connection.exec_driver_sql(
            f"CREATE POLICY {VISIBLE_ROWS} ON {table} AS RESTRICTIVE TO {LIMITED_ROLE} USING ({condition})"
        )
    for statement in (
        f"GRANT USAGE ON SCHEMA public TO {LIMITED_ROLE}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {LIMITED_ROLE}",
        f"REVOKE UPDATE, DELETE ON audit_log FROM {LIMITED_ROLE}",
        f"REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {LIMITED_ROLE}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {LIMITED_ROLE}",
    ):
        connection.exec_driver_sql(statement)
    return True
