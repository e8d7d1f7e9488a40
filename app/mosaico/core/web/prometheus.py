"""Prometheus metrics: requests by route, job queues. Every label has a bounded set of values."""

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.routing import iter_route_contexts
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, Info
from prometheus_client import generate_latest as exposition
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaico.core.db import Database, DatabaseUnavailable

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_QUEUES = 50
NO_ROUTE = "none"

# Bounds the cost of a scrape; a queue of this length is late whatever its exact length is.
MAX_JOBS_COUNTED = 20_000

QUEUES = text(
    """
    WITH oldest AS MATERIALIZED (
      SELECT id, queue_name, status, scheduled_at FROM procrastinate_jobs
      WHERE status IN ('todo', 'doing') AND (scheduled_at IS NULL OR scheduled_at <= now())
      ORDER BY id LIMIT :max_jobs
    ), queues AS (
      SELECT queue_name, status::text, count(*) AS depth, min(scheduled_at) AS first_due,
             min(id) FILTER (WHERE scheduled_at IS NULL) AS first_id
      FROM oldest GROUP BY 1, 2
    )
    SELECT queue_name, status, depth,
           coalesce(extract(epoch FROM now() - least(first_due, deferred.at)), 0) AS oldest_s
    FROM queues LEFT JOIN LATERAL (
      SELECT min(at) AS at FROM procrastinate_events AS events WHERE events.job_id = first_id
    ) AS deferred ON true
    ORDER BY 1, 2 LIMIT :limit
    """
)


UnfinishedJobStatus: TypeAlias = Literal["todo", "doing"]


class QueueState(NamedTuple):
    """Number of due or running jobs of a queue, and the age of the oldest."""

    queue: str
    status: UnfinishedJobStatus
    depth: int
    oldest_s: float


class PrometheusMetrics:
    """The metrics of one application, in its own registry."""

    def __init__(self, db: Database) -> None:
        self.registry = CollectorRegistry()
        build = Info("mosaico_build", "The version that runs.", registry=self.registry)
        build.info({"version": version("mosaico")})
        self.requests = Counter(
            "mosaico_http_requests",
            "Completed requests.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "mosaico_http_request_duration_seconds",
            "Time from the request headers to the response headers.",
            ["method", "route"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(QueueCollector(db))
        # A thread of its own: requests may occupy all others, which is worth a scrape.
        self._limiter = anyio.CapacityLimiter(1)

    async def render(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return await anyio.to_thread.run_sync(exposition, self.registry, limiter=self._limiter)

    def observe(self, *, method: str, route: str, status: int, seconds: float) -> None:
        method_label = method if method in METHODS else "OTHER"
        self.requests.labels(method_label, route, str(status)).inc()
        self.latency.labels(method_label, route).observe(seconds)


class QueueCollector(Collector):
    """Reads the job queues at each scrape; without a database it reports only that."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("mosaico_database_up", "1 when the database answers.")
        depth = GaugeMetricFamily(
            "mosaico_queue_jobs",
            f"Waiting (todo) or running (doing) jobs among the oldest {MAX_JOBS_COUNTED:,}.",
            labels=["queue", "status"],
        )
        age = GaugeMetricFamily(
            "mosaico_queue_oldest_job_age_seconds",
            "Time since the due time of the oldest job.",
            labels=["queue", "status"],
        )
        try:
            states = query_queues(self._db)
            up.add_metric([], 1)
        except DatabaseUnavailable:
            states = []
            up.add_metric([], 0)
        for state in states:
            depth.add_metric([state.queue, state.status], state.depth)
            age.add_metric([state.queue, state.status], max(state.oldest_s, 0.0))
        yield from (up, depth, age)

    def describe(self) -> Iterator[Metric]:
        """Empty: the registration of the collector must not query the database."""
        return iter(())


def query_queues(db: Database) -> list[QueueState]:
    """The queues in use; empty before the job tables exist."""
    try:
        with db.read() as session:
            limits = {"limit": MAX_QUEUES, "max_jobs": MAX_JOBS_COUNTED}
            rows = session.execute(QUEUES, limits).all()
    except ProgrammingError:
        return []
    return [QueueState(row[0], row[1], int(row[2]), float(row[3])) for row in rows]


class RequestMetricsMiddleware:
    """Counts and times every request by the template of its route."""

    def __init__(self, app: ASGIApp, *, metrics: PrometheusMetrics) -> None:
        self.app = app
        self._metrics = metrics
        self._templates: dict[Callable[..., Any], str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.perf_counter()

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.observe(
                    method=scope["method"],
                    route=self._route(scope),
                    status=message["status"],
                    seconds=time.perf_counter() - started,
                )
            await send(message)

        return await self.app(scope, receive, send_observed)

    def _route(self, scope: Scope) -> str:
        endpoint = scope.get("endpoint")
        if endpoint is None:
            return NO_ROUTE
        if endpoint not in self._templates:
            self._templates = _route_templates(scope["app"])
        return self._templates.get(endpoint, NO_ROUTE)


async def metrics_page(request: Request) -> Response:
    """The metrics in the text format of Prometheus."""
    metrics: PrometheusMetrics = request.app.state.metrics
    return Response(await metrics.render(), media_type=CONTENT_TYPE_LATEST)


def install(app: FastAPI, db: Database) -> None:
    """Measure the requests of this application and serve `/metrics`."""
    app.state.metrics = PrometheusMetrics(db)
    app.add_middleware(RequestMetricsMiddleware, metrics=app.state.metrics)
    app.add_api_route("/metrics", metrics_page, tags=["service"], response_class=Response)


def _route_templates(app: FastAPI) -> dict[Callable[..., Any], str]:
    """The path template of each endpoint; mounted files share the template of their mount."""
    templates: dict[Callable[..., Any], str] = {}
    for route in iter_route_contexts(app.routes):
        target = route.endpoint or getattr(route.route, "app", None)
        if target is not None and route.path is not None:
            templates.setdefault(target, route.path)
    return templates
