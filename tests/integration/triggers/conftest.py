"""Fixtures: a service with an adjustable clock, and senders of signed calls."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.triggers import tasks
from tests.support.service import JSON, Service, pair, running_service
from tests.support.waiting import LIVENESS_S

LANGFUSE_SECRET = "lf-whsec_0123456789abcdef0123456789abcdef"


class AdjustableClock:
    """The time of the machine plus an offset that tests advance."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def advance(self, **more: float) -> None:
        self.offset += timedelta(**more)


@dataclass(frozen=True, kw_only=True)
class WebhookSender:
    """Calls the webhook of a benchmark, signed by the reference library."""

    service: Service
    client: httpx.Client
    secret: str
    benchmark_id: str = "bench-001"

    def headers(self, message_id: str, body: str, at: datetime | None = None) -> dict[str, str]:
        signed_at = at or self.service.resources.clock()
        signature = Webhook(self.secret).sign(message_id, signed_at, body)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(signed_at.timestamp())),
            "webhook-signature": signature,
            "Content-Type": "application/json",
        }

    def call(self, message_id: str = "msg_1", body: str = "{}", **more: Any) -> httpx.Response:
        at = more.pop("at", None)
        headers = {**self.headers(message_id, body, at), **more}
        return self.send(headers, body)

    def send(self, headers: dict[str, str], body: str | bytes) -> httpx.Response:
        path = f"/api/v1/webhooks/benchmarks/{self.benchmark_id}/runs"
        return self.client.post(path, headers=headers, content=body)


@dataclass(frozen=True, kw_only=True)
class TriggerSetup:
    """A service with an agent, a benchmark that evaluates it, and an upload."""

    service: Service
    client: httpx.Client
    clock: AdjustableClock

    def create_sender(self, benchmark_id: str = "bench-001", **body: Any) -> WebhookSender:
        path = f"/benchmarks/{benchmark_id}/webhook-secrets"
        secret = self.service.post(path, body)["secret"]
        return self.sender_with(secret, benchmark_id)

    def sender_with(self, secret: str, benchmark_id: str = "bench-001") -> WebhookSender:
        return WebhookSender(
            service=self.service, client=self.client, secret=secret, benchmark_id=benchmark_id
        )

    def set_triggers(self, benchmark_id: str = "bench-001", **triggers: Any) -> None:
        self.service.patch(f"/benchmarks/{benchmark_id}", {"triggers": triggers})

    def tick(self, **later: float) -> None:
        """Advance the clock, run the periodic tick of the worker, and run its jobs."""
        self.service.work()
        self.clock.advance(**later)
        tasks.tick(self.service.resources)
        self.service.work()

    def list_runs(self) -> list[JSON]:
        """The existing runs, oldest first."""
        return list(reversed(self.service.get("/benchmark-runs")["items"]))

    def list_events(self, **expected: Any) -> list[JSON]:
        events: list[JSON] = self.service.get("/trigger-events", **expected)["items"]
        return events


@pytest.fixture
def clock() -> AdjustableClock:
    return AdjustableClock()


@pytest.fixture
def setup(
    service_resources: Resources, metric_pool: ProcessPool, clock: AdjustableClock
) -> Iterator[TriggerSetup]:
    with running_service(replace(service_resources, clock=clock), metric_pool) as service:
        service.create_agent()
        service.create_benchmark(evaluates=["agent-001"], metrics=["ROUGE"])
        service.upload([pair(1)])
        service.work()
        with httpx.Client(
            base_url=service.client.base_url, trust_env=False, verify=False, timeout=LIVENESS_S
        ) as client:
            yield TriggerSetup(service=service, client=client, clock=clock)


def as_json(response: httpx.Response, status: int) -> JSON:
    assert response.status_code == status, response.text
    document: JSON = response.json()
    return document


def to_json(**document: Any) -> str:
    return json.dumps(document)
