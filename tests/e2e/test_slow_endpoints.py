"""A healthy endpoint beside endpoints that hang or fail."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from mosaico.notifications.endpoints import ensure_endpoints
from mosaico.notifications.service import publish
from mosaico.notifications.types import DeliveryTarget, NotificationMessage
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.deployment import Deployment
from tests.support.processes import until

MESSAGES: Final = 60
HANGING_HOSTS: Final = 3


@pytest.fixture
def hanging_receivers() -> Iterator[list[Receiver]]:
    with ExitStack() as stack:
        receivers = [stack.enter_context(receiving()) for _ in range(HANGING_HOSTS)]
        for receiver in receivers:
            # More than the attempts at all messages: every request hangs.
            receiver.will("hook", *[receiver.hang] * 10 * MESSAGES)
        yield receivers


@pytest.fixture
def healthy_receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.mark.prove
def test_slow_endpoints__healthy_endpoint_gets_every_message_while_others_hang(
    deployment: Deployment, hanging_receivers: list[Receiver], healthy_receiver: Receiver
) -> None:
    worker = deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    recipients = [receiver.at("hook") for receiver in (healthy_receiver, *hanging_receivers)]
    # Nothing listens on port 1, so this one fails at once and is tried again.
    recipients.append("http://127.0.0.1:1/unreachable")
    targets = [DeliveryTarget("WEBHOOK", recipient) for recipient in recipients]
    res = deployment.service.resources
    with res.db.begin() as session:
        endpoints = [row.id for row in ensure_endpoints(session, targets, res.secrets)]
    published = set()
    for number in range(MESSAGES):
        message = NotificationMessage(topic="test.sent", title=f"message {number}")
        with res.db.begin() as session:
            published.add(publish(session, message, endpoints))

    def received() -> set[str]:
        return {call.headers["webhook-id"] for call in list(healthy_receiver.calls)}

    until(lambda: received() >= published, what=worker.log)
    for receiver in hanging_receivers:
        receiver.free.set()
