"""A long history in the real schema: a few runs of the service, copied by SQL.

The first benchmark has a tenth of all runs, as one that runs at each commit; the others share the rest.
A copy has the rows of its template with other IDs and times. Only the templates keep their plan: the
plans of copies on other benchmarks name the KPIs of the first one.
"""

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import psycopg
from sqlalchemy import Table
from sqlalchemy.orm import Session

from benchmarks.table_rows import TIME, insert_rows
from benchmarks.traces import expected_of, output_of
from mosaico.table_list import METADATA
from tests.support.service import JSON, Service

AGENTS: Final = 5
ITEMS, TRIALS = 50, 2
KPIS: Final = 20
TEMPLATES: Final = 3
BENCHMARK, AGENT = "bench-1", "agent-1"
METRICS: Final = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
BASELINE_RUNS: Final = 5
RULE: Final = {"benchmarkId": BENCHMARK, "agentId": AGENT, "condition": "REGRESSED"}
# Rows of traces, values, KPIs, series and their indexes, measured by this benchmark.
BYTES_PER_TRACE: Final = 2_000

# Which run each copy repeats, in the order of time; a tenth of the copies belong to the first benchmark.
MAKE_COPIES: Final = """
    CREATE UNLOGGED TABLE history_copies AS
    SELECT n, 'run-' || n AS id, first.seq + n AS seq, first.collection_id + n AS collection_id,
           template.seq AS template_seq, template.collection_id AS template_collection,
           'bench-' || benchmark AS benchmark_id, 'agent-' || 1 + benchmark % {agents} AS agent_id,
           CASE benchmark WHEN 1 THEN '' ELSE '-' || benchmark END AS suffix,
           now() - ({runs} - n) * (interval '500 days' / {runs}) AS at
    FROM generate_series(1, {runs}) AS n
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n % 10 = 0 OR {benchmarks} = 1 THEN 1 ELSE 2 + n % ({benchmarks} - 1) END AS benchmark
    ) AS choice
    JOIN (
        SELECT seq, collection_id, row_number() OVER (ORDER BY seq DESC) - 1 AS number FROM benchmark_runs
    ) AS template ON template.number = n % {templates}
    CROSS JOIN (SELECT max(seq) AS seq, max(collection_id) AS collection_id FROM benchmark_runs) AS first
    ORDER BY n
"""
SEQUENCES: Final = (("benchmark_runs", "seq"), ("collections", "id"), ("kpi_history", "id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySize:
    """How much history there is; each run has `ITEMS` × `TRIALS` traces."""

    runs: int
    benchmarks: int

    @property
    def traces(self) -> int:
        return self.runs * ITEMS * TRIALS


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """A table whose rows are copied with their run: expressions of changed columns, and the join."""

    name: str
    join: str
    changes: Mapping[str, str] = field(default_factory=dict)
    where: str = "true"


OF_RUN: Final = "template.run_seq = copy.template_seq"
OF_COLLECTION: Final = "template.collection_id = copy.template_collection"
AT: Final = {"created_at": "copy.at", "started_at": "copy.at"}
# Those of a run need no foreign keys to be checked: parents first is not required.
TRACE_TABLES: Final = (
    CopiedTable(
        name="collected_traces",
        join=OF_COLLECTION,
        changes={
            "collection_id": "copy.collection_id",
            "trace_id": "md5(copy.n || '/' || template.position)",
        },
    ),
)
RUN_TABLES: Final = (
    CopiedTable(
        name="collections",
        join="template.id = copy.template_collection",
        changes={
            "id": "copy.collection_id",
            "digest": "sha256(copy.id::bytea)",
            "completed_at": "copy.at",
            **AT,
        },
    ),
    CopiedTable(
        name="benchmark_runs",
        join="template.seq = copy.template_seq",
        changes={
            "id": "copy.id",
            "seq": "copy.seq",
            "source_seq": "copy.seq",
            "benchmark_id": "copy.benchmark_id",
            "agent_id": "copy.agent_id",
            "collection_id": "copy.collection_id",
            "run_name": "copy.id",
            "plan": f"replace(template.plan::text, '\"{BENCHMARK}\"', '\"' || copy.benchmark_id || '\"')::jsonb",
            "completed_at": "copy.at + interval '9 seconds'",
            **AT,
        },
    ),
    CopiedTable(name="trace_results", join=OF_RUN, changes={"run_seq": "copy.seq"}),
    CopiedTable(
        name="run_shards",
        join=OF_RUN,
        changes={"run_seq": "copy.seq", "done_at": "copy.at + interval '8 seconds'"},
    ),
    CopiedTable(name="run_metrics", join=OF_RUN, changes={"run_seq": "copy.seq"}),
    CopiedTable(name="run_items", join=OF_RUN, changes={"run_seq": "copy.seq"}),
    CopiedTable(
        name="run_series",
        join=OF_RUN,
        changes={
            "run_seq": "copy.seq",
            "series": "template.series || CASE WHEN template.series LIKE 'kpi/%' THEN copy.suffix ELSE '' END",
        },
    ),
    CopiedTable(
        name="kpi_history",
        join=OF_RUN,
        changes={
            "run_seq": "copy.seq",
            "run_id": "copy.id",
            "kpi_id": "template.kpi_id || copy.suffix",
            "benchmark_id": "copy.benchmark_id",
            "agent_id": "copy.agent_id",
            "recorded_at": "copy.at + interval '9 seconds'",
        },
    ),
    # An alert for each fiftieth run.
    CopiedTable(
        name="alert_events",
        join="template.state = 'FIRING'",
        where="copy.n % 50 = 0",
        changes={
            "id": "'alert-' || copy.n || template.id",
            "dedup_key": "'alert-' || copy.n || template.id",
            "run_id": "copy.id",
            "run_seq": "copy.seq",
            "benchmark_id": "copy.benchmark_id",
            "agent_id": "copy.agent_id",
            "notification_id": "'message-' || copy.n",
            "created_at": "copy.at",
        },
    ),
    CopiedTable(
        name="incidents",
        join="true",
        where="copy.n % 50 = 0",
        changes={
            "id": "'incident-' || copy.n || template.id",
            "state": "'RESOLVED'",
            "benchmark_id": "copy.benchmark_id",
            "agent_id": "copy.agent_id",
            "started_at": "copy.at",
            "opened_at": "copy.at",
            "resolved_at": "copy.at",
            "started_seq": "copy.seq",
            "opened_seq": "copy.seq",
            "end_seq": "copy.seq",
            "run_seqs": "ARRAY[copy.seq]",
        },
    ),
)
# What each benchmark has; `n` counts the other benchmarks.
BENCHMARK_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "benchmarks": {"id": "'bench-' || n"},
    "benchmark_agents": {"benchmark_id": "'bench-' || n", "agent_id": f"'agent-' || 1 + n % {AGENTS}"},
    "kpi_definitions": {"id": "template.id || '-' || n", "benchmark_id": "'bench-' || n"},
    "alert_rules": {
        "id": "template.id || '-' || n", "benchmark_id": "'bench-' || n", "agent_id": "NULL",
        "kpi": "template.kpi || '-' || n",
    },
    "alert_states": {"rule_id": "template.rule_id || '-' || n", "agent_id": f"'agent-' || 1 + n % {AGENTS}"},
    "schedule_configs": {"id": "template.id || '-' || n", "benchmark_id": "'bench-' || n"},
}  # fmt: skip


# Each value is an SQL expression of the row number `n`.
EVENT_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "local_datasets": {
        "id": "'set-' || n", "name": "'name-' || n % 100", "run_name": "'run-' || n",
        "collection_id": "1", "trace_count": "1",
    },
    "schedule_fires": {
        "due_at": TIME, "fired_at": TIME, "triggered_by": "'SCHEDULED'", "status": "'STARTED'",
    },
    "notifications": {
        "id": "'message-' || n", "severity": "CASE WHEN n = 7 THEN 'CRITICAL' ELSE 'INFO' END",
        "message": "CAST(:message AS jsonb)",
    },
    "deliveries": {
        "id": "'delivery-' || n", "notification_id": "'message-' || n",
        "status": "CASE WHEN n = 7 THEN 'FAILED' ELSE 'DELIVERED' END",
    },
    "trigger_events": {
        "id": "'event-' || n", "type": "CASE WHEN n = 7 THEN 'agent-updated' ELSE 'new-run' END",
        "status": "CASE WHEN n = 7 THEN 'WAITING' ELSE 'STARTED' END", "benchmark_ids": "'[]'",
        "run_ids": "'[]'",
    },
    "audit_log": {
        "actor_type": "'key'", "actor_id": "'key-' || n % 1000", "action": "'create_agent'",
        "resource_type": "'benchmark-runs'", "resource_id": "'run-' || n", "outcome": "'done'",
        "request_id": "'request-' || n",
    },
}  # fmt: skip


