"""The rows of the benchmark: `ROWS` in each table, made with SQL."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import text

from benchmarks.api import MASTER_KEY
from benchmarks.bulk.history import time_trend
from benchmarks.bulk.timings import REPEATS, ROWS
from benchmarks.list_rows import NAMES, TABLES
from benchmarks.table_rows import TIME, insert_rows
from mosaico.access.service import create_key
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.migrations import upgrade

BOX: Final = SecretBox.from_keys([MASTER_KEY])
CURRENT_CIPHERTEXT: Final = BOX.encrypt("{}", table="bench", row="bench", column="bench")

RUN: Final = {
    **NAMES,
    "id": "'run-' || n",
    "status": "'COMPLETED'",
    "triggered_by": "'MANUAL'",
    "validity": "'VALID'",
    "completed_at": TIME,
    "fingerprint": "'f'",
    "source_seq": "n",
    # A source run that was evaluated ten thousand times.
    "same_source_as": "CASE WHEN n BETWEEN 11 AND 10010 THEN 'run-8' END",
}
ROWS_OF_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "benchmark_runs": RUN,
    "kpi_history": {**TABLES["kpi_history"], **NAMES},
    # Its triggers refuse to delete entries that are young by the clock of the database.
    "audit_log": {
        **TABLES["audit_log"],
        "at": "timestamptz '2020-01-01' + n * interval '1 second'",
    },
    "trigger_events": TABLES["trigger_events"],
    "notifications": TABLES["notifications"],
    # Of one endpoint, which the benchmark deletes, and of another one with held ones.
    "deliveries": {
        **TABLES["deliveries"],
        "endpoint_id": "CASE WHEN n % 2 = 0 THEN 'endpoint-1' ELSE 'endpoint-2' END",
        "status": "CASE WHEN n % 2 = 0 THEN 'DELIVERED' ELSE 'HELD' END",
    },
    "schedule_fires": TABLES["schedule_fires"],
    "alert_events": {**TABLES["alert_events"], **NAMES},
    "incidents": {**TABLES["incidents"], **NAMES, "rule_id": "'rule-1'"},
    "idempotency_keys": {
        "id": "'key-' || n",
        "api_key_id": "'k'",
        "response": f"'{CURRENT_CIPHERTEXT}'",
        "expires_at": TIME,
    },
    "browser_sessions": {"digest": "int8send(n)", "api_key_id": "'k'", "expires_at": TIME},
    "login_links": {"digest": "int8send(n)", "api_key_id": "'k'", "expires_at": TIME},
    "llm_cache": {"key": "int8send(n)"},
    "otel_traces": {"trace_id": "'trace-' || n", "last_received_at": TIME},
    "otel_spans": {"trace_id": "'trace-' || n", "span_id": "'span'"},
}
JOBS: Final = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, status)
    SELECT 'runs', 'runs.score', CASE WHEN n % 2 = 0 THEN 'todo' ELSE 'succeeded' END::procrastinate_job_status
    FROM generate_series(1, :rows) AS n
"""
JOB_EVENTS: Final = """
    INSERT INTO procrastinate_events (job_id, type, at)
    SELECT id, 'deferred', timestamptz '2026-01-01' + id * interval '1 second' FROM procrastinate_jobs
"""


def fill(url: str) -> tuple[str, float]:
    """Fill each table with `ROWS` rows; returns an API key, and the milliseconds of the trend of a KPI
    before the tables were analyzed.
    """
    upgrade(url)
    db = Database(url, pool_size=1, name="bench-bulk")
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'", "keep_days": "30"})
        kpi = {"id": "'k'", "benchmark_id": "'b'", "revision": "1", "name": "'quality'"}
        insert_rows(session, "kpi_definitions", kpi)
        for number in (1, 2):
            endpoint = {
                **TABLES["endpoints"],
                "id": f"'endpoint-{number}'",
                "recipient_hash": f"'{number}'",
                "disabled_at": "now()" if number == 2 else "NULL",
            }
            insert_rows(session, "endpoints", endpoint)
        insert_rows(
            session,
            "alert_rules",
            {**TABLES["alert_rules"], "id": "'rule-1'", "benchmark_id": "'b'", "agent_id": "'a'"},
        )
        insert_rows(session, "api_keys", {"id": "'k'", "role": "'read'"})
        for name, columns in ROWS_OF_TABLES.items():
            insert_rows(session, name, columns, ROWS)
            if name == "kpi_history":
                trend_ms = min(time_trend(session) for _ in range(REPEATS))
        # The events of jobs are made below, all at once.
        session.execute(text("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER"))
        session.execute(text(JOBS), {"rows": ROWS})
        session.execute(text("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER"))
        session.execute(text(JOB_EVENTS))
        key = create_key(session, "bench", "admin", now=utc_now())
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
    db.dispose()
    return key.token.reveal(), trend_ms
