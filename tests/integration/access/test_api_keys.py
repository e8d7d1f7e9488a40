"""The REST resource of API keys: create, list, expire, revoke."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi import FastAPI
from sqlalchemy import text

from mosaico.access.models import ApiKey
from mosaico.access.queries import find_usable_admin
from mosaico.access.service import FIRST_KEY_NAME, create_key
from mosaico.core.db import Database
from tests.integration.access.toy_service import START, ApiCall, ManualClock, ToyClient

CreateToken = Callable[..., str]

HOUR = timedelta(hours=1)
NEW = {"name": "nightly build", "role": "run"}


@pytest.fixture
def admin(app: FastAPI, create_token: CreateToken) -> ToyClient:
    return ToyClient(app, create_token("admin"))


def test_create_key__key_is_shown_once_and_works(admin: ToyClient, app: FastAPI) -> None:
    created = admin.post("/keys", json=NEW)
    key = created.json()
    assert created.status_code == 201
    assert created.headers["Location"] == f"/keys/{key['id']}"
    assert (key["name"], key["role"], key["expiresAt"], key["revokedAt"]) == (
        "nightly build",
        "run",
        None,
        None,
    )
    assert ToyClient(app, key["token"]).post("/toys", json={"name": "bear"}).status_code == 201
    shown_key = admin.get(created.headers["Location"])
    assert shown_key.json().keys() == key.keys() - {"token"}
    assert key["token"] not in shown_key.text + admin.get("/keys").text


def test_create_key__replay_returns_the_same_key_and_its_text_is_not_stored(
    admin: ToyClient, db: Database
) -> None:
    first, again = (
        admin.post("/keys", json=NEW, headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert first.json()["token"] == again.json()["token"]
    dump = "SELECT string_agg(row_to_json(t)::text, '') FROM {} t"
    with db.read() as session:
        stored = "".join(
            session.execute(text(dump.format(table))).scalar_one()
            for table in ("api_keys", "idempotency_keys")
        )
    # A key is mosaico_role_id_secret_checksum.
    assert first.json()["token"].split("_")[3] not in stored


def test_revoke_key__key_is_refused_and_stays_in_the_list(
    admin: ToyClient, app: FastAPI, clock: ManualClock
) -> None:
    key = admin.post("/keys", json=NEW).json()
    path = f"/keys/{key['id']}"
    assert admin.delete(path).status_code == 204
    clock.forward(hours=1)
    assert admin.delete(path).status_code == 204
    # The second request changed nothing.
    assert admin.get(path).json()["revokedAt"] == "2026-11-21T12:00:00Z"
    assert ToyClient(app, key["token"]).get("/toys").status_code == 401


def test_create_key__key_is_refused_after_its_expiry(
    admin: ToyClient, app: FastAPI, clock: ManualClock
) -> None:
    tomorrow = START + timedelta(days=1)
    key = admin.post("/keys", json={**NEW, "expiresAt": tomorrow.isoformat()}).json()
    client = ToyClient(app, key["token"])
    assert client.get("/toys").status_code == 200
    clock.forward(days=1)
    assert client.get("/toys").status_code == 401


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"role": "root"}, "/role"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        # In the past, and without a time zone.
        ({"expiresAt": "2026-11-21T11:59:59Z"}, "/expiresAt"),
        ({"expiresAt": "2027-01-01T00:00:00"}, "/expiresAt"),
        ({"token": "mine"}, "/token"),
    ],
)
def test_create_key__invalid_field_is_named(
    admin: ToyClient, change: dict[str, str], pointer: str
) -> None:
    answer = admin.post("/keys", json={**NEW, **change})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_keys__unknown_id_is_not_found(admin: ToyClient) -> None:
    for answer in (
        admin.get("/keys/nobody"),
        admin.patch("/keys/nobody", json={"name": "x"}),
        admin.delete("/keys/nobody"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-api-key")


def test_revoke_key__last_admin_key_is_refused(
    admin: ToyClient, app: FastAPI, clock: ManualClock
) -> None:
    (mine,) = admin.get("/keys").json()["items"]
    in_an_hour = (START + timedelta(hours=1)).isoformat()
    # Neither a lesser role nor an expired key is another admin.
    for other in (NEW, {"name": "guest", "role": "admin", "expiresAt": in_an_hour}):
        admin.post("/keys", json=other)
    clock.forward(hours=1)
    refused = admin.delete(f"/keys/{mine['id']}")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/last-admin-key")
    assert "create another admin key first" in refused.json()["detail"]
    assert admin.get("/keys").status_code == 200
    successor = admin.post("/keys", json={"name": "successor", "role": "admin"}).json()
    assert admin.delete(f"/keys/{mine['id']}").status_code == 204
    clock.forward(seconds=1)
    assert ToyClient(app, successor["token"]).get("/keys").status_code == 200


def test_revoke_key__concurrent_requests_cannot_revoke_the_last_two_admin_keys(
    app: FastAPI, create_token: CreateToken
) -> None:
    # One race may end well by chance.
    for _ in range(5):
        pair = [create_token("admin"), create_token("admin")]
        ids = [text_of_key.split("_")[2] for text_of_key in pair]
        everyone = ToyClient(app, pair[0]).get("/keys").json()["items"]
        # Keys of earlier rounds: only the two of this one are left.
        for key in everyone:
            if key["id"] not in ids and key["revokedAt"] is None:
                ToyClient(app, pair[0]).delete(f"/keys/{key['id']}")
        answers = ToyClient(app, pair[0]).all_at_once(
            [ApiCall("DELETE", f"/keys/{key}", {}) for key in ids]
        )
        assert sorted(answer.status_code for answer in answers) == [204, 409]


def test_find_usable_admin__is_the_one_that_expires_last(db: Database) -> None:
    with db.begin() as session:
        never, soon, later, revoked = (
            create_key(session, "x", "admin", now=START, expires_at=expires_at).id
            for expires_at in (None, START + HOUR, START + 2 * HOUR, None)
        )
        create_key(session, "x", "run", now=START)
        session.execute(
            text("UPDATE api_keys SET revoked_at = now() WHERE id = :id"), {"id": revoked}
        )
        assert find_usable_admin(session, START) == never
        assert find_usable_admin(session, START + HOUR, ApiKey.id != never) == later
        assert find_usable_admin(session, START + 2 * HOUR, ApiKey.id != never) is None
        assert find_usable_admin(session, START, ApiKey.id == soon) == soon


def test_update_key__changes_the_sent_fields_only(
    admin: ToyClient, app: FastAPI, clock: ManualClock
) -> None:
    tomorrow = "2026-11-22T12:00:00Z"
    key = admin.post("/keys", json=NEW).json()
    path, client = f"/keys/{key['id']}", ToyClient(app, key["token"])
    renamed = admin.patch(path, json={"name": "weekly build"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "weekly build")
    expiring = admin.patch(path, json={"expiresAt": tomorrow}).json()
    assert (expiring["name"], expiring["role"]) == ("weekly build", "run")
    assert expiring["expiresAt"] == tomorrow
    assert client.get("/toys").status_code == 200
    clock.forward(days=1)
    assert client.get("/toys").status_code == 401
    # An expired key works again without its expiry.
    assert admin.patch(path, json={"expiresAt": None}).json()["expiresAt"] is None
    assert ToyClient(app, key["token"]).get("/toys").status_code == 200


def test_update_key__the_first_admin_key_keeps_its_name(admin: ToyClient, db: Database) -> None:
    (key,) = admin.get("/keys").json()["items"]
    # The API gives this name to no key.
    with db.begin() as session:
        session.execute(text("UPDATE api_keys SET name = :name"), {"name": FIRST_KEY_NAME})
    path = f"/keys/{key['id']}"
    assert admin.patch(path, json={"name": "mine"}).status_code == 422
    assert admin.patch(path, json={"name": FIRST_KEY_NAME}).status_code == 200
    assert admin.post("/keys", json={"name": FIRST_KEY_NAME}).status_code == 422


def test_update_key__a_revoked_key_is_refused(admin: ToyClient) -> None:
    key = admin.post("/keys", json=NEW).json()
    admin.delete(f"/keys/{key['id']}")
    refused = admin.patch(f"/keys/{key['id']}", json={"name": "again"})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/api-key-revoked")


def test_update_key__one_admin_key_outlives_every_new_expiry(admin: ToyClient) -> None:
    (mine,) = admin.get("/keys").json()["items"]
    path, soon, later = f"/keys/{mine['id']}", "2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z"
    other = admin.post("/keys", json={"name": "other", "role": "admin", "expiresAt": soon}).json()
    refused = admin.patch(path, json={"expiresAt": later})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/last-admin-key")
    assert "no other admin key is usable after this expiry" in refused.json()["detail"]
    assert admin.patch(f"/keys/{other['id']}", json={"expiresAt": None}).status_code == 200
    assert admin.patch(path, json={"expiresAt": later}).status_code == 200
    assert admin.patch(f"/keys/{other['id']}", json={"expiresAt": later}).status_code == 409


def test_update_key__two_administrators_cannot_expire_each_other_at_once(
    app: FastAPI, create_token: CreateToken
) -> None:
    pair = [create_token("admin"), create_token("admin")]
    ids = [text_of_key.split("_")[2] for text_of_key in pair]
    body = {"expiresAt": "2026-11-22T12:00:00Z"}
    answers = ToyClient(app, pair[0]).all_at_once(
        [ApiCall("PATCH", f"/keys/{key}", {"json": body}) for key in ids]
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