def seed(service: Service) -> JSON:
    """A resource of each kind and the runs that are copied; returns an ID for each parameter of a route."""
    for number in range(1, AGENTS + 1):
        service.create_agent(f"agent-{number}")
    measures = [
        {"name": f"quality {number}", "formula": f"AVERAGE({METRICS[number % 6]}, ROUGE)"}
        for number in range(KPIS)
    ]
    service.create_benchmark(
        BENCHMARK,
        metrics=[*METRICS],
        measures=measures,
        evaluates=[AGENT],
        baseline={"mode": "MEAN_OF_LAST", "runs": BASELINE_RUNS},
        triggers={"agentUpdated": True},
    )
    [kpi, *_] = service.get(f"/benchmarks/{BENCHMARK}/kpis")["items"]
    of_pair = {"name": "n", "benchmarkId": BENCHMARK, "agentId": AGENT}
    rule = service.post("/alert-configs", {**RULE, "name": "regressed", "kpi": kpi["id"]})
    # ROUGE is at most 1, so this rule fires: there are alerts and incidents to copy.
    below = {**RULE, "name": "below", "metric": "ROUGE", "condition": "LESS_THAN", "threshold": 2}
    service.post("/alert-configs", below)
    schedule = service.post("/schedule-configs", {**of_pair, "cronExpression": "0 0 3 * * *"})
    silence = {"matchers": {"name": "never"}, "endsAt": "2099-01-01T00:00:00Z"}
    secret = {"name": "langfuse", "secret": "lf-whsec_" + "a" * 32}
    endpoint = {"channel": "WEBHOOK", "recipient": "http://127.0.0.1:1/nobody"}
    delivery = service.post("/notifications/test", endpoint)
    for number in range(BASELINE_RUNS + TEMPLATES):
        run = new_run(service, f"seed-{number}", ITEMS * TRIALS)
    trace = service.get(f"/benchmark-runs/{run['id']}/results")["items"][0]
    service.patch(f"/agents/{AGENT}", {"description": "answers questions"})
    service.work()
    return {
        "agentId": AGENT,
        "benchmarkId": BENCHMARK,
        "runId": run["id"],
        "traceId": trace["traceId"],
        "kpi": kpi["id"],
        "kpiId": kpi["id"],
        "alertConfigId": rule["id"],
        "ruleId": rule["id"],
        "scheduleId": schedule["id"],
        "silenceId": service.post("/silences", silence)["id"],
        "secretId": service.post("/langfuse-secrets", secret)["id"],
        "webhookId": service.post(f"/benchmarks/{BENCHMARK}/webhook-secrets", {})["id"],
        "keyId": service.post("/keys", {"name": "spare", "role": "read"})["id"],
        "datasetId": service.get("/local-datasets")["items"][0]["id"],
        "deliveryId": delivery["id"],
        "notificationId": delivery["notificationId"],
        "endpointId": delivery["endpointId"],
        "eventId": service.get("/trigger-events")["items"][0]["id"],
        "alertId": service.get("/alerts", state="FIRING")["items"][0]["id"],
        "incidentId": service.get("/incidents")["items"][0]["id"],
    }


