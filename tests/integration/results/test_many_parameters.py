"""Statements about more rows than PostgreSQL accepts parameters: 65,535 in a statement."""

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.alerts.models import AlertState
from mosaico.alerts.service import _lock_states
from mosaico.comparison.acceptance import hold_incident, release_incident
from mosaico.core.batches import STATEMENT_ROWS
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.notifications.delivery_jobs import enqueue_due_deliveries
from mosaico.notifications.models import Delivery
from mosaico.notifications.rules import DeliveryStatus
from mosaico.notifications.service import publish
from mosaico.notifications.types import NotificationMessage
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import BaselineHold

PARAMETERS = 65_535
RULES = 8_000


def test_hold_incident__holds_and_releases_any_number_of_runs(migrated_database: Database) -> None:
    seqs = range(1, PARAMETERS + 2)
    with Session(migrated_database.engine) as session:  # nothing is committed
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        run = {"id": "'run-' || n", "benchmark_id": "'b'", "agent_id": "'a'"}
        # Few rows are enough: the numbers in the statement are its parameters.
        insert_rows(session, "benchmark_runs", {**run, "status": "'COMPLETED'"}, 3)

        hold_incident(session, seqs)
        assert count_held(session) == 3
        release_incident(session, seqs, is_noise=False)
        assert count_held(session) == 0


def count_held(session: Session) -> int | None:
    held_runs = select(func.count()).where(BenchmarkRun.baseline_hold == BaselineHold.INCIDENT)
    return session.scalar(held_runs.select_from(BenchmarkRun))


def test_publish__reaches_any_number_of_endpoints(migrated_database: Database) -> None:
    count = 2 * STATEMENT_ROWS + 3
    with Session(migrated_database.engine) as session:  # nothing is committed
        endpoint = {
            "id": "'endpoint-' || n",
            "channel": "'WEBHOOK'",
            "recipient_hash": "'hash-' || n",
            "host": "'host-' || n",
            "disabled_at": "CASE WHEN n = 1 THEN now() END",
        }
        insert_rows(session, "endpoints", endpoint, count)
        message = NotificationMessage(topic="test", title="Test")
        publish(session, message, [f"endpoint-{number}" for number in range(1, count + 1)])

        deliveries = session.scalars(select(Delivery)).all()
        assert len({delivery.endpoint_id for delivery in deliveries}) == count
        [held_delivery] = [
            delivery for delivery in deliveries if delivery.status == DeliveryStatus.HELD
        ]
        assert held_delivery.endpoint_id == "endpoint-1"
        # The tick starts the others.
        started = count_jobs(session)
        assert 0 < started < count
        for _ in range(count):
            enqueue_due_deliveries(session, utc_now())
            if started == (started := count_jobs(session)):
                break
        assert started == count - 1


def count_jobs(session: Session) -> int:
    """The waiting jobs; each has a lock of its own."""
    return session.scalar(text("SELECT count(DISTINCT lock) FROM procrastinate_jobs")) or 0


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
