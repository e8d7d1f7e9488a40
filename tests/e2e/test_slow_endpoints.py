"""Delivery time of a healthy endpoint beside endpoints that hang or fail."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pytest

from app.core.encryption import SecretBox
from app.core.resources import Resources
from app.notifications.endpoints import ensure_endpoints
from app.notifications.service import publish
from app.notifications.types import DeliveryTarget, NotificationMessage
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.deployment import Deployment
from tests.support.processes import MASTER_KEY, until

MESSAGES: Final = 60
A_SECOND: Final = 2
HANGING_HOSTS: Final = 3
TOLD_WITHIN_S: Final = 2.0


@pytest.fixture
def service_resources(service_resources: Resources) -> Resources:
    """The workers decrypt what this process encrypted."""
    return replace(service_resources, secrets=SecretBox.from_keys([MASTER_KEY]))


@pytest.fixture
def hanging() -> Iterator[list[Receiver]]:
    with ExitStack() as stack:
        receivers = [stack.enter_context(receiving()) for _ in range(HANGING_HOSTS)]
        for receiver in receivers:
            receiver.will("hook", *[receiver.hang] * 10 * MESSAGES)
        yield receivers


@pytest.fixture
def sound() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.mark.prove
def test_slow_endpoints__healthy_endpoint_gets_message_within_two_seconds(
    deployment: Deployment, hanging: list[Receiver], sound: Receiver
) -> None:
    worker = deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    worker.said("worker is ready")
    targets = [DeliveryTarget("WEBHOOK", receiver.at("hook")) for receiver in (*hanging, sound)]
    targets.append(DeliveryTarget("WEBHOOK", "http://127.0.0.1:1/nobody"))
    res = deployment.service.resources
    with res.db.begin() as session:
        endpoints = [endpoint.id for endpoint in ensure_endpoints(session, targets, res.secrets)]
    published: dict[str, float] = {}
    arrived: dict[str, float] = {}

    def look() -> bool:
        for call in list(sound.calls):
            arrived.setdefault(call.headers["webhook-id"], time.monotonic())
        return len(arrived) == MESSAGES

    for number in range(MESSAGES):
        message = NotificationMessage(topic="test.told", title=f"message {number}")
        with deployment.service.resources.db.begin() as session:
            notification_id = publish(session, message, endpoints)
        published[notification_id] = time.monotonic()
        ends_at = time.monotonic() + 1 / A_SECOND
        while time.monotonic() < ends_at:
            look()
            time.sleep(0.01)
    until(look, what=worker.log)
    waits = sorted(
        arrived[notification_id] - published[notification_id] for notification_id in published
    )
    p50, p99 = waits[MESSAGES // 2], waits[MESSAGES * 99 // 100 - 1]
    assert p99 <= TOLD_WITHIN_S, f"p50 {p50:.3f} s, p99 {p99:.3f} s"
    for receiver in hanging:
        receiver.free.set()
