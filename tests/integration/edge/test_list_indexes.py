"""The lists and their indexes: a list without a filter or with one, in each of its orders, is read without a sort.

With sorts disabled, Postgres sorts only where no index has the order.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from mosaico.access.queries import AuditFilter, list_audit_entries, list_keys
from mosaico.agents.queries import list_agents
from mosaico.alerts import event_queries, incident_queries
from mosaico.alerts.event_queries import AlertFilter, list_events
from mosaico.alerts.incident_queries import IncidentFilter, list_incidents
from mosaico.alerts.queries import RuleFilter, list_rules
from mosaico.alerts.rules import AlertEventState, IncidentState
from mosaico.alerts.silence_queries import SilenceFilter, list_silences
from mosaico.benchmarks.queries import list_benchmarks, list_revisions
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, encode_cursor
from mosaico.kpis import queries as kpi_queries
from mosaico.kpis.queries import KpiHistoryFilter, list_kpi_history
from mosaico.notifications.queries import (
    DeliveryFilter,
    EndpointFilter,
    list_deliveries,
    list_endpoints,
    list_notifications,
)
from mosaico.notifications.rules import DeliveryStatus
from mosaico.overview.schemas import SearchKind
from mosaico.overview.search import search_names
from mosaico.run_store import run_list
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_list import RunListFilter, search_runs
from mosaico.schedules.queries import ScheduleFilter, list_fires, list_schedules
from mosaico.statistics.verdict_rules import Verdict
from mosaico.traces.uploads.queries import UploadFilter, list_local_datasets
from mosaico.triggers.queries import TriggerEventFilter
from mosaico.triggers.queries import list_events as list_trigger_events
from mosaico.triggers.rules import TriggerEventStatus, TriggerEventType

NOW: Final = datetime(2026, 11, 23, 6, tzinfo=UTC)
PAGE: Final = PageQuery()

Read = Callable[[Session], Any]


def of_runs(run_filter: RunListFilter, sort: str = "-created", query: PageQuery = PAGE) -> Read:
    return partial(search_runs, run_filter=run_filter, sort=sort, query=query)


def of_values(history_filter: KpiHistoryFilter, sort: Any = "-recorded") -> Read:
    return partial(list_kpi_history, query=PAGE, history_filter=history_filter, sort=sort)


def of_alerts(alert_filter: AlertFilter, sort: Any = "-created") -> Read:
    return partial(list_events, query=PAGE, alert_filter=alert_filter, sort=sort)


def of_incidents(incident_filter: IncidentFilter, sort: Any = "-opened") -> Read:
    return partial(list_incidents, query=PAGE, incident_filter=incident_filter, sort=sort)


def of_audit(audit_filter: AuditFilter) -> Read:
    return partial(list_audit_entries, query=PAGE, filters=audit_filter)


LISTS: Final[Mapping[str, Read]] = {
    **{f"runs by {sort}": of_runs(RunListFilter(), sort) for sort in run_list.SORT_KEYS},
    "runs after a cursor": of_runs(RunListFilter(), query=PageQuery(cursor=encode_cursor([7]))),
    "runs of an agent after a cursor": of_runs(
        RunListFilter(agent_ids=["a"]), query=PageQuery(cursor=encode_cursor([7]))
    ),
    "runs by agent after a cursor": of_runs(
        RunListFilter(), "agent", PageQuery(cursor=encode_cursor(["bot", "a", 7]))
    ),
    "runs of an agent": of_runs(RunListFilter(agent_ids=["a"])),
    "runs of an agent by agent": of_runs(RunListFilter(agent_ids=["a"]), "agent"),
    "runs of a benchmark": of_runs(RunListFilter(benchmark_ids=["b"])),
    "runs of a benchmark and an agent": of_runs(
        RunListFilter(benchmark_ids=["b"], agent_ids=["a"])
    ),
    "runs of a schedule": of_runs(RunListFilter(schedule_ids=["s"])),
    "runs with a status": of_runs(RunListFilter(statuses=[RunStatus.FAILED])),
    "runs with a verdict": of_runs(RunListFilter(verdicts=[Verdict.REGRESSED])),
    "runs of a period": of_runs(RunListFilter(since=NOW, until=NOW)),
    "runs with a text": of_runs(RunListFilter(text="x")),
    **{
        f"KPI values by {sort}": of_values(KpiHistoryFilter(), sort)
        for sort in kpi_queries.SORT_KEYS
    },
    "KPI values of a benchmark": of_values(KpiHistoryFilter(benchmark_ids=["b"], since=NOW)),
    "KPI values of an agent": of_values(KpiHistoryFilter(agent_ids=["a"], until=NOW)),
    "KPI values of both": of_values(KpiHistoryFilter(benchmark_ids=["b"], agent_ids=["a"])),
    "KPI values with a name": of_values(KpiHistoryFilter(kpis=["quality"])),
    **{f"alerts by {sort}": of_alerts(AlertFilter(), sort) for sort in event_queries.SORT_KEYS},
    "alerts of a rule": of_alerts(AlertFilter(rule_ids=["r"])),
    "alerts of an agent": of_alerts(AlertFilter(agent_ids=["a"])),
    "alerts of a benchmark": of_alerts(AlertFilter(benchmark_ids=["b"], since=NOW)),
    "alerts with a state": of_alerts(AlertFilter(states=[AlertEventState.FIRING])),
    **{
        f"incidents by {sort}": of_incidents(IncidentFilter(), sort)
        for sort in incident_queries.SORT_KEYS
    },
    "incidents of a rule": of_incidents(IncidentFilter(rule_ids=["r"])),
    "incidents of an agent": of_incidents(IncidentFilter(agent_ids=["a"])),
    "incidents of a benchmark": of_incidents(IncidentFilter(benchmark_ids=["b"])),
    "incidents with a state": of_incidents(IncidentFilter(states=[IncidentState.OPEN])),
    "rules": partial(list_rules, query=PAGE, rule_filter=RuleFilter()),
    "rules of a benchmark": partial(
        list_rules, query=PAGE, rule_filter=RuleFilter(benchmark_ids=["b"])
    ),
    "disabled rules": partial(list_rules, query=PAGE, rule_filter=RuleFilter(enabled=False)),
    "silences": partial(list_silences, query=PAGE, silence_filter=SilenceFilter(), now=NOW),
    "audit entries": of_audit(AuditFilter()),
    "audit entries of an actor": of_audit(AuditFilter(actor_id="k", since=NOW)),
    "audit entries of an action": of_audit(AuditFilter(action="create_agent")),
    "audit entries of a type": of_audit(AuditFilter(resource_type="agents")),
    "audit entries of a resource": of_audit(AuditFilter(resource_id="a")),
    "refused audit entries": of_audit(AuditFilter(outcome="refused")),
    "API keys": partial(list_keys, query=PAGE),
    "agents": partial(list_agents, query=PAGE, archived=False),
    "benchmarks": partial(list_benchmarks, query=PAGE, archived=True),
    "revisions": partial(list_revisions, benchmark_id="b", query=PAGE),
    "messages": partial(list_notifications, query=PAGE),
    "unread messages": partial(list_notifications, query=PAGE, unread=True),
    "read messages": partial(list_notifications, query=PAGE, unread=False),
    "endpoints": partial(list_endpoints, query=PAGE, endpoint_filter=EndpointFilter()),
    "deliveries": partial(list_deliveries, query=PAGE, delivery_filter=DeliveryFilter()),
    "deliveries with a status": partial(
        list_deliveries,
        query=PAGE,
        delivery_filter=DeliveryFilter(statuses=[DeliveryStatus.FAILED]),
    ),
    "events": partial(list_trigger_events, query=PAGE, event_filter=TriggerEventFilter()),
    "events with a status": partial(
        list_trigger_events,
        query=PAGE,
        event_filter=TriggerEventFilter(statuses=[TriggerEventStatus.WAITING]),
    ),
    "events of a type": partial(
        list_trigger_events,
        query=PAGE,
        event_filter=TriggerEventFilter(types=[TriggerEventType.WEBHOOK]),
    ),
    "schedules": partial(list_schedules, query=PAGE, schedule_filter=ScheduleFilter()),
    "schedules of an agent": partial(
        list_schedules, query=PAGE, schedule_filter=ScheduleFilter(agent_ids=["a"])
    ),
    "schedules of a benchmark": partial(
        list_schedules, query=PAGE, schedule_filter=ScheduleFilter(benchmark_ids=["b"])
    ),
    "disabled schedules": partial(
        list_schedules, query=PAGE, schedule_filter=ScheduleFilter(enabled=False)
    ),
    **{f"names of {kind}": partial(search_names, text="x", kind=kind) for kind in SearchKind},
    "fires": partial(list_fires, schedule_id="s", query=PAGE),
    "uploads": partial(list_local_datasets, query=PAGE, upload_filter=UploadFilter()),
    "uploads of a dataset": partial(
        list_local_datasets, query=PAGE, upload_filter=UploadFilter(name="d")
    ),
    "uploads of an agent": partial(
        list_local_datasets, query=PAGE, upload_filter=UploadFilter(agent_id="a")
    ),
}
# An index has the owners in order, and another one the runs of each: Postgres sorts the runs of one owner at a time.
BY_OWNER: Final = {"runs by agent", "runs by benchmark", "runs by agent after a cursor"}


class Statement(NamedTuple):
    """A statement with its parameters, as the driver gets it."""

    sql: str
    parameters: Any


@contextmanager
def sent_statements(db: Database) -> Iterator[list[Statement]]:
    statements: list[Statement] = []

    def note(_connection: Any, _cursor: Any, sql: str, parameters: Any, *_: object) -> None:
        statements.append(Statement(sql, parameters))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def explain(connection: Connection, statement: Statement, *disabled_methods: str) -> str:
    for method in disabled_methods:
        connection.exec_driver_sql(f"SET LOCAL enable_{method} = off")
    lines = connection.exec_driver_sql(f"EXPLAIN {statement.sql}", statement.parameters)
    return "\n".join(lines.scalars())


@pytest.mark.parametrize("name", LISTS)
def test_list__is_read_in_the_order_of_an_index(module_database: Database, name: str) -> None:
    with sent_statements(module_database) as statements, module_database.read() as session:
        LISTS[name](session)
    methods = ["sort"] if name in BY_OWNER else ["sort", "incremental_sort"]
    with module_database.engine.begin() as connection:
        plans = [
            explain(connection, statement, *methods)
            for statement in statements
            if "ORDER BY" in statement.sql
        ]

    assert plans
    sorts = [plan for plan in plans if "Sort Key" in plan]
    assert [plan for plan in sorts if name not in BY_OWNER or "Presorted Key" not in plan] == []
