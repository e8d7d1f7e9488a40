"""Liveness, readiness and the Prometheus metrics of a process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import httpx
import psycopg
import pytest
from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.core.web.prometheus import query_queues
from tests.integration.edge.toy_things import THINGS, ThingStore, toy_app
from tests.support.http import serving
from tests.support.waiting import LIVENESS_S


def test_health__without_database_alive_but_not_ready(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) > 0


def test_readiness__is_independent_of_busy_connections_and_threads(database_url: str) -> None:
    app = toy_app(database_url, ThingStore())
    db: Database = app.state.resources.db
    release, busy = threading.Event(), threading.Semaphore(0)

    @app.get("/hold")
    def hold() -> None:
        with db.read() as session:
            session.execute(text("SELECT 1"))
            busy.release()
            release.wait(LIVENESS_S)

    size = db.engine.pool.size()  # type: ignore[attr-defined]
    with serving(app, lifespan=True) as client, ThreadPoolExecutor(size) as callers:
        requests = [callers.submit(client.get, "/hold") for _ in range(size)]
        try:
            assert all(busy.acquire(timeout=LIVENESS_S) for _ in range(size))
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
            metrics = client.get("/metrics").text
            assert "mosaico_database_up 1.0" in metrics
            assert 'mosaico_build_info{{version="{}"}} 1.0'.format(version("mosaico")) in metrics
        finally:
            release.set()
        assert [request.result().status_code for request in requests] == [200] * size
    db.dispose()


def test_readiness__hanging_database_gives_503_in_time(database_url: str) -> None:
    app = toy_app(database_url, ThingStore())
    over = threading.Event()
    app.state.probe.db.ping = lambda: over.wait(LIVENESS_S)
    app.state.probe._within_s = 0.2
    with serving(app) as client:
        response = client.get("/readyz")
        assert response.status_code == 503
        over.set()
        assert "did not answer within 0.2 s" in response.json()["detail"]
    app.state.resources.db.dispose()


def test_prometheus__requests_are_counted_by_route_not_by_path(client: httpx.Client) -> None:
    for name in ("one", "two"):
        client.get(f"{THINGS}/{name}/conflict")
    # Strangers choose paths and methods: as labels they would grow without limit.
    client.get("/no-such-address-at-all")
    client.request("BREW", THINGS)
    figures = client.get("/metrics").text
    route = f"{THINGS}/{{thing_id}}/conflict"
    assert f'mosaico_http_requests_total{{method="GET",route="{route}",status="409"}}' in figures
    assert f'duration_seconds_count{{method="GET",route="{route}"}}' in figures
    assert "no-such-address" not in figures
    assert 'method="BREW"' not in figures
    assert "mosaico_database_up 0.0" in figures


@pytest.fixture
def queue(database_url: str) -> Database:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS procrastinate_events, procrastinate_jobs")
        connection.execute(
            "CREATE TABLE procrastinate_jobs (id bigint, queue_name text, status text,"
            " scheduled_at timestamptz)"
        )
        connection.execute("CREATE TABLE procrastinate_events (job_id bigint, at timestamptz)")
        connection.execute(
            "INSERT INTO procrastinate_jobs VALUES (1, 'runs', 'todo', NULL),"
            " (2, 'runs', 'todo', now() - interval '90 s'), (3, 'runs', 'doing', NULL),"
            " (4, 'runs', 'succeeded', NULL), (5, 'mail', 'todo', now() + interval '1 h')"
        )
        connection.execute(
            "INSERT INTO procrastinate_events VALUES (1, now() - interval '30 s'), (3, now())"
        )
    return Database(database_url, pool_size=1)


def test_query_queues__gives_depth_and_age_of_the_oldest_job(queue: Database) -> None:
    # Of `runs` two jobs wait: one deferred 30 s ago, one due for 90 s; the oldest is 90 s old. The
    # job of `mail` is due later.
    states = {(state.queue, state.status): state for state in query_queues(queue)}
    assert {key: state.depth for key, state in states.items()} == {
        ("runs", "todo"): 2,
        ("runs", "doing"): 1,
    }
    assert 90 <= states["runs", "todo"].oldest_s < 90 + LIVENESS_S
    queue.dispose()


def test_query_queues__missing_job_tables_give_no_queues(queue: Database) -> None:
    with queue.begin() as session:
        session.execute(text("DROP TABLE procrastinate_events, procrastinate_jobs"))
    assert query_queues(queue) == []
    queue.dispose()
