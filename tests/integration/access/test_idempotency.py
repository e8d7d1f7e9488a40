"""Idempotency keys: a repeated create request creates once and gets the stored response."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from mosaico.access.models import IdempotencyKey
from mosaico.access.service import delete_expired_responses
from mosaico.core.db import Database
from mosaico.core.resources import Resources
from tests.integration.access.toy_service import ApiCall, ManualClock, ToyClient, Workshop, toy_app

Toys = Callable[[], int]

BEAR = {"name": "bear"}
WAIT_S = 60


def with_key(key: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}, "json": body or BEAR}


def count_responses(db: Database) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(IdempotencyKey)) or 0


def test_create__without_idempotency_key_each_request_creates(
    client: ToyClient, toys: Toys, db: Database
) -> None:
    first, second = client.post("/toys", json=BEAR), client.post("/toys", json=BEAR)
    assert (first.status_code, first.headers["Location"]) == (201, "/toys/toy-1")
    assert first.json() == {"id": "toy-1", "name": "bear"}
    assert second.headers["Location"] == "/toys/toy-2"
    assert (toys(), count_responses(db)) == (2, 0)


def test_idempotency_key__repeated_request_gets_the_first_response(
    client: ToyClient, toys: Toys
) -> None:
    first = client.post("/toys", **with_key("k"))
    again = client.post("/toys", **with_key("k"))
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["Location"] == first.headers["Location"] == "/toys/toy-1"
    assert again.headers["Content-Type"] == "application/json"
    assert ("Idempotent-Replayed" in first.headers, "Idempotent-Replayed" in again.headers) == (
        False,
        True,
    )
    assert toys() == 1


def test_idempotency_key__200_concurrent_requests_create_one_toy(
    client: ToyClient, toys: Toys
) -> None:
    answers = client.all_at_once([ApiCall("POST", "/toys", with_key("k"))] * 200)
    statuses = Counter(answer.status_code for answer in answers)
    # 409: a request that arrived while the first one was in flight.
    assert set(statuses) <= {201, 409}
    assert statuses[201] >= 1
    assert {answer.text for answer in answers if answer.status_code == 201} == {
        '{"id":"toy-1","name":"bear"}'
    }
    assert toys() == 1


def test_idempotency_key__response_survives_a_restart(
    client: ToyClient, resources: Resources, toys: Toys, database_url: str
) -> None:
    first = client.post("/toys", **with_key("k"))
    fresh = Database(database_url, pool_size=1)
    restarted = Resources(
        db=fresh, secrets=resources.secrets, data_dir=resources.data_dir, clock=resources.clock
    )
    again = ToyClient(toy_app(restarted, Workshop()), client.token).post("/toys", **with_key("k"))
    fresh.dispose()
    assert (again.content, again.headers["Location"]) == (first.content, "/toys/toy-1")
    assert toys() == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/toys", {"name": "horse"}),
        ("/toys", {"name": "bear", "secret": "s"}),
        ("/toys", {"name": "bear", "secret": None}),  # null is not the same as left out
        ("/toys?colour=red", {"name": "bear"}),
    ],
)
def test_idempotency_key__reuse_for_another_request_is_refused(
    client: ToyClient, toys: Toys, path: str, body: dict[str, Any]
) -> None:
    client.post("/toys", **with_key("k"))
    answer = client.post(path, **with_key("k", body))
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/idempotency-key-reused"
    assert toys() == 1


def test_idempotency_key__secrets_are_part_of_the_request(client: ToyClient) -> None:
    client.post("/toys", **with_key("k", {"name": "bear", "secret": "one"}))
    statuses = [
        client.post("/toys", **with_key("k", {"name": "bear", "secret": secret})).status_code
        for secret in ("one", "two")
    ]
    assert statuses == [201, 422]


def test_idempotency_key__is_bound_to_api_key_and_path(
    app: FastAPI, client: ToyClient, create_token: Callable[..., str], toys: Toys
) -> None:
    client.post("/toys", **with_key("k"))
    other = ToyClient(app, create_token("run")).post("/toys", **with_key("k", {"name": "horse"}))
    copies = [
        client.post(f"/toys/{toy}/copies", headers={"Idempotency-Key": "k"})
        for toy in ("toy-1", "toy-1", "toy-2")
    ]
    assert other.json()["id"] == "toy-2"
    assert [copy.headers["Location"] for copy in copies] == [
        "/toys/toy-3",
        "/toys/toy-3",
        "/toys/toy-4",
    ]
    assert toys() == 4


def test_idempotency_key__does_not_replace_the_required_role(
    app: FastAPI, create_token: Callable[..., str], toys: Toys
) -> None:
    answer = ToyClient(app, create_token("read")).post("/toys", **with_key("k"))
    assert (answer.status_code, toys()) == (403, 0)


def test_idempotency_key__request_in_flight_gives_409_with_retry_after(
    client: ToyClient, workshop: Workshop, toys: Toys
) -> None:
    started, may_end = threading.Event(), threading.Event()

    def wait(_session: Session) -> None:
        started.set()
        assert may_end.wait(WAIT_S)

    workshop.before_it_ends = wait
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/toys", **with_key("k"))
        assert started.wait(WAIT_S)
        second = client.post("/toys", **with_key("k"))
        may_end.set()
        assert first.result(WAIT_S).status_code == 201
    assert second.status_code == 409
    assert second.json()["type"] == "/problems/idempotency-key-in-flight"
    assert second.headers["Retry-After"] == "1"
    assert client.post("/toys", **with_key("k")).content == first.result().content
    assert toys() == 1


def test_idempotency_key__refused_request_stores_nothing(
    client: ToyClient, workshop: Workshop, toys: Toys, db: Database
) -> None:
    refused = client.post("/toys", **with_key("k", {"name": "broken"}))
    assert (refused.status_code, toys(), count_responses(db)) == (409, 0, 0)
    assert client.post("/toys", **with_key("k")).status_code == 201
    assert toys() == 1


def retry_successfully(client: ToyClient, workshop: Workshop, toys: Toys) -> None:
    workshop.before_it_ends = lambda _session: None
    assert client.post("/toys", **with_key("k")).status_code == 201
    assert toys() == 1


def test_idempotency_key__crash_stores_nothing_and_the_retry_succeeds(
    client: ToyClient, workshop: Workshop, toys: Toys, db: Database
) -> None:
    def crash(_session: Session) -> None:
        raise RuntimeError("out of wood")

    workshop.before_it_ends = crash
    # The client of the tests raises what a server answers with 500.
    with pytest.raises(ExceptionGroup):
        client.post("/toys", **with_key("k"))
    assert (toys(), count_responses(db)) == (0, 0)
    retry_successfully(client, workshop, toys)


def test_idempotency_key__lost_connection_stores_nothing_and_the_retry_succeeds(
    client: ToyClient, workshop: Workshop, toys: Toys, db: Database
) -> None:
    def lose(session: Session) -> None:
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    workshop.before_it_ends = lose
    assert client.post("/toys", **with_key("k")).status_code == 503
    assert (toys(), count_responses(db)) == (0, 0)
    retry_successfully(client, workshop, toys)


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"caf\xc3\xa9", b"a\x7fb", b"a\tb"])
def test_idempotency_key__unprintable_or_too_long_text_is_refused(
    client: ToyClient, toys: Toys, key: bytes
) -> None:
    answer = client.post("/toys", json=BEAR, headers=[(b"Idempotency-Key", key)])
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "Idempotency-Key"
    assert toys() == 0


def test_idempotency_key__expires_after_a_day(
    client: ToyClient, clock: ManualClock, toys: Toys, db: Database
) -> None:
    client.post("/toys", **with_key("k"))
    clock.forward(hours=24, seconds=-1)
    assert client.post("/toys", **with_key("k")).headers["Location"] == "/toys/toy-1"
    clock.forward(seconds=1)
    assert client.post("/toys", **with_key("k", {"name": "horse"})).status_code == 201
    assert (toys(), count_responses(db)) == (2, 1)


def test_delete_expired_responses__deletes_responses_older_than_a_day(
    client: ToyClient, clock: ManualClock, db: Database
) -> None:
    client.post("/toys", **with_key("old"))
    clock.forward(hours=1)
    client.post("/toys", **with_key("new"))
    clock.forward(hours=23)
    with db.begin() as session:
        assert delete_expired_responses(session, clock()) == 1
    assert count_responses(db) == 1
    with db.begin() as session:
        assert delete_expired_responses(session, clock()) == 0


def test_idempotency_key__stored_response_is_encrypted(client: ToyClient, db: Database) -> None:
    client.post("/toys", **with_key("k", {"name": "bear", "secret": "hush"}))
    with db.read() as session:
        row = session.execute(
            text("SELECT row_to_json(k)::text FROM idempotency_keys k")
        ).scalar_one()
    assert json.loads(row)["response"].startswith("v1.")
    assert [word for word in ("bear", "hush", str(client.token)) if word in row] == []
