"""Server-sent events: snapshots, notifications, reconnection and the end of a stream."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import anyio
import anyio.to_thread
import httpx
import psycopg
import pytest
from fastapi import FastAPI

from mosaico.core.db import Database, DatabaseUnavailable
from mosaico.core.errors import NotFound
from mosaico.core.postgres_notify import notify_streams
from mosaico.core.web import sse
from mosaico.core.web.event_feeds import EventSnapshot, StreamOwner
from mosaico.core.web.sse import EVERY_KEY, EventHub
from mosaico.main import Server
from tests.integration.edge.toy_things import NOWHERE, THINGS, ThingStore, ToyOwners, toy_app
from tests.support.http import serving
from tests.support.waiting import LIVENESS_S, until


class StreamService:
    """A served toy application with its hub and its database."""

    def __init__(self, app: FastAPI, thing_store: ThingStore, client: httpx.Client) -> None:
        self.thing_store = thing_store
        self.client = client
        self.hub: EventHub = app.state.hub
        self.owners: ToyOwners = app.state.hub.owners
        self.db: Database = app.state.resources.db

    def announce(self, key: str) -> None:
        with self.db.begin() as session:
            notify_streams(session, key)


@pytest.fixture(scope="module")
def served(database_url: str) -> Iterator[StreamService]:
    thing_store = ThingStore()
    app = toy_app(database_url, thing_store)
    with serving(app, lifespan=True) as client:
        limits = httpx.Limits(max_connections=None)
        with httpx.Client(base_url=client.base_url, timeout=LIVENESS_S, limits=limits) as many:
            yield StreamService(app, thing_store, many)
    app.state.resources.db.dispose()


@pytest.fixture
def service(served: StreamService) -> StreamService:
    """The service without open streams, and with heartbeats too rare to matter."""
    until(lambda: served.hub.listening and served.hub.open_streams == 0)
    served.hub.heartbeat_s, served.hub.coalesce_s = 3600.0, 0.1
    served.thing_store.snapshots = []
    served.owners.unusable, served.owners.errors = set(), []
    return served


def announce_in_vain(db: Database, key: str) -> None:
    with db.begin() as session:
        notify_streams(session, key)
        raise NotFound


def progress(number: int, *, final: bool = False) -> EventSnapshot:
    return EventSnapshot(event="progress", id=str(number), data={"done": number}, final=final)


class Events:
    """The events of one open stream, one at a time."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()

    def next(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and fields:
                return fields
            name, _, value = line.partition(": ")
            fields[name] = value
        return {}


def test_event_stream__starts_with_the_current_state(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(3)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert Events(response).next() == {"event": "progress", "id": "3", "data": '{"done":3}'}


def test_event_stream__commit_wakes_only_streams_of_its_key(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(1)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        assert events.next()["id"] == "1"
        snapshot_count = service.thing_store.taken
        service.announce("run-2")
        with pytest.raises(NotFound):
            announce_in_vain(service.db, "run-1")
        service.thing_store.snapshots = [progress(2)]
        service.announce("run-1")
        assert events.next()["id"] == "2"
        assert service.thing_store.taken == snapshot_count + 1


def test_event_stream__of_every_key_is_woken_by_each(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(1)]
    with service.client.stream("GET", f"{THINGS}/{EVERY_KEY}/events") as response:
        events = Events(response)
        assert events.next()["id"] == "1"
        for number, key in enumerate(("run-1", "inbox"), 2):
            service.thing_store.snapshots = [progress(number)]
            service.announce(key)
            assert events.next()["id"] == str(number)


def test_event_stream__only_the_streams_of_an_unusable_owner_end(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(1)]
    opened_by = {"X-Owner": "revoked"}
    with (
        service.client.stream("GET", f"{THINGS}/run-1/events", headers=opened_by) as revoked,
        service.client.stream("GET", f"{THINGS}/run-1/events") as other,
    ):
        revoked_events, other_events = Events(revoked), Events(other)
        assert revoked_events.next() == other_events.next()
        service.owners.unusable = {"revoked"}
        assert revoked_events.next() == {}
        service.thing_store.snapshots = [progress(2)]
        service.announce("run-1")
        assert other_events.next()["id"] == "2"


def test_event_stream__of_an_unusable_owner_does_not_wait_for_a_snapshot(
    service: StreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting, release = threading.Event(), threading.Event()

    def wait() -> None:
        is_waiting.set()
        release.wait(LIVENESS_S)

    service.thing_store.snapshots = [progress(1), progress(2)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        events.next()
        # As a query that hangs.
        monkeypatch.setattr(service.thing_store, "before_snapshot", wait)
        service.announce("run-1")
        assert is_waiting.wait(LIVENESS_S)
        try:
            service.owners.unusable = {"anybody"}
            assert events.next() == {}
            until(lambda: service.hub.open_streams == 0)
        finally:
            release.set()


def test_event_stream__of_an_unusable_owner_does_not_wait_for_its_client(
    service: StreamService,
) -> None:
    """A client that does not read keeps no stream open."""
    # More than the buffers of both sockets hold: the server waits for its client.
    texts = "x" * 20_000_000
    service.thing_store.snapshots = [EventSnapshot(event="progress", id="1", data=texts)]
    with service.client.stream("GET", f"{THINGS}/run-1/events"):
        assert service.hub.open_streams == 1

        service.owners.unusable = {"anybody"}

        until(lambda: service.hub.open_streams == 0)


def test_event_hub__closes_streams_while_requests_occupy_every_thread() -> None:
    owners, release = ToyOwners(), threading.Event()
    owners.unusable = {"revoked"}
    hub = EventHub(NOWHERE, owners=owners)

    async def wait_for_end() -> None:
        # The only thread is that of the request.
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        async with anyio.create_task_group() as requests, hub.running():
            requests.start_soon(partial(anyio.to_thread.run_sync, release.wait))
            with hub.subscribe("run-1", StreamOwner("revoked")) as subscription:
                with anyio.move_on_after(LIVENESS_S):
                    await subscription.wakeup.wait()
                release.set()
                assert subscription.revoked.is_set()

    anyio.run(wait_for_end)


def test_event_stream__ends_after_a_check_that_failed(service: StreamService) -> None:
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        events.next()
        service.owners.errors = [RuntimeError("unexpected"), DatabaseUnavailable()]
        service.owners.unusable = {"anybody"}
        assert events.next() == {}
    assert service.owners.errors == []


@pytest.mark.parametrize(
    ("limit", "whose"),
    [("STREAMS_PER_OWNER", "this API key has 2"), ("STREAMS_PER_PROCESS", "this process has 2")],
)
def test_event_stream__one_too_many_is_refused(
    service: StreamService, monkeypatch: pytest.MonkeyPatch, limit: str, whose: str
) -> None:
    monkeypatch.setattr(sse, limit, 2)
    address = f"{THINGS}/run-1/events"
    with ExitStack() as streams:
        for _ in range(2):
            streams.enter_context(service.client.stream("GET", address))
        refused = service.client.get(address)
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/too-many-streams")
        assert refused.headers["Retry-After"] == "10"
        assert whose in refused.json()["detail"]
        if limit == "STREAMS_PER_OWNER":
            with service.client.stream("GET", address, headers={"X-Owner": "other"}) as other:
                assert other.status_code == 200
    until(lambda: service.hub.open_streams == 0)
    with service.client.stream("GET", address) as free_again:
        assert free_again.status_code == 200


def test_event_stream__ends_after_the_final_snapshot(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(1), progress(2, final=True)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        events.next()
        service.announce("run-1")
        assert events.next()["id"] == "2"
        assert events.next() == {}
    until(lambda: service.hub.open_streams == 0)


def test_event_stream__burst_of_notifications_ends_with_the_last_state(
    service: StreamService,
) -> None:
    service.thing_store.snapshots = [progress(0)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        events.next()
        for number in range(1, 21):
            service.thing_store.snapshots = [progress(number, final=number == 20)]
            service.announce("run-1")
        received = []
        while event := events.next():
            received.append(json.loads(event["data"])["done"])
    assert received[-1] == 20
    assert received == sorted(set(received))


def test_event_stream__last_event_id_skips_the_known_state(service: StreamService) -> None:
    service.hub.heartbeat_s = 0.1
    service.thing_store.snapshots = [progress(7)]
    back = {"Last-Event-ID": "7"}
    with service.client.stream("GET", f"{THINGS}/run-1/events", headers=back) as response:
        lines = response.iter_lines()
        # A heartbeat instead of an event: the client has this state already.
        assert next(lines) == ": still here"
        service.thing_store.snapshots = [progress(8)]
        assert any(line == "id: 8" for line in lines)


def test_event_stream__client_with_the_final_event_gets_204(service: StreamService) -> None:
    service.thing_store.snapshots = [progress(9, final=True)]
    back = {"Last-Event-ID": "9"}
    assert service.client.get(f"{THINGS}/run-1/events", headers=back).status_code == 204
    assert service.client.get(f"{THINGS}/run-1/events").status_code == 200


def test_event_stream__error_of_the_first_snapshot_is_the_response(
    service: StreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> EventSnapshot:
        raise NotFound("no run has this id; list the runs to see which exist.")

    monkeypatch.setattr(service.thing_store, "snapshot", missing)
    response = service.client.get(f"{THINGS}/run-1/events")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_event_stream__disconnected_client_is_removed_at_once(service: StreamService) -> None:
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        assert events.next()
        assert service.hub.open_streams == 1
    until(lambda: service.hub.open_streams == 0)


def test_event_hub__reconnects_after_a_lost_connection(
    service: StreamService, database_url: str
) -> None:
    service.thing_store.snapshots = [progress(1)]
    with service.client.stream("GET", f"{THINGS}/run-1/events") as response:
        events = Events(response)
        events.next()
        with psycopg.connect(database_url, autocommit=True) as connection:
            cut = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'mosaico-events' AND datname = current_database()"
            ).fetchall()
        assert cut == [(True,)]
        until(lambda: not service.hub.listening)
        until(lambda: service.hub.listening)
        service.thing_store.snapshots = [progress(2)]
        service.announce("run-1")
        assert events.next()["id"] == "2"


def test_event_stream__stopping_server_ends_the_stream_cleanly(database_url: str) -> None:
    app = toy_app(database_url, ThingStore())
    with httpx.Client(timeout=LIVENESS_S) as stays:
        with serving(app, lifespan=True, server_class=Server) as client:
            url = f"{client.base_url}{THINGS}/run-1/events"
            response = stays.send(stays.build_request("GET", url), stream=True)
            events = Events(response)
            assert events.next()["event"] == "progress"
        # A stream that is cut off instead of ended is a protocol error here.
        assert events.next() == {}
        response.close()
    app.state.resources.db.dispose()
