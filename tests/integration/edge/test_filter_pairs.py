"""Two filters of a list that many rows meet, and few both: every list finds these few, a batch at a time."""

import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.access.queries import AuditFilter, list_audit_entries
from mosaico.alerts.event_queries import AlertFilter, AlertOrder, list_events
from mosaico.alerts.incident_queries import IncidentFilter, list_incidents
from mosaico.alerts.queries import RuleFilter, list_rules
from mosaico.alerts.rules import AlertEventState, IncidentState
from mosaico.core import keyset
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery
from mosaico.kpis.queries import KpiHistoryFilter, list_kpi_history
from mosaico.notifications.queries import DeliveryFilter, list_deliveries
from mosaico.notifications.rules import DeliveryStatus
from mosaico.run_store import run_list
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_list import RunListFilter, count_runs, search_runs
from mosaico.schedules.queries import ScheduleFilter, list_schedules
from mosaico.traces.uploads.queries import UploadFilter, list_local_datasets
from mosaico.triggers.queries import TriggerEventFilter
from mosaico.triggers.queries import list_events as list_trigger_events
from mosaico.triggers.rules import TriggerEventStatus, TriggerEventType

ROWS: Final = 600
BATCH: Final = 50
PAIRED: Final = 3
# Half of the rows have the value A in one column; the other half, and three of the first, have B in another.
A: Final = f"CASE WHEN n <= {ROWS // 2} THEN 'A' ELSE 'x' END"
B: Final = f"CASE WHEN n > {ROWS // 2 - PAIRED} THEN 'B' ELSE 'x' END"
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
# In the first half only the paired rows are younger: the rows are a second apart.
SINCE: Final = START + timedelta(seconds=ROWS // 2 - PAIRED + 1)

QUERY: Final = PageQuery(limit=50)

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "benchmark_runs": {
        "id": "'run-' || n", "benchmark_id": A, "agent_id": B, "triggered_by": "'MANUAL'",
        "status": f"CASE WHEN n <= {ROWS // 2} THEN 'FAILED' ELSE 'COMPLETED' END",
        "schedule_id": B, "run_name": "'nightly'",
    },
    "kpi_history": {
        "run_seq": "n", "run_id": "'run-' || n", "kpi_id": f"'k-' || {A}", "name": B, "benchmark_id": A, "agent_id": B,
        "direction": "'HIGHER_IS_BETTER'", "validity": "'VALID'",
        "recorded_at": "timestamptz '2026-01-01' + n * interval '1 second'",
    },
    "alert_events": {
        "id": "'alert-' || n", "dedup_key": "'alert-' || n", "benchmark_id": A, "agent_id": B, "rule_id": A,
        "state": f"CASE WHEN n <= {ROWS // 2} THEN 'FIRING' ELSE 'RESOLVED' END", "severity": "'WARNING'",
    },
    "incidents": {
        "id": "'incident-' || n", "benchmark_id": A, "agent_id": B, "rule_id": B, "severity": "'WARNING'",
        "condition": "'LESS_THAN'", "state": f"CASE WHEN n <= {ROWS // 2} THEN 'OPEN' ELSE 'RESOLVED' END",
        "opened_at": "timestamptz '2026-01-01' + n * interval '1 second'",
    },
    "audit_log": {
        "actor_type": "'key'", "actor_id": A, "action": B, "resource_type": B, "resource_id": A,
        "outcome": f"CASE WHEN n <= {ROWS // 2} THEN 'refused' ELSE 'done' END",
        "at": "timestamptz '2026-01-01' + n * interval '1 second'",
    },
    "notifications": {"id": "'message-' || n", "severity": "'INFO'", "message": "CAST(:message AS jsonb)"},
    "deliveries": {
        "id": "'delivery-' || n", "notification_id": "'message-' || n", "endpoint_id": B,
        "status": f"CASE WHEN n <= {ROWS // 2} THEN 'FAILED' ELSE 'DELIVERED' END",
    },
    "trigger_events": {
        "id": "'event-' || n", "type": f"CASE WHEN n > {ROWS // 2 - PAIRED} THEN 'webhook' ELSE 'other' END",
        "status": f"CASE WHEN n <= {ROWS // 2} THEN 'WAITING' ELSE 'STARTED' END",
        "benchmark_ids": "'[]'", "run_ids": "'[]'",
        "received_at": "timestamptz '2026-01-01' + n * interval '1 second'",
    },
    "schedule_configs": {
        "id": "'schedule-' || n", "benchmark_id": A, "agent_id": B, "cron_expression": "'0 0 3 * * *'",
        "timezone": "'UTC'", "dst_policy": "'SPRING'", "misfire_policy": "'SKIP'", "concurrency_policy": "'FORBID'",
        "enabled": f"n > {ROWS // 2}",
    },
    "alert_rules": {
        "id": "'rule-' || n", "benchmark_id": A, "agent_id": B, "metric": "'ROUGE'", "condition": "'LESS_THAN'",
        "threshold": "0.5", "severity": "'WARNING'", "channels": "'[]'", "endpoints": "'[]'",
        "no_data": "'NO_DATA'", "enabled": f"n > {ROWS // 2}",
    },
    "local_datasets": {"id": "'set-' || n", "name": A, "run_name": "'run-' || n", "agent_id": B, "trace_count": "1"},
}  # fmt: skip