def new_run(service: Service, name: str, trace_count: int) -> JSON:
    """A completed run of the first benchmark over traces that no other run has."""
    service.upload(_traces(name, trace_count), name="support", run_name=name)
    run = service.complete_run(benchmarkId=BENCHMARK, agentId=AGENT, runName=name)
    assert run["status"] == "COMPLETED", run
    return run


def _traces(run_name: str, count: int) -> Iterator[JSON]:
    for number in range(count):
        item = number % ITEMS
        yield {
            "traceId": f"{run_name}-{number}",
            "itemId": f"case-{item:03d}",
            "input": f"How are the bikes of case {item} rented? ({run_name})",
            "expectedOutput": expected_of(item),
            "output": output_of(item + len(run_name) + number % 3) + f" {run_name}",
            "latencyMs": 800 + number,
            "inputTokens": 900,
            "outputTokens": 140,
            "costUsd": 0.0041,
        }


def require_space(folder: str, size: HistorySize) -> None:
    """End the benchmark when the disk is too small for the rows."""
    needed, free = size.traces * BYTES_PER_TRACE, shutil.disk_usage(folder).free
    if free < 1.5 * needed:
        raise SystemExit(
            f"{size.traces:,} traces need {needed / 1e9:.1f} GB in {folder}, which has {free / 1e9:.1f} GB free;"
            " set MOSAICO_BENCH_HISTORY_RUNS to a smaller number"
        )


