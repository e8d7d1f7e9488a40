"""Authentication and roles: valid and invalid keys, the key cache, the recorded use of a key."""

import hmac
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from fastapi import FastAPI
from sqlalchemy import text

from mosaico.access import key_finder, queries
from mosaico.access.key_finder import KeyFinder
from mosaico.access.models import ApiKey
from mosaico.access.rules import generate_token, parse_token
from mosaico.access.service import revoke_key
from mosaico.core.db import Database
from mosaico.core.resources import Resources
from tests.integration.access.toy_service import START, ManualClock, ToyClient, Workshop, toy_app

CreateToken = Callable[..., str]

REFUSE_CHANGES = """
CREATE FUNCTION refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'cannot execute UPDATE in a read-only transaction' USING ERRCODE = '25006';
END $$;
CREATE TRIGGER refuse_changes BEFORE UPDATE ON api_keys EXECUTE FUNCTION refuse_changes();
"""
INVALID = "this API key is not valid"


def key_id(token: str) -> str:
    parsed = parse_token(token)
    assert parsed is not None
    return parsed.key_id


def last_used(db: Database, token: str) -> object:
    with db.read() as session:
        row = session.get(ApiKey, key_id(token))
        assert row is not None
        return row.last_used_at


@pytest.fixture
def read_only_keys(db: Database) -> Iterator[None]:
    """The server refuses to change a key as a standby does (SQLSTATE 25006)."""
    with db.begin() as session:
        session.execute(text(REFUSE_CHANGES))
    yield
    with db.begin() as session:
        session.execute(text("DROP FUNCTION refuse_changes CASCADE"))


def test_require_role__all_invalid_keys_get_the_same_response(
    app: FastAPI, db: Database, create_token: CreateToken
) -> None:
    good = create_token("admin")
    revoked = create_token("admin")
    with db.begin() as session:
        revoke_key(session, key_id(revoked), now=START)
    same_id = good.split("_")[2]
    stranger = generate_token("admin").text
    bad = [
        revoked,
        create_token("admin", now=START - timedelta(days=2), expires_at=START - timedelta(days=1)),
        create_token("admin", now=START - timedelta(days=2), expires_at=START),
        stranger,
        good[:-1],
        good + "a",
        good.swapcase(),
        good.replace("_admin_", "_run_"),
        good.replace(same_id, key_id(stranger)),
        # The ID of the configured key is no key.
        "admin-env",
        "",
        "x" * 24,
        "ä" * 24,
    ]
    answers = [
        ToyClient(app).get("/toys", headers=[(b"Authorization", f"Bearer {token}".encode())])
        for token in bad
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers if INVALID in answer.text}) == 1
    assert [
        token for token, answer in zip(bad, answers, strict=True) if INVALID not in answer.text
    ] == [""]
    assert ToyClient(app, good).get("/toys").status_code == 200


def test_find_key__id_of_another_key_is_refused(db: Database, create_token: CreateToken) -> None:
    mine, other = create_token("read"), create_token("admin")
    body, _, _ = mine.replace(key_id(mine), key_id(other)).rpartition("_")
    # With a correct checksum: the look-up itself must refuse it.
    forged = f"{body}_{zlib.crc32(body.encode()):08x}"
    assert parse_token(forged) is not None
    with db.read() as session:
        assert queries.find_key(session, other) is not None
        assert queries.find_key(session, forged) is None


def test_find_key__compares_digests_in_constant_time(
    db: Database, create_token: CreateToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, compared = create_token("read"), []

    def noting(first: bytes, other: bytes) -> bool:
        compared.append(len(first))
        return hmac.compare_digest(first, other)

    monkeypatch.setattr(queries, "hmac", type("Noting", (), {"compare_digest": noting}))
    with db.read() as session:
        assert queries.find_key(session, token) is not None
    assert compared == [32]


def test_key_finder__revoked_key_is_refused_within_a_second(
    db: Database, create_token: CreateToken
) -> None:
    token, seconds = create_token("read"), [100.0]
    keys = KeyFinder(db, ManualClock(), monotonic=lambda: seconds[0])
    assert keys.find_key(token) is not None
    with db.begin() as session:
        revoke_key(session, key_id(token), now=START)
    # Just before CACHE_TTL_S (0.8 s), and then at it.
    seconds[0] += 0.79
    assert keys.get_cached(token) is not None
    seconds[0] += 0.01
    assert keys.get_cached(token) is None
    assert keys.find_key(token) is None
    assert key_finder.CACHE_TTL_S < 1


def test_key_finder__expired_key_is_refused_at_once(
    db: Database, create_token: CreateToken
) -> None:
    clock = ManualClock()
    token = create_token("read", expires_at=START + timedelta(seconds=1))
    keys = KeyFinder(db, clock)
    assert keys.find_key(token) is not None
    clock.forward(seconds=1)
    assert keys.get_cached(token) is None
    assert keys.find_key(token) is None


def test_key_finder__number_of_accepted_keys_is_limited(
    db: Database, create_token: CreateToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_finder, "MAX_ACCEPTED", 3)
    keys = KeyFinder(db, ManualClock())
    for _ in range(5):
        # Keys that do not exist are not kept: guesses would push the valid ones out.
        assert keys.find_key(generate_token("read").text) is None
    assert len(keys._accepted) == 0
    for _ in range(5):
        assert keys.find_key(create_token("read")) is not None
    assert len(keys._accepted) == 3


def test_record_use__refused_request_is_not_recorded(
    app: FastAPI, db: Database, create_token: CreateToken
) -> None:
    token = create_token("read")
    ToyClient(app, token + "x").get("/toys")
    assert last_used(db, token) is None


def test_record_use__read_only_database_still_serves_reads(
    app: FastAPI, db: Database, create_token: CreateToken, read_only_keys: None
) -> None:
    token = create_token("read")
    assert ToyClient(app, token).get("/toys").status_code == 200
    assert last_used(db, token) is None


def test_require_role__missing_database_gives_503_not_401(
    resources: Resources, create_token: CreateToken
) -> None:
    token = create_token("read")
    gone = Database("postgresql://nobody@127.0.0.1:1/gone", pool_size=1)
    app = toy_app(
        Resources(db=gone, secrets=resources.secrets, data_dir=resources.data_dir), Workshop()
    )
    answer = ToyClient(app, token).get("/toys")
    gone.dispose()
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
