"""The rows of the benchmark of lists: a value in each column that a filter or an order uses.

In each list two columns are halved: one has a value in the older half of the rows, the other one in the newer
half and in three older rows. So half of the rows have each of these values, and three rows have both.
"""

import os
from collections.abc import Mapping
from typing import Final

from sqlalchemy import text

from benchmarks.table_rows import TIME, insert_rows
from mosaico.access.service import create_key
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.migrations import upgrade

ROWS: Final = int(os.environ.get("MOSAICO_BENCH_LIST_ROWS", "1000000"))
PAIRED_ROWS: Final = 3
IS_OLDER: Final = f"n <= {ROWS // 2}"
IS_NEWER: Final = f"n > {ROWS // 2 - PAIRED_ROWS}"
HALVED_NAMES: Final = {
    "benchmark_id": f"CASE WHEN {IS_OLDER} THEN 'bench-1' ELSE 'b' END",
    "agent_id": f"CASE WHEN {IS_NEWER} THEN 'agent-1' ELSE 'a' END",
}

NAMES: Final = {"benchmark_id": "'b'", "agent_id": "'a'"}

# Parents first. Each value is an SQL expression of the row number `n`.
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "agents": {"id": "'agent-' || n"},
    "benchmarks": {
        "id": "'bench-' || n",
        "metrics": "'[]'",
        "source": "'local'",
        "archived": "n = 7",
    },
    "api_keys": {"id": "'key-' || n", "role": "'read'"},
    "benchmark_revisions": {"benchmark_id": "'b'", "revision": "n + 1", "changes": "ARRAY['name']", "changed_at": TIME},
    "local_datasets": {
        "id": "'set-' || n",
        "name": f"CASE WHEN {IS_OLDER} THEN 'name-' || n % 100 ELSE 'name' END",
        "run_name": "'run-' || n",
        "agent_id": f"CASE WHEN n = 7 THEN 'a' WHEN {IS_NEWER} THEN 'agent-1' END",
        "collection_id": "1",
        "trace_count": str(ROWS),
    },
    "benchmark_runs": {
        **HALVED_NAMES,
        "id": "'run-' || n",
        "status": f"CASE WHEN n % 100000 = 1 THEN 'FAILED' WHEN {IS_OLDER} THEN 'CANCELLED' ELSE 'COMPLETED' END",
        "run_name": "'name-' || n",
        "triggered_by": "CASE WHEN n = 7 THEN 'WEBHOOK' ELSE 'MANUAL' END",
        "schedule_id": "CASE WHEN n = 7 THEN 'schedule-1' END",
        "validity": "CASE WHEN n = 7 THEN 'INVALID' ELSE 'VALID' END",
        "verdict": "CASE WHEN n = 7 THEN '{\"verdict\": \"REGRESSED\", \"explanation\": \"x\"}'::jsonb END",
    },
    "audit_log": {
        "actor_type": "'key'",
        "actor_id": "'key-' || n % 1000",
        "action": f"CASE WHEN n = 7 THEN 'delete_agent' WHEN {IS_NEWER} THEN 'update_agent' ELSE 'create_agent' END",
        "resource_type": f"CASE WHEN n = 7 THEN 'agents' WHEN {IS_OLDER} THEN 'endpoints' ELSE 'benchmark-runs' END",
        "resource_id": "'run-' || n",
        "outcome": "CASE WHEN n = 7 THEN 'refused' ELSE 'done' END",
        "request_id": "'request-' || n",
        "at": TIME,
    },
    "trigger_events": {
        "id": "'event-' || n",
        "type": f"CASE WHEN n = 7 THEN 'agent-updated' WHEN {IS_NEWER} THEN 'webhook' ELSE 'new-run' END",
        "status": f"CASE WHEN n = 7 THEN 'WAITING' WHEN {IS_OLDER} THEN 'IGNORED' ELSE 'STARTED' END",
        "benchmark_ids": "'[]'",
        "run_ids": "'[]'",
    },
    "notifications": {"id": "'message-' || n", "severity": "CASE WHEN n = 7 THEN 'CRITICAL' ELSE 'INFO' END", "message": "CAST(:message AS jsonb)"},
    "endpoints": {
        "id": "'endpoint-' || n",
        "channel": "CASE WHEN n = 7 THEN 'EMAIL' ELSE 'WEBHOOK' END",
        "recipient_hash": "'hash-' || n",
        "disabled_at": "CASE WHEN n = 7 THEN now() END",
    },
    "deliveries": {
        "id": "'delivery-' || n",
        "notification_id": "'message-' || n",
        "endpoint_id": f"CASE WHEN {IS_NEWER} THEN 'endpoint-1' ELSE 'endpoint-' || n END",
        "status": f"CASE WHEN n = 7 THEN 'FAILED' WHEN {IS_OLDER} THEN 'HELD' ELSE 'DELIVERED' END",
    },
    "kpi_history": {
        **HALVED_NAMES,
        "run_seq": "n",
        "run_id": "'run-' || n",
        "kpi_id": "'k'",
        "name": "'quality'",
        "direction": "'HIGHER_IS_BETTER'",
        "validity": "'VALID'",
        "recorded_at": TIME,
    },
    "alert_events": {
        **HALVED_NAMES,
        "id": "'alert-' || n",
        "dedup_key": "'alert-' || n",
        "state": "CASE WHEN n = 7 THEN 'RUN_INVALID' WHEN n % 2 = 0 THEN 'FIRING' ELSE 'RESOLVED' END",
        "run_id": "'run-' || n",
        "rule_id": "'rule-1'",
        "severity": "CASE WHEN n = 7 THEN 'CRITICAL' ELSE 'WARNING' END",
        "verdict": "CASE WHEN n = 7 THEN 'noise' END",
    },
    "schedule_configs": {
        "id": "'schedule-' || n",
        "benchmark_id": f"CASE WHEN n = 7 THEN 'bench-7' WHEN {IS_OLDER} THEN 'bench-1' ELSE 'b' END",
        "agent_id": f"CASE WHEN n = 7 THEN 'agent-7' WHEN {IS_NEWER} THEN 'agent-1' ELSE 'a' END",
        "cron_expression": "'0 0 3 * * *'",
        "timezone": "'UTC'",
        "dst_policy": "'SPRING'",
        "misfire_policy": "'SKIP'",
        "concurrency_policy": "'FORBID'",
        "enabled": "n <> 7",
    },
    "alert_rules": {
        "id": "'rule-' || n",
        "benchmark_id": f"CASE WHEN n = 7 THEN 'bench-7' WHEN {IS_OLDER} THEN 'bench-1' ELSE 'b' END",
        "agent_id": f"CASE WHEN n = 7 THEN 'agent-7' WHEN {IS_NEWER} THEN 'agent-1' ELSE 'a' END",
        "metric": "'ROUGE'",
        "condition": "'LESS_THAN'",
        "threshold": "0.5",
        "severity": "'WARNING'",
        "channels": "'[]'",
        "endpoints": "'[]'",
        "no_data": "'NO_DATA'",
        "enabled": "n <> 7",
    },
    "schedule_fires": {
        "schedule_id": "'schedule-1'",
        "due_at": TIME,
        "fired_at": TIME,
        "triggered_by": "'SCHEDULED'",
        "status": "'STARTED'",
    },
    "webhook_secrets": {
        "id": "'secret-' || n",
        "benchmark_id": "CASE WHEN n % 2 = 0 THEN 'b' WHEN n % 1000 > 1 THEN 'bench-1' END",
        "name": "'secret-' || n",
        "created_at": TIME,
    },
    "kpi_definitions": {
        "id": "'kpi-' || n",
        "benchmark_id": "'bench-1'",
        "name": "'kpi-' || n",
        "revision": "1",
        "direction": "'HIGHER_IS_BETTER'",
    },
    "incidents": {
        **HALVED_NAMES,
        "id": "'incident-' || n",
        "rule_id": "CASE WHEN n = 7 THEN 'rule-7' ELSE 'rule-1' END",
        "severity": "CASE WHEN n = 7 THEN 'CRITICAL' ELSE 'WARNING' END",
        "condition": "'LESS_THAN'",
        "state": "CASE WHEN n = 7 THEN 'OPEN' ELSE 'RESOLVED' END",
        "opened_at": TIME,
    },
    "alert_silences": {
        "id": "'silence-' || n",
        "matchers": "'{}'",
        "starts_at": TIME,
        "ends_at": "timestamptz '2026-01-01' + (n % 1000) * interval '1 minute'",
    },
    "collected_traces": {
        "collection_id": "1",
        "position": "n - 1",
        "trace_id": "'trace-' || n",
        "item_id": "'item-' || n",
        "outcome": "CASE WHEN n = 7 THEN 'timeout' ELSE 'scored' END",
    },
    "trace_results": {"run_seq": "1", "position": "n - 1", "values": "CASE WHEN n = 7 THEN '{0.1}' ELSE '{0.5}' END::float8[]"},
}  # fmt: skip
COMPLETE_COLLECTION: Final = {"source": "'local'", "trace_count": str(ROWS)}


def fill(url: str) -> str:
    """Fill each table with `ROWS` rows; returns an API key."""
    upgrade(url)
    db = Database(url, pool_size=1, name="bench")
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        kpi = {"id": "'k'", "benchmark_id": "'b'", "revision": "1"}
        insert_rows(session, "kpi_definitions", kpi)
        insert_rows(session, "collections", COMPLETE_COLLECTION)
        for name, columns in TABLES.items():
            insert_rows(session, name, columns, ROWS)
        session.execute(
            text(
                "UPDATE benchmark_runs SET collection_id = 1, metric_keys = '{ROUGE}' WHERE seq = 1"
            )
        )
        key = create_key(session, "bench", "admin", now=utc_now())
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
    db.dispose()
    return key.token.reveal()
