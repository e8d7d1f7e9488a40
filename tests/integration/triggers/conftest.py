"""A service whose clock a test sets, and callers who sign."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from app.core.resources import Resources
from app.jobs.pool import ProcessPool
from app.triggers import tasks
from tests.support.service import JSON, Service, pair, running_service

LANGFUSE_SECRET = "lf-whsec_0123456789abcdef0123456789abcdef"


class SetClock:
    """The time of day as a test wants it: that of the machine, and what was added to it."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def go_on(self, **more: float) -> None:
        self.ahead += timedelta(**more)


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Calls a benchmark's webhook, signed by the reference implementation."""

    service: Service
    stranger: httpx.Client
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
        return self.stranger.post(path, headers=headers, content=body)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The service with an agent, a benchmark that evaluates it and an upload to read."""

    service: Service
    stranger: httpx.Client
    clock: SetClock

    def sender(self, benchmark_id: str = "bench-001", **body: Any) -> Sender:
        path = f"/benchmarks/{benchmark_id}/webhook-secrets"
        secret = self.service.post(path, body)["secret"]
        return self.sender_with(secret, benchmark_id)

    def sender_with(self, secret: str, benchmark_id: str = "bench-001") -> Sender:
        return Sender(
            service=self.service, stranger=self.stranger, secret=secret, benchmark_id=benchmark_id
        )

    def triggers(self, benchmark_id: str = "bench-001", **triggers: Any) -> None:
        self.service.patch(f"/benchmarks/{benchmark_id}", {"triggers": triggers})

    def tick(self, **later: float) -> None:
        """What the worker does from time to time, after so long, and the jobs that come of it."""
        self.service.work()
        self.clock.go_on(**later)
        tasks.tick(self.service.resources)
        self.service.work()

    def runs(self) -> list[JSON]:
        """The runs there are, oldest first."""
        return list(reversed(self.service.get("/benchmark-runs")["items"]))

    def events(self, **wanted: Any) -> list[JSON]:
        found: list[JSON] = self.service.get("/trigger-events", **wanted)["items"]
        return found


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def scene(
    service_resources: Resources, metric_pool: ProcessPool, clock: SetClock
) -> Iterator[Scene]:
    with running_service(replace(service_resources, clock=clock), metric_pool) as service:
        service.agent()
        service.benchmark(evaluates=["agent-001"], metrics=["ROUGE"])
        service.upload([pair(1)])
        service.work()
        with httpx.Client(base_url=service.client.base_url, trust_env=False) as stranger:
            yield Scene(service=service, stranger=stranger, clock=clock)


def as_json(response: httpx.Response, status: int) -> JSON:
    assert response.status_code == status, response.text
    document: JSON = response.json()
    return document


def compact(**document: Any) -> str:
    return json.dumps(document)
