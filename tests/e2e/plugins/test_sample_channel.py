"""A channel of another distribution uses the outbox; its failures affect its deliveries only."""

import sys
from typing import Any

import pytest

from mosaico.core.registry import LoadedPlugin
from mosaico.notifications.endpoints import ensure_endpoints
from mosaico.notifications.registry import CHANNELS
from mosaico.notifications.service import publish
from mosaico.notifications.types import DeliveryTarget, NotificationMessage
from tests.support.service import JSON, Service

pytestmark = pytest.mark.xdist_group("sample plugins")
MESSAGE = NotificationMessage(topic="test.told", title="The pelican has landed")


@pytest.fixture
def arrived_messages(failed_plugins: list[LoadedPlugin]) -> Any:
    by_recipient = sys.modules["mosaico_sample.channel"].ARRIVED
    by_recipient.clear()
    return by_recipient


def publish_to(service: Service, *recipients: str) -> None:
    targets, res = [DeliveryTarget("SAMPLE_PIGEON", row) for row in recipients], service.resources
    with res.db.begin() as session:
        endpoints = ensure_endpoints(session, targets, res.secrets)
        publish(session, MESSAGE, [endpoint.id for endpoint in endpoints])


def deliveries(service: Service) -> dict[str, JSON]:
    service.work()
    return {row["recipient"]: row for row in service.get("/deliveries")["items"]}


def test_plugin_channel__delivers_through_the_outbox(
    extended_service: Service, arrived_messages: Any
) -> None:
    publish_to(extended_service, "loft-7")
    [delivery] = deliveries(extended_service).values()
    assert delivery["status"] == "DELIVERED"
    [outgoing] = arrived_messages
    assert (outgoing.message_id, outgoing.body) == (
        delivery["notificationId"],
        MESSAGE.title.encode(),
    )


def test_plugin_channel__exception_fails_one_delivery_only(
    extended_service: Service, arrived_messages: Any
) -> None:
    publish_to(extended_service, "loft-lost", "loft-7")
    by_recipient = deliveries(extended_service)
    assert by_recipient["loft-7"]["status"] == "DELIVERED"
    failed_delivery = by_recipient["loft-lost"]
    assert (failed_delivery["status"], failed_delivery["attempts"]) == ("PENDING", 1)
    assert failed_delivery["detail"] == "INTERNAL_ERROR: RuntimeError in the worker"
    assert failed_delivery["dueAt"] is not None


def test_plugin_channel__checks_recipients(
    extended_service: Service, arrived_messages: Any
) -> None:
    body = {"channel": "SAMPLE_PIGEON", "recipient": "roof"}
    problem = extended_service.expect_problem(422, "POST", "/notifications/test", body)
    assert problem["errors"] == [
        {"pointer": "/recipient", "detail": "is no loft; write it as loft-7"}
    ]


def test_plugin_channel__missing_channel_is_reported_and_retried(
    extended_service: Service, arrived_messages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_to(extended_service, "loft-7")
    # As on a worker without the distribution.
    monkeypatch.setattr(CHANNELS, "_items", {})
    [delivery] = deliveries(extended_service).values()
    assert delivery["status"] == "PENDING"
    assert "not installed on this worker" in delivery["detail"]
