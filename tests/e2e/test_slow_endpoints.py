"""Delivery time of a healthy endpoint beside endpoints that hang or fail."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import pytest

from mosaico.core.resources import Resources
from mosaico.notifications.endpoints import ensure_endpoints
from mosaico.notifications.service import publish
from mosaico.notifications.types import DeliveryTarget, NotificationMessage
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.deployment import Deployment
from tests.support.processes import until

MESSAGES: Final = 60
BASELINE_MESSAGES: Final = 20
MESSAGES_PER_S: Final = 2
HANGING_HOSTS: Final = 3
DELIVERED_WITHIN_S: Final = 2.0


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


@dataclass(slots=True)
class DeliveryClock:
    """Publishes messages at a fixed rate and measures when the healthy receiver gets them."""

    resources: Resources
    receiver: Receiver
    arrived: dict[str, float] = field(default_factory=dict)

    def delivery_seconds(self, count: int, endpoints: list[str], *, log: str) -> list[float]:
        """The sorted delivery times of `count` messages to these endpoints."""
        published: dict[str, float] = {}
        for number in range(count):
            published[self._publish(f"message {number}", endpoints)] = time.monotonic()
            next_at = time.monotonic() + 1 / MESSAGES_PER_S
            while time.monotonic() < next_at:
                self._record_arrivals()
                time.sleep(0.01)
        until(lambda: self._record_arrivals() >= published.keys(), what=log)
        return sorted(self.arrived[message_id] - at for message_id, at in published.items())

    def _publish(self, title: str, endpoints: list[str]) -> str:
        message = NotificationMessage(topic="test.sent", title=title)
        with self.resources.db.begin() as session:
            return publish(session, message, endpoints)

    def _record_arrivals(self) -> set[str]:
        for call in list(self.receiver.calls):
            self.arrived.setdefault(call.headers["webhook-id"], time.monotonic())
        return set(self.arrived)


@pytest.mark.prove
def test_slow_endpoints__healthy_endpoint_gets_message_within_two_seconds(
    deployment: Deployment, hanging_receivers: list[Receiver], healthy_receiver: Receiver
) -> None:
    """On a loaded machine the limit is four times the delivery time without slow endpoints."""
    worker = deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    recipients = [receiver.at("hook") for receiver in (healthy_receiver, *hanging_receivers)]
    # Nothing listens on port 1, so this one fails at once and is tried again.
    recipients.append("http://127.0.0.1:1/unreachable")
    targets = [DeliveryTarget("WEBHOOK", recipient) for recipient in recipients]
    res = deployment.service.resources
    with res.db.begin() as session:
        healthy, *slow = [row.id for row in ensure_endpoints(session, targets, res.secrets)]
    clock = DeliveryClock(res, healthy_receiver)

    baseline = clock.delivery_seconds(BASELINE_MESSAGES, [healthy], log=worker.log)
    seconds = clock.delivery_seconds(MESSAGES, [healthy, *slow], log=worker.log)

    p50, p99 = seconds[MESSAGES // 2], seconds[MESSAGES * 99 // 100 - 1]
    limit_s = max(DELIVERED_WITHIN_S, 4 * baseline[-1])
    assert p99 <= limit_s, f"p50 {p50:.3f} s, p99 {p99:.3f} s, without slow ones {baseline[-1]:.3f}"
    for receiver in hanging_receivers:
        receiver.free.set()
