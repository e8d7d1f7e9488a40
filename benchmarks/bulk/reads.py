"""B11: the reads of a page, a tick or an evaluation that have no page of their own, with a million rows of what grows.

Each is executed in a transaction that is rolled back; its slowest statement counts.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from benchmarks.bulk.timings import ROWS, Timing, time_statements
from benchmarks.list_rows import NAMES, TABLES
from benchmarks.table_rows import TIME, insert_rows
from mosaico.access.models import ApiKey
from mosaico.access.queries import MAX_COUNTED, count_usable_keys
from mosaico.access.rules import ROLES
from mosaico.access.service import _first_key_state, _is_last_admin
from mosaico.access.sessions import create_login_link
from mosaico.agents.models import Agent
from mosaico.alerts import event_queries, inbox_view, missing_runs, silence_queries
from mosaico.alerts import queries as alert_queries
from mosaico.alerts.confirmations import find_waiting, settle_overdue
from mosaico.alerts.incident_queries import (
    MAX_SPANS,
    ValueSeries,
    excluded_runs,
    list_incidents_of_kpi,
    list_open_incidents_of_run,
)
from mosaico.alerts.rule_records import MAX_FIRED, read_records
from mosaico.alerts.rule_service import MAX_RULES
from mosaico.alerts.silences import MAX_SILENCES
from mosaico.comparison.baselines import list_pinned_baselines
from mosaico.core.batches import STATEMENT_ROWS
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.keyset import MAX_LIMIT, PageQuery
from mosaico.core.migrations import upgrade
from mosaico.core.row_windows import WINDOW_ROWS, RowWindow
from mosaico.doctor import list_langfuse_agents
from mosaico.notifications.queries import list_summary_endpoints
from mosaico.overview.queries import read_overview
from mosaico.overview.system_checks import read_stored_state
from mosaico.run_store.run_list import RunListFilter, search_runs
from mosaico.schedules import queries as schedule_queries
from mosaico.triggers import queries as trigger_queries
from mosaico.triggers.rules import MAX_SECRETS

RULES: Final = 200
SCHEDULES: Final = 1_000
# The times of the rows end before it.
NOW: Final = datetime(2026, 1, 20, tzinfo=UTC)
# Batches of a tick that goes on for as long as there are rows.
TICK_BATCHES: Final = 20

# Parents first. Each agent has a run and a state of a rule; one message has every alert and every delivery.
_ROWS_OF_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    # Half of the keys of each role are revoked or have expired.
    "api_keys": {
        "id": "'key-' || n",
        "role": "(ARRAY['read', 'run', 'admin'])[n % 3 + 1]",
        "revoked_at": f"CASE WHEN n % 4 = 0 THEN {TIME} END",
        "expires_at": f"CASE WHEN n % 4 = 1 THEN {TIME} WHEN n % 4 = 2 THEN timestamptz '2030-01-01' END",
    },
    "agents": {
        "id": "'agent-' || n",
        "name": "'agent-' || n",
        "langfuse_secret_key": "repeat('x', 100)",
    },
    "benchmarks": {
        "id": "'bench-' || n",
        "metrics": "'[]'",
        "triggers": "'{\"langfuse\": [{\"event\": \"remote-experiment\"}]}'",
    },
    "benchmark_runs": {
        "id": "'run-' || n",
        "benchmark_id": "'b'",
        "agent_id": "'agent-' || n",
        "status": "'COMPLETED'",
        "triggered_by": "'MANUAL'",
        "validity": "'VALID'",
        "completed_at": TIME,
    },
    "alert_rules": {
        **TABLES["alert_rules"],
        "metric": "NULL",
        "kpi": "CASE WHEN n % 2 = 0 THEN 'k' ELSE 'kpi-' || n END",
        "condition": "CASE WHEN n % 2 = 0 THEN 'LESS_THAN' ELSE 'REGRESSED' END",
        "benchmark_id": "'b'",
        "agent_id": "CASE WHEN n > 1 THEN 'agent-' || n END",
        "enabled": "true",
        "max_hours_without_run": "1",
        "endpoints": "CASE WHEN n = 7 THEN '[\"endpoint-7\"]' WHEN n % 2 = 0 THEN '[\"endpoint-2\"]' ELSE '[\"endpoint-1\"]' END::jsonb",
    },
    "alert_states": {
        "rule_id": f"'rule-' || (n - 1) / {max(1, ROWS // RULES)} + 1",
        "agent_id": f"'agent-' || (n - 1) % {max(1, ROWS // RULES)} + 1",
        "run_seq": "n",
        "state": "'OK'",
    },
    "endpoints": {**TABLES["endpoints"], "daily_summary": "true"},
    "alert_events": {
        **TABLES["alert_events"],
        **NAMES,
        "state": "'FIRING'",
        "verdict": "NULL",
        "publish_by": f"CASE WHEN n % 2 = 0 THEN {TIME} END",
        "run_id": "'run-1'",
        "notification_id": "'message-1'",
        "details": "'{\"valueName\": \"ROUGE\"}'",
    },
    # Of one value of one agent: each lasted two runs.
    "incidents": {
        **TABLES["incidents"],
        **NAMES,
        "kpi": "'k'",
        "metric": "NULL",
        "condition": "'REGRESSED'",
        "state": "'RESOLVED'",
        "started_seq": "3 * n",
        "end_seq": "3 * n + 2",
        "resolved_at": TIME,
    },
    "webhook_secrets": {
        **TABLES["webhook_secrets"],
        "expires_at": f"CASE WHEN n > {2 * MAX_SECRETS} THEN {TIME} END",
    },
    "deliveries": {
        "id": "'delivery-' || n",
        "notification_id": "'message-1'",
        "endpoint_id": "'endpoint-' || n",
        "status": "'DELIVERED'",
    },
    "schedule_fires": {
        **TABLES["schedule_fires"],
        "schedule_id": f"CASE WHEN n % 2 = 0 THEN 'schedule-0' ELSE 'schedule-' || n % {SCHEDULES} END",
        "status": "CASE WHEN n % 2 = 0 THEN 'STARTED' ELSE 'SKIPPED' END",
        "reason": "CASE WHEN n % 2 = 1 THEN 'MISSED' END",
        "run_id": "CASE WHEN n % 2 = 0 THEN 'run-' || n END",
        "settled_at": f"CASE WHEN n % 2 = 0 THEN {TIME} END",
    },
    "benchmark_baselines": {
        "benchmark_id": "'b'",
        "agent_id": "'agent-' || n",
        "run_id": "'run-' || n",
        "pinned_at": TIME,
    },
    "alert_silences": {
        **TABLES["alert_silences"],
        "matchers": "'{\"benchmarkId\": \"b\"}'",
        "ends_at": f"CASE WHEN n <= {MAX_SILENCES} THEN timestamptz '2030-01-01' ELSE {TIME} END",
    },
}  # fmt: skip
# As many as may judge the agent of a benchmark.
_RULES_OF_AGENT: Final = {
    **TABLES["alert_rules"],
    "id": "'judge-' || n",
    "benchmark_id": "'bench-1'",
    "agent_id": f"CASE WHEN n > {MAX_RULES} THEN 'agent-1' END",
    "enabled": "true",
}


def fill_reads(url: str) -> None:
    """Fill each table with `ROWS` rows."""
    upgrade(url)
    db = Database(url, pool_size=1, name="bench-reads")
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        insert_rows(session, "notifications", {**TABLES["notifications"], "in_inbox": "true"})
        for name, columns in _ROWS_OF_TABLES.items():
            insert_rows(session, name, columns, ROWS)
        insert_rows(session, "alert_rules", _RULES_OF_AGENT, 2 * MAX_RULES)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
    db.dispose()


def _read_states(session: Session) -> None:
    rule_ids = [f"rule-{number}" for number in range(1, RULES + 1)]
    states = alert_queries.states_by_rule(session, rule_ids)
    assert len(states) == RULES


def _read_overview(session: Session) -> None:
    overview = read_overview(session, NOW - timedelta(days=30), NOW)
    assert overview.cells
    assert overview.missed_fires


def _search_runs(sort: str, session: Session) -> None:
    page = search_runs(session, RunListFilter(), sort, PageQuery())
    search_runs(session, RunListFilter(text="nothing"), sort, PageQuery(cursor=page.next_cursor))


def _find_missing_runs(session: Session) -> None:
    """A tick that finds no gap: that of the rule about every agent, and of the rules of one agent each."""
    for expected in (
        missing_runs.iter_expected(session),
        (missing_runs.ExpectedAgent(f"rule-{n}", f"agent-{n}") for n in range(2, ROWS)),
    ):
        for _ in range(TICK_BATCHES):
            batch = list(islice(expected, STATEMENT_ROWS))
            assert not missing_runs.find_gaps(session, batch, datetime(2020, 1, 1, tzinfo=UTC))


def _report_missing_runs(session: Session) -> None:
    assert missing_runs.find_gaps(
        session, list(islice(missing_runs.iter_expected(session), STATEMENT_ROWS)), NOW
    )


def _find_users(endpoint_id: str, session: Session) -> None:
    alert_queries.find_endpoint_users(session, endpoint_id)


def _read_inbox(session: Session) -> None:
    page = inbox_view.list_entries(session, PageQuery(MAX_LIMIT), inbox_view.InboxFilter())
    [entry] = page.rows
    assert len(entry.events) == len(entry.deliveries) == inbox_view.MAX_LISTED


def _read_message(session: Session) -> None:
    batches = inbox_view.iter_events(session, "message-1")
    assert len(list(islice(batches, TICK_BATCHES))) == min(TICK_BATCHES, ROWS // STATEMENT_ROWS + 1)


def _read_silences(session: Session) -> None:
    assert len(silence_queries.list_active_silences(session, utc_now())) == MAX_SILENCES


def _find_langfuse_benchmarks(session: Session) -> None:
    batches = trigger_queries.iter_benchmarks_with_rules(session, None)
    assert len(list(islice(batches, TICK_BATCHES))) == min(TICK_BATCHES, ROWS // STATEMENT_ROWS + 1)


def _count_series(session: Session) -> None:
    assert alert_queries.count_series(session) == min(ROWS - RULES // 2, alert_queries.MAX_SERIES)


def _settle_schedule(session: Session) -> None:
    assert not schedule_queries.list_active_runs(session, "schedule-0")
    assert not schedule_queries.list_unsettled_ends(session, "schedule-0")


def _find_confirmations(session: Session) -> None:
    settle_overdue(session, utc_now())
    assert not find_waiting(session, "run-7")


def _read_keys(session: Session) -> None:
    assert _first_key_state(session, None, now=NOW).has_other_admin
    key = session.get(ApiKey, "key-2")
    assert key is not None
    assert not _is_last_admin(session, key, at=NOW)
    for role in ROLES:
        assert count_usable_keys(session, role, NOW) == min(MAX_COUNTED, ROWS // 6)
    assert create_login_link(session, NOW) is not None


def _list_excluded_runs(session: Session) -> None:
    series = ValueSeries("b", "a", "k", None)
    assert len(excluded_runs(session, series)) == MAX_SPANS
    assert not excluded_runs(session, series._replace(kpi="none"))
    assert not list_open_incidents_of_run(session, "b", "a", 3 * ROWS)


def _list_incidents_of_kpi(session: Session) -> None:
    """The last days, and days before the first incident."""
    for since in (NOW - timedelta(days=30), NOW):
        list_incidents_of_kpi(session, "b", "a", "k", (since, None), limit=20)


def _list_rules(session: Session) -> None:
    rules = alert_queries.list_enabled_rules(session, "bench-1", "agent-1")
    assert len(rules) == 2 * MAX_RULES


def _find_kpi_watchers(session: Session) -> None:
    for kpi, need_direction, count in (
        ("k", False, alert_queries.MAX_USERS),
        ("k", True, 0),
        ("kpi-7", True, 1),
        ("none", False, 0),
    ):
        watchers = alert_queries.find_kpi_watchers(
            session, "b", [kpi], need_direction=need_direction
        )
        assert len(watchers) == count


def _lock_gathered_events(session: Session) -> None:
    assert event_queries.find_gathering_agent(session, "") == "a"
    assert event_queries.find_gathering_agent(session, "a") is None
    events = event_queries.lock_gathered_events(session, "a")
    assert len(events) == event_queries.MAX_GATHERED


def _read_records(session: Session) -> None:
    rule_ids = [f"rule-{number}" for number in range(1, RULES + 1)]
    [record] = read_records(session, rule_ids, NOW).values()
    assert record.fired == MAX_FIRED


def _list_secrets(session: Session) -> None:
    for owner in ("b", None):
        secrets = trigger_queries.list_active_secrets(session, owner, NOW)
        assert 0 < len(secrets) <= MAX_SECRETS


def _list_langfuse_agents(session: Session) -> None:
    keys = select(Agent.id).order_by(Agent.id).limit(WINDOW_ROWS)
    last = session.scalar(select(func.max(keys.subquery().c.id)))
    assert len(list_langfuse_agents(session, RowWindow(None, last))) >= min(ROWS, WINDOW_ROWS) - 1


READS: Final[Mapping[str, Callable[[Session], object]]] = {
    f"states of {RULES} rules": _read_states,
    "overview": _read_overview,
    "runs by agent": partial(_search_runs, "agent"),
    "runs by agent, descending": partial(_search_runs, "-agent"),
    "runs by benchmark": partial(_search_runs, "benchmark"),
    "runs by benchmark, descending": partial(_search_runs, "-benchmark"),
    "agents with a recent run": _find_missing_runs,
    "agents without a recent run": _report_missing_runs,
    "rules of an endpoint of half of them": partial(_find_users, "endpoint-1"),
    "rules of an endpoint of one": partial(_find_users, "endpoint-7"),
    "rules of an endpoint of none": partial(_find_users, "endpoint-9"),
    "inbox": _read_inbox,
    "alerts of a message": _read_message,
    "endpoints of the daily summary": list_summary_endpoints,
    f"{MAX_SILENCES:,} silences": _read_silences,
    "series of the false alarms": _count_series,
    "waiting repetitions": _find_confirmations,
    "runs of a schedule": _settle_schedule,
    "state of the system": partial(read_stored_state, now=NOW, is_pooled=False),
    "benchmarks with rules for Langfuse": _find_langfuse_benchmarks,
    "benchmarks that read an upload": partial(
        trigger_queries.find_benchmarks_for_upload, name="x", run_name=None
    ),
    "API keys": _read_keys,
    "runs without those of incidents": _list_excluded_runs,
    "incidents of a KPI": _list_incidents_of_kpi,
    f"{2 * MAX_RULES:,} rules of an agent": _list_rules,
    "rules of a KPI": _find_kpi_watchers,
    f"{event_queries.MAX_GATHERED:,} gathered alerts": _lock_gathered_events,
    f"records of {RULES} rules": _read_records,
    "webhook secrets": _list_secrets,
    f"keys of {WINDOW_ROWS:,} agents": _list_langfuse_agents,
    "pinned baselines": partial(list_pinned_baselines, benchmark_id="b"),
}


def time_reads(db: Database) -> Iterator[Timing]:
    for name, read in READS.items():
        yield time_statements(name, db, read)
