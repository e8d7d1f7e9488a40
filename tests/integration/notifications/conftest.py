"""A service with a settable clock, and a webhook receiver that the test controls."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.notifications import tasks
from mosaico.notifications.endpoints import ensure_endpoints
from mosaico.notifications.service import publish
from mosaico.notifications.types import DeliveryTarget, NotificationMessage
from tests.support.http import serving
from tests.support.service import JSON, Service, running_service
from tests.support.waiting import LIVENESS_S

TEST_MESSAGE = NotificationMessage(topic="test.sent", title="The pelican has landed")


class SetClock:
    """The time of day as a test wants it: that of the machine, and what was added to it."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def go_on(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


class EndpointRequest(NamedTuple):
    """What a receiver was sent."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Receiver:
    """Somebody else's server: answers 200 unless a path is given other answers, each once."""

    url: str = ""
    calls: list[EndpointRequest] = field(default_factory=list)
    answers: dict[str, list[Callable[[], Response]]] = field(default_factory=dict)
    free: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str) -> str:
        return f"{self.url}/{path}"

    def will(self, path: str, *answers: Callable[[], Response]) -> str:
        self.answers[path] = list(answers)
        return self.at(path)

    def hang(self) -> Response:
        """Say nothing until the test is over, or lets everybody go."""
        self.free.wait(LIVENESS_S)
        return Response("at last")

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/{path:path}")
        async def take(path: str, request: Request) -> Response:
            call = EndpointRequest(path, dict(request.headers), await request.body())
            self.calls.append(call)
            waiting = self.answers.get(path)
            return await run_in_threadpool(waiting.pop(0)) if waiting else Response("ok")

        return app


def status(code: int, **headers: str) -> Callable[[], Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: Response("no thanks", status_code=code, headers=named)


@dataclass(frozen=True, kw_only=True)
class NotificationScenario:
    """The service, a receiver, and a clock."""

    service: Service
    receiver: Receiver
    clock: SetClock

    def publish(
        self,
        *targets: DeliveryTarget,
        message: NotificationMessage = TEST_MESSAGE,
        once: str | None = None,
    ) -> str:
        res = self.service.resources
        with res.db.begin() as session:
            endpoints = ensure_endpoints(session, targets, res.secrets)
            return publish(
                session, message, [endpoint.id for endpoint in endpoints], dedup_key=once
            )

    def work(self, *, later_s: float = 0.0, concurrency: int = 1) -> None:
        """What a worker does, after so long."""
        self.clock.go_on(later_s)
        tasks.tick(self.service.resources)
        self.service.work(concurrency=concurrency)

    def delivery(self, notification_id: str) -> JSON:
        [delivery] = self.service.get("/deliveries", notificationId=notification_id)["items"]
        return dict(delivery)

    def endpoint(self, delivery: JSON) -> JSON:
        return self.service.get(f"/endpoints/{delivery['endpointId']}")

    def inbox(self, **filters: object) -> list[JSON]:
        return list(self.service.get("/notifications", **filters)["items"])


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver.app()) as client:
        receiver.url = str(client.base_url).rstrip("/")
        yield receiver
        receiver.free.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def other_receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def scenario(
    service_resources: Resources, metric_pool: ProcessPool, clock: SetClock, receiver: Receiver
) -> Iterator[NotificationScenario]:
    options = {**service_resources.options, "public_url": "https://mosaico.example"}
    resources = replace(service_resources, clock=clock, options=options)
    with running_service(resources, metric_pool) as service:
        yield NotificationScenario(service=service, receiver=receiver, clock=clock)