def write_history(superuser_url: str, size: HistorySize) -> None:
    """Copy the seeded runs. The traces are written beside the other tables, by a connection of their own."""
    _execute(
        superuser_url,
        # Before the copies, of which the first is 500 days old.
        "UPDATE benchmark_runs SET created_at = created_at - interval '502 days',"
        " completed_at = completed_at - interval '502 days'",
        "UPDATE kpi_history SET recorded_at = recorded_at - interval '502 days'",
        *_copy_benchmarks(size.benchmarks),
        MAKE_COPIES.format(
            runs=size.runs, benchmarks=size.benchmarks, agents=AGENTS, templates=TEMPLATES
        ),
        "CREATE INDEX ON history_copies (template_seq)",
        "ANALYZE",
    )
    with ThreadPoolExecutor() as threads:
        parts = [
            threads.submit(_execute, superuser_url, *map(_copy_statement, tables))
            for tables in (TRACE_TABLES, RUN_TABLES)
        ]
        for part in parts:
            part.result()
    _execute(superuser_url, "DROP TABLE history_copies", *map(_set_sequence, SEQUENCES))
    _execute(superuser_url, "VACUUM ANALYZE")


def write_events(session: Session, size: HistorySize, ids: JSON) -> None:
    """Rows of the lists beside the runs: uploads, fires, messages, deliveries, events, the audit log."""
    times = {"at": TIME, "created_at": TIME}
    for name, share, changes in (
        ("local_datasets", 1.0, {"agent_id": f"'{AGENT}'"}),
        ("schedule_fires", 0.5, {"schedule_id": f"'{ids['scheduleId']}'"}),
        ("notifications", 0.1, {}),
        ("deliveries", 0.1, {"endpoint_id": f"'{ids['endpointId']}'"}),
        ("trigger_events", 0.1, {}),
        ("audit_log", 1.0, {"at": times["at"]}),
    ):
        insert_rows(
            session, name, {**EVENT_TABLES[name], **changes}, max(1, int(size.runs * share))
        )


def _copy_benchmarks(count: int) -> Iterator[str]:
    for name, changes in BENCHMARK_TABLES.items():
        columns = _columns(METADATA.tables[name], changes)
        yield (
            f"INSERT INTO {name} ({_quoted(columns)}) SELECT {_values(columns, changes)}"
            f" FROM {name} AS template CROSS JOIN generate_series(2, {count}) AS n"
        )


def _copy_statement(table: CopiedTable) -> str:
    columns = _columns(METADATA.tables[table.name], table.changes)
    return (
        f"INSERT INTO {table.name} ({_quoted(columns)}) OVERRIDING SYSTEM VALUE"
        f" SELECT {_values(columns, table.changes)} FROM history_copies AS copy"
        f" JOIN {table.name} AS template ON {table.join} WHERE {table.where}"
    )


def _columns(table: Table, changes: Mapping[str, str]) -> list[str]:
    return [
        column.name for column in table.columns if column.identity is None or column.name in changes
    ]


def _quoted(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _values(columns: list[str], changes: Mapping[str, str]) -> str:
    return ", ".join(changes.get(column, f'template."{column}"') for column in columns)


def _set_sequence(column: tuple[str, str]) -> str:
    table, name = column
    return f"SELECT setval(pg_get_serial_sequence('{table}', '{name}'), (SELECT max({name}) FROM {table}))"


def _execute(url: str, *statements: str) -> None:
    """Each in a transaction of its own, without triggers: foreign keys of copies hold by construction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET work_mem = '64MB'")
        for statement in statements:
            connection.execute(statement.encode())
