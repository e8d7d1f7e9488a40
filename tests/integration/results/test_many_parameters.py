"""Statements about more rows than PostgreSQL accepts parameters: 65,535 in a statement."""

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.alerts.models import AlertState
from app.alerts.service import _lock_states
from app.core.clock import utc_now
from app.core.db import Database
from app.triggers import queries
from app.triggers.models import SourceSubscription
from app.triggers.polling import POLL_BATCH, enqueue_due_polls
from benchmarks.table_rows import insert_rows

AGENTS = 33_000
RULES = 8_000


def test_enqueue_due_polls__stores_any_number_of_subscriptions(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "lock_due_subscriptions", lambda *_: {})
    with Session(migrated_database.engine) as session:  # nothing is committed
        insert_rows(session, "agents", {"id": "'agent-' || n"}, AGENTS)
        benchmark = {
            "id": "'b'",
            "metrics": "'[]'",
            "triggers": """'{"newRun": {"pattern": "*"}}'""",
        }
        insert_rows(session, "benchmarks", benchmark)
        insert_rows(session, "benchmark_agents", {"benchmark_id": "'b'", "agent_id": "'agent-' || n"}, AGENTS)  # fmt: skip
        for _ in range(2):
            enqueue_due_polls(session, utc_now())

        assert session.scalar(select(func.count()).select_from(SourceSubscription)) == AGENTS


def test_lock_states__creates_the_states_of_any_number_of_rules(
    migrated_database: Database,
) -> None:
    with Session(migrated_database.engine) as session:  # nothing is committed
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        rule = {"id": "'rule-' || n", "benchmark_id": "'b'", "agent_id": "NULL"}
        insert_rows(session, "alert_rules", rule, RULES)
        rule_ids = [f"rule-{number}" for number in range(1, RULES + 1)]
        for _ in range(2):
            states = _lock_states(session, rule_ids, "a", utc_now())

        assert sorted(states) == sorted(rule_ids)
        assert session.scalar(select(func.count()).select_from(AlertState)) == RULES


def test_enqueue_due_polls__one_transaction_enqueues_a_bounded_number(
    migrated_database: Database,
) -> None:
    with Session(migrated_database.engine) as session:  # nothing is committed
        insert_rows(session, "agents", {"id": "'agent-' || n"}, 2 * POLL_BATCH + 3)
        triggers = """'{"newRun": {"pattern": "*"}}'"""
        benchmark = {"id": "'b'", "metrics": "'[]'", "triggers": triggers}
        insert_rows(session, "benchmarks", benchmark)
        pairs = {"benchmark_id": "'b'", "agent_id": "'agent-' || n"}
        insert_rows(session, "benchmark_agents", pairs, 2 * POLL_BATCH + 3)

        due = [enqueue_due_polls(session, utc_now()) for _ in range(4)]

        assert due == [POLL_BATCH, POLL_BATCH, 3, 0]
