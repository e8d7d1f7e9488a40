"""Endpoints are deleted, but not those that something notifies."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from mosaico.alerts import rule_service
from mosaico.alerts.models import AlertRule
from mosaico.alerts.schemas import AlertConfigCreate
from mosaico.core.batch_delete import delete_batch
from mosaico.jobs import row_deletion
from mosaico.jobs.declarations import DropDeliveries
from mosaico.jobs.handlers import JobContext, WorkerStopping
from mosaico.notifications import endpoints
from mosaico.notifications import queries as notification_queries
from mosaico.notifications.endpoint_users import EndpointInUse
from mosaico.notifications.models import Delivery
from mosaico.notifications.service import publish
from mosaico.notifications.tasks import drop_deliveries, tick
from mosaico.notifications.types import NotificationMessage
from mosaico.notifications.views import list_delivery_rows
from tests.support.processes import until
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

RECIPIENT = "team@example.com"
RULE = {
    "name": "quality falls",
    "benchmarkId": "bench-001",
    "kpi": "quality",
    "condition": "REGRESSED",
    "channels": ["EMAIL"],
    "recipients": [RECIPIENT],
}


def waits_for_a_lock(service: Service) -> bool:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with service.resources.db.read() as session:
        return bool(session.scalar(waiting))


@pytest.fixture
def endpoint_id(service: Service) -> str:
    body = {"channel": "EMAIL", "recipient": RECIPIENT}
    return str(service.post("/endpoints", body)["id"])


def send_tests(service: Service, recipient: str, count: int) -> list[str]:
    """Publish test messages; returns the IDs of their deliveries."""
    body = {"channel": "EMAIL", "recipient": recipient}
    return [str(service.post("/notifications/test", body)["id"]) for _ in range(count)]


def stored_deliveries(service: Service) -> set[str]:
    with service.resources.db.read() as session:
        return set(session.scalars(select(Delivery.id)))


def test_delete__unused_endpoint_is_hidden_with_its_deliveries_which_a_job_deletes(
    service: Service, endpoint_id: str
) -> None:
    [deleted_id], [other_id] = send_tests(service, RECIPIENT, 1), send_tests(service, "b@x.org", 1)
    assert service.send("DELETE", f"/endpoints/{endpoint_id}").status_code == 204
    assert [endpoint["recipient"] for endpoint in service.get("/endpoints")["items"]] == ["b@x.org"]
    assert [delivery["id"] for delivery in service.get("/deliveries")["items"]] == [other_id]
    assert service.get("/deliveries", endpointId=endpoint_id)["items"] == []
    service.expect_problem(404, "GET", f"/deliveries/{deleted_id}")
    service.expect_problem(404, "POST", f"/deliveries/{deleted_id}/redeliver")
    service.expect_problem(404, "DELETE", f"/endpoints/{endpoint_id}")
    assert stored_deliveries(service) == {deleted_id, other_id}
    # The job of the hidden delivery finds nothing to do.
    service.work()
    assert stored_deliveries(service) == {other_id}


def test_delete__pages_of_its_messages_and_the_tick_go_on_without_it(
    service: Service, endpoint_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_tests(service, RECIPIENT, 1)
    list_next_deliveries = notification_queries.list_next_deliveries
    with service.resources.db.begin() as session:
        notification_id = session.scalars(select(Delivery.notification_id)).one()
        session.execute(update(Delivery).values(due_at=func.now()))

    def delete_meanwhile(session: Session, now: datetime | None) -> list[str]:
        delivery_ids = list_next_deliveries(session, now)
        service.send("DELETE", f"/endpoints/{endpoint_id}")
        return delivery_ids

    monkeypatch.setattr(notification_queries, "list_next_deliveries", delete_meanwhile)
    tick(service.resources)
    with service.resources.db.read() as session:
        assert list_delivery_rows(session, notification_id) == []


def test_drop_deliveries__deletes_in_batches_and_resumes_after_an_interruption(
    service: Service, endpoint_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_deletion, "delete_batch", partial(delete_batch, batch_rows=2))
    send_tests(service, RECIPIENT, 5)
    service.send("DELETE", f"/endpoints/{endpoint_id}")
    # A stop after the first batch of two.
    stops = iter([False, True])
    job = JobContext(
        resources=service.resources, pool=service.pool, is_stopping=lambda: next(stops)
    )
    with pytest.raises(WorkerStopping):
        drop_deliveries(job, DropDeliveries(endpoint_id=endpoint_id))
    assert len(stored_deliveries(service)) == 3
    service.work()
    assert stored_deliveries(service) == set()


def test_delete__endpoint_of_a_rule_names_the_rule(service: Service, endpoint_id: str) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
    rule = service.post("/alert-configs", RULE)
    problem = service.expect_problem(409, "DELETE", f"/endpoints/{endpoint_id}")
    assert problem["type"] == "/problems/endpoint-in-use"
    assert (
        f"the alert rules 'quality falls' ({rule['id']}) notify this endpoint" in problem["detail"]
    )
    service.send("DELETE", f"/alert-configs/{rule['id']}")
    assert service.send("DELETE", f"/endpoints/{endpoint_id}").status_code == 204


def delete_during(
    service: Service, endpoint_id: str, write: Callable[[Session], object]
) -> Future[None]:
    """Delete an endpoint while a transaction that writes is open; the deletion waits for its end."""
    db = service.resources.db

    def delete() -> None:
        with db.begin() as session:
            endpoints.delete_endpoint(session, endpoint_id)

    with ThreadPoolExecutor(1) as threads:
        with db.begin() as session:
            write(session)
            deletion = threads.submit(delete)
            until(lambda: waits_for_a_lock(service), what="the deletion waits")
            assert not deletion.done()
        return deletion


def test_delete__waits_for_a_rule_that_is_being_stored(service: Service, endpoint_id: str) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
    rule, secrets = AlertConfigCreate.model_validate(RULE), service.resources.secrets
    deletion = delete_during(
        service, endpoint_id, lambda session: rule_service.create_rule(session, rule, secrets)
    )
    with pytest.raises(EndpointInUse):
        deletion.result(LIVENESS_S)
    with service.resources.db.read() as session:
        assert session.scalars(select(AlertRule.endpoints)).all() == [[endpoint_id]]


def test_delete__waits_for_a_message_that_is_being_published(
    service: Service, endpoint_id: str
) -> None:
    message = NotificationMessage(topic="test", title="Test")
    deletion = delete_during(
        service, endpoint_id, lambda session: publish(session, message, [endpoint_id])
    )
    deletion.result(LIVENESS_S)
    assert len(stored_deliveries(service)) == 1
    service.work()
    assert stored_deliveries(service) == set()
