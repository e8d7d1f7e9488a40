"""Endpoints are deleted, but not those that something notifies."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text

from app.alerts import rule_service
from app.alerts.models import AlertRule
from app.alerts.schemas import AlertConfigCreate
from app.notifications import endpoints
from app.notifications.endpoint_users import EndpointInUse
from app.notifications.models import Delivery
from tests.support.processes import until
from tests.support.service import Service

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


def test_delete__unused_endpoint_goes_with_its_deliveries(
    service: Service, endpoint_id: str
) -> None:
    service.post("/notifications/test", {"channel": "EMAIL", "recipient": RECIPIENT})
    assert len(service.get("/deliveries")["items"]) == 1
    assert service.send("DELETE", f"/endpoints/{endpoint_id}").status_code == 204
    assert service.get("/endpoints")["items"] == []
    assert service.get("/deliveries")["items"] == []
    # The job of the delivery finds nothing to do.
    service.work()
    service.expect_problem(404, "DELETE", f"/endpoints/{endpoint_id}")


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


def test_delete__waits_for_a_rule_that_is_being_stored(service: Service, endpoint_id: str) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
    res = service.resources
    ended = threading.Event()

    def delete() -> None:
        try:
            with res.db.begin() as session:
                endpoints.delete_endpoint(session, endpoint_id)
        finally:
            ended.set()

    with ThreadPoolExecutor(1) as threads:
        with res.db.begin() as session:
            rule_service.create_rule(session, AlertConfigCreate.model_validate(RULE), res.secrets)
            deletion = threads.submit(delete)
            until(lambda: waits_for_a_lock(service), what="the deletion waits")
            assert not ended.is_set()
        with pytest.raises(EndpointInUse):
            deletion.result(60)
    with res.db.read() as session:
        assert session.scalars(select(AlertRule.endpoints)).all() == [[endpoint_id]]
        assert session.scalars(select(Delivery)).all() == []
