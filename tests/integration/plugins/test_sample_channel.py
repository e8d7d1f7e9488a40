"""A channel of another distribution: the outbox is the same, and its failures cost nothing else."""

import sys
from typing import Any

import pytest

from app.core.registry import LoadedPlugin
from app.notifications.endpoints import ensure_endpoints
from app.notifications.registry import CHANNELS
from app.notifications.service import publish
from app.notifications.types import DeliveryTarget, NotificationMessage
from tests.support.service import JSON, Service

TOLD = NotificationMessage(topic="test.told", title="The pelican has landed")


@pytest.fixture
def arrived(failures: list[LoadedPlugin]) -> Any:
    found = sys.modules["mosaico_sample.channel"].ARRIVED
    found.clear()
    return found


def tell(service: Service, *recipients: str) -> None:
    targets, res = [DeliveryTarget("SAMPLE_PIGEON", each) for each in recipients], service.resources
    with res.db.begin() as session:
        endpoints = ensure_endpoints(session, targets, res.secrets)
        publish(session, TOLD, [endpoint.id for endpoint in endpoints])


def deliveries(service: Service) -> dict[str, JSON]:
    service.work()
    return {each["recipient"]: each for each in service.get("/deliveries")["items"]}


def test_it_is_there_beside_what_is_built_in(arrived: Any) -> None:
    assert {"EMAIL", "SLACK", "TEAMS", "WEBHOOK", "SAMPLE_PIGEON"} <= set(CHANNELS.names())


def test_its_messages_go_through_the_outbox(extended: Service, arrived: Any) -> None:
    tell(extended, "loft-7")
    [delivery] = deliveries(extended).values()
    assert delivery["status"] == "DELIVERED"
    [outgoing] = arrived
    assert (outgoing.message_id, outgoing.body) == (delivery["notificationId"], TOLD.title.encode())


def test_what_it_raises_is_a_failed_try_and_nobody_elses(extended: Service, arrived: Any) -> None:
    tell(extended, "loft-lost", "loft-7")
    found = deliveries(extended)
    assert found["loft-7"]["status"] == "DELIVERED"
    lost = found["loft-lost"]
    assert (lost["status"], lost["attempts"]) == ("PENDING", 1)
    assert lost["detail"] == "INTERNAL_ERROR: RuntimeError in the worker"
    assert lost["dueAt"] is not None


def test_its_recipients_are_checked(extended: Service, arrived: Any) -> None:
    body = {"channel": "SAMPLE_PIGEON", "recipient": "roof"}
    problem = extended.refused(422, "POST", "/notifications/test", body)
    assert problem["errors"] == [
        {"pointer": "/recipient", "detail": "is no loft; write it as loft-7"}
    ]


def test_a_channel_that_is_gone_is_told_and_tried_again(
    extended: Service, arrived: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(extended, "loft-7")
    monkeypatch.setattr(CHANNELS, "_items", {})
    [delivery] = deliveries(extended).values()
    assert delivery["status"] == "PENDING"
    assert "not installed on this worker" in delivery["detail"]