@pytest.fixture(scope="module")
def tables_in_halves(module_database: Database) -> Database:
    """The tables for all tests of this file."""
    with module_database.begin() as session:
        for name in ("A", "B", "x"):
            insert_rows(session, "agents", {"id": f"'{name}'"})
            insert_rows(session, "benchmarks", {"id": f"'{name}'", "metrics": "'[]'"})
            endpoint = {"id": f"'{name}'", "channel": "'WEBHOOK'", "recipient_hash": f"'{name}'"}
            insert_rows(session, "endpoints", endpoint)
        insert_rows(session, "collections", {"source": "'local'", "query": "'{}'"})
        for benchmark in ("A", "x"):
            # Renamed: its values have two names.
            kpi = {
                "id": f"'k-{benchmark}'",
                "benchmark_id": f"'{benchmark}'",
                "revision": "n",
                "name": "CASE n WHEN 1 THEN 'x' ELSE 'B' END",
                "retired_at": "CASE n WHEN 1 THEN now() END",
            }
            insert_rows(session, "kpi_definitions", kpi, 2)
        for table, columns in TABLES.items():
            insert_rows(session, table, columns, ROWS)
    return module_database


@pytest.fixture
def halves(tables_in_halves: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(keyset, "BATCH_ROWS", BATCH)
    monkeypatch.setattr(keyset, "SEARCH_TIME_S", 60.0)
    monkeypatch.setattr(run_list, "COUNT_TIME_S", 60.0)
    return tables_in_halves


A_AND_B: Final = AlertFilter(benchmark_ids=["A"], agent_ids=["B"])
RUNS_OF_B: Final = RunListFilter(agent_ids=["B"], statuses=[RunStatus.FAILED])
LISTS: Final[Mapping[str, Callable[[Session], Any]]] = {
    "runs of an agent with a status": lambda session: search_runs(
        session, RUNS_OF_B, "-created", QUERY
    ),
    **{
        f"runs of an agent with a status by {sort}": partial(
            search_runs, run_filter=RUNS_OF_B, sort=sort, query=QUERY
        )
        for sort in run_list.SORT_KEYS
    },
    "runs of an agent and a benchmark with a status": lambda session: search_runs(
        session,
        RunListFilter(
            agent_ids=["B"], benchmark_ids=["A"], statuses=[RunStatus.FAILED, RunStatus.RUNNING]
        ),
        "-created",
        QUERY,
    ),
    "runs of a schedule with a status and a text": lambda session: search_runs(
        session,
        RunListFilter(schedule_ids=["B"], statuses=[RunStatus.FAILED], text="nightly"),
        "-created",
        QUERY,
    ),
    "runs with a status in a period": lambda session: search_runs(
        session, RunListFilter(statuses=[RunStatus.FAILED], since=SINCE), "created", QUERY
    ),
    "values of a renamed KPI and an agent": lambda session: list_kpi_history(
        session, QUERY, KpiHistoryFilter(benchmark_ids=["A"], agent_ids=["B"], kpis=["B"])
    ),
    "values of a benchmark and an agent": lambda session: list_kpi_history(
        session, QUERY, KpiHistoryFilter(benchmark_ids=["A"], agent_ids=["B"]), sort="kpi"
    ),
    "values of an agent and two KPIs, one by ID and one by name": lambda session: list_kpi_history(
        session, QUERY, KpiHistoryFilter(agent_ids=["B"], kpis=["k-A", "nobody"])
    ),
    "values of a benchmark in a period": lambda session: list_kpi_history(
        session, QUERY, KpiHistoryFilter(benchmark_ids=["A"], since=SINCE)
    ),
    "alerts of a benchmark and an agent": lambda session: list_events(session, QUERY, A_AND_B),
    "alerts of a rule and an agent by name": lambda session: list_events(
        session, QUERY, AlertFilter(rule_ids=["A"], agent_ids=["B"]), "name"
    ),
    "alerts in a period with a state": lambda session: list_events(
        session, QUERY, AlertFilter(since=SINCE, states=[AlertEventState.FIRING])
    ),
    "incidents of a benchmark and an agent": lambda session: list_incidents(
        session, QUERY, IncidentFilter(benchmark_ids=["A"], agent_ids=["B"])
    ),
    "incidents of a rule with a state": lambda session: list_incidents(
        session, QUERY, IncidentFilter(rule_ids=["B"], states=[IncidentState.OPEN]), "state"
    ),
    "audit entries of an actor with an action": lambda session: list_audit_entries(
        session, QUERY, AuditFilter(actor_id="A", action="B", outcome="refused")
    ),
    "audit entries of a resource": lambda session: list_audit_entries(
        session, QUERY, AuditFilter(resource_type="B", resource_id="A")
    ),
    "audit entries of an actor in a period": lambda session: list_audit_entries(
        session, QUERY, AuditFilter(actor_id="A", since=SINCE)
    ),
    "deliveries to an endpoint with a status": lambda session: list_deliveries(
        session, QUERY, DeliveryFilter(endpoint_id="B", statuses=[DeliveryStatus.FAILED])
    ),
    "events of a type with a status": lambda session: list_trigger_events(
        session,
        QUERY,
        TriggerEventFilter(statuses=[TriggerEventStatus.WAITING], types=[TriggerEventType.WEBHOOK]),
    ),
    "schedules of a benchmark and an agent": lambda session: list_schedules(
        session, QUERY, ScheduleFilter(benchmark_ids=["A"], agent_ids=["B"])
    ),
    "disabled schedules of an agent": lambda session: list_schedules(
        session, QUERY, ScheduleFilter(agent_ids=["B"], enabled=False)
    ),
    "rules of a benchmark and an agent": lambda session: list_rules(
        session, QUERY, RuleFilter(benchmark_ids=["A"], agent_ids=["B"])
    ),
    "uploads of a dataset and an agent": lambda session: list_local_datasets(
        session, QUERY, UploadFilter(name="A", agent_id="B")
    ),
}


def test_lists__two_filters_find_their_few_common_rows(halves: Database) -> None:
    counts = {}
    with halves.read() as session:
        for name, read in LISTS.items():
            page = read(session)
            counts[name] = len(page.items if hasattr(page, "items") else page.rows)
        assert count_runs(session, RUNS_OF_B) == (PAIRED, True)

    assert counts == dict.fromkeys(LISTS, PAIRED)


def test_lists__pages_of_two_filters_have_each_common_row_once(halves: Database) -> None:
    in_order = [f"alert-{ROWS // 2 - number}" for number in range(PAIRED)]
    sorts: list[AlertOrder] = ["created", "-created", "name", "-name", "agent"]
    for sort, limit in itertools.product(sorts, (1, 2, 5)):
        ids: list[str] = []
        query = PageQuery(limit=limit)
        while True:
            with halves.read() as session:
                page = list_events(session, query, A_AND_B, sort)
                ids += [alert.id for alert in page.rows]
            if page.next_cursor is None:
                break
            query = PageQuery(limit=limit, cursor=page.next_cursor)

        assert ids == (in_order if sort.startswith("-") else in_order[::-1]), (sort, limit)
