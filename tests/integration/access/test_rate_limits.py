"""Rate limits: requests per key over all processes, and invalid keys per address."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from mosaico.access.models import RateWindow
from mosaico.access.rate_limits import (
    FAILURE_BURST,
    FailureLimiter,
    RequestLimiter,
    delete_old_windows,
)
from mosaico.access.rules import generate_token
from mosaico.access.service import ensure_first_admin_key
from mosaico.core.db import Database
from mosaico.core.encryption import Secret
from mosaico.core.network_policy import parse_networks
from mosaico.core.resources import Resources
from mosaico.core.web.client_network import TrustedProxies
from mosaico.core.web.forwarded_headers import ForwardedHeadersMiddleware
from mosaico.core.web.refusal_log import RefusalLog
from mosaico.core.web.response_headers import ResponseHeadersMiddleware
from mosaico.main import server_config
from tests.integration.access.toy_service import ApiCall, ToyClient, Workshop, toy_app

CreateToken = Callable[..., str]


class Seconds:
    """A clock that a test moves."""

    # The beginning of a minute.
    def __init__(self, now: float = 600.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minute ends, and no further failure is allowed, while a busy machine sends the requests."""
    for limiter in (RequestLimiter, FailureLimiter):
        name = f"mosaico.access.authentication.{limiter.__name__}"
        monkeypatch.setattr(name, partial(limiter, now=Seconds()))


@pytest.fixture
def limited(resources: Resources, workshop: Workshop) -> FastAPI:
    """The toy service with a limit of three requests per minute and key."""
    app = toy_app(replace(resources, options={"rate_limit": "3"}), workshop)
    app.add_middleware(ResponseHeadersMiddleware)
    return app


def test_rate_limit__headers_show_remaining_requests_and_reset(
    limited: FastAPI, create_token: CreateToken
) -> None:
    client = ToyClient(limited, create_token("read"))
    answers = [client.get("/toys") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    remaining = [answer.headers["RateLimit"].partition(";t=")[0] for answer in answers]
    assert remaining == ['"minute";r=2', '"minute";r=1', '"minute";r=0', '"minute";r=0']
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"minute";q=3;w=60'}
    refused = answers[-1]
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit"].endswith(f";t={refused.headers['Retry-After']}")
    assert refused.json()["type"] == "/problems/too-many-requests"
    assert "MOSAICO_RATE_LIMIT" in refused.json()["detail"]


def test_rate_limit__is_per_key_and_counts_refused_requests(
    limited: FastAPI, create_token: CreateToken
) -> None:
    first_client, other = (
        ToyClient(limited, create_token("read")),
        ToyClient(limited, create_token("read")),
    )
    assert [first_client.post("/toys", json={}).status_code for _ in range(4)] == [
        403,
        403,
        403,
        429,
    ]
    assert other.get("/toys").status_code == 200


def test_request_limiter__count_restarts_each_minute(db: Database) -> None:
    # A second before the next minute.
    now = Seconds(659.0)
    limit = RequestLimiter(db, 2, now=now)
    assert [limit.count_request("k").exceeded for _ in range(3)] == [False, False, True]
    assert limit.count_request("k").resets_s == 1
    now.now = 660.0
    assert (limit.count_request("k").remaining, limit.count_request("k").resets_s) == (1, 60)


def test_request_limiter__processes_synchronize_once_a_second(db: Database) -> None:
    now = Seconds()
    first, second = RequestLimiter(db, 10, now=now), RequestLimiter(db, 10, now=now)
    for _ in range(6):
        first.count_request("k")
        assert not first.is_sync_due("k")
    second.count_request("k")
    now.now += 1.0
    assert [first.is_sync_due("k") for _ in range(3)] == [True, False, False]
    for limit in (first, second, first):
        limit.sync("k")
    assert not first.is_sync_due("k")
    # Six requests here and one there, and this one.
    assert first.count_request("k").remaining == 10 - 7 - 1
    # This process knows the seven of its last look: three of ten are left.
    assert [second.count_request("k").exceeded for _ in range(4)] == [False, False, False, True]


def test_request_limiter__without_database_each_process_counts_alone() -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/gone", pool_size=1)
    limit = RequestLimiter(gone, 2, now=Seconds())
    limit.count_request("k")
    limit.sync("k")
    assert [limit.count_request("k").exceeded for _ in range(2)] == [False, True]
    gone.dispose()


def test_delete_old_windows__deletes_past_minutes(db: Database) -> None:
    for minute in (1, 5, 10):
        now = Seconds(minute * 60.0)
        limit = RequestLimiter(db, 10, now=now)
        limit.count_request("k")
        limit.sync("k")
    with db.begin() as session:
        delete_old_windows(session, datetime.fromtimestamp(10 * 60, UTC))
        assert session.query(RateWindow.minute).order_by("minute").all() == [(5,), (10,)]


def test_failure_limiter__limits_invalid_keys_but_never_valid_ones(
    app: FastAPI, create_token: CreateToken
) -> None:
    stranger = ToyClient(app, "a guess of the admin key, one of many")
    burst = stranger.all_at_once([ApiCall("GET", "/toys", {})] * FAILURE_BURST)
    assert {answer.status_code for answer in burst} == {401}
    slowed = stranger.get("/toys")
    assert slowed.status_code == 429
    assert 1 <= int(slowed.headers["Retry-After"]) <= 2
    assert ToyClient(app, generate_token("read").text).get("/toys").status_code == 429
    assert ToyClient(app, create_token("read")).get("/toys").status_code == 200


def test_failure_limiter__limited_address_looks_up_no_guess_even_a_right_one(
    app: FastAPI, db: Database, resources: Resources
) -> None:
    key = Secret("the key that the operator chose")
    ensure_first_admin_key(db, resources.data_dir, key)
    guesses = ToyClient(app, "a guess of the admin key, one of many")
    guesses.all_at_once([ApiCall("GET", "/toys", {})] * FAILURE_BURST)
    assert ToyClient(app, key.reveal()).get("/toys").status_code == 429


def test_failure_limiter__configured_key_used_before_is_not_locked_out(
    app: FastAPI, db: Database, resources: Resources
) -> None:
    owner = ToyClient(app, "the key that the operator chose")
    ensure_first_admin_key(db, resources.data_dir, Secret(str(owner.token)))
    assert owner.get("/toys").status_code == 200
    guesses = ToyClient(app, "a guess of the admin key, one of many")
    guesses.all_at_once([ApiCall("GET", "/toys", {})] * (FAILURE_BURST + 1))
    assert guesses.get("/toys").status_code == 429
    assert owner.get("/toys").status_code == 200


def test_guesses__forged_addresses_of_a_proxy_share_one_limit(limited: FastAPI) -> None:
    config = server_config(limited, host="127.0.0.1", port=0)
    config.load()
    guesses = ToyClient(config.loaded_app, "a guess of the admin key, one of many")
    forged = [{"headers": {"X-Forwarded-For": f"192.0.2.{n}"}} for n in range(FAILURE_BURST + 20)]

    for headers in forged:
        answer = guesses.get("/toys", **headers)

    assert answer.status_code == 429


def test_failure_limiter__clients_of_a_trusted_proxy_have_limits_of_their_own(
    app: FastAPI, db: Database, resources: Resources
) -> None:
    """A job with a wrong key locks out nobody else behind the same proxy."""
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    behind_proxy = ForwardedHeadersMiddleware(app, proxies=proxies)
    key = Secret("the key that the operator chose")
    ensure_first_admin_key(db, resources.data_dir, key)
    wrong, right = ToyClient(behind_proxy, "a wrong key, again and again"), key.reveal()
    job, reader = ({"X-Forwarded-For": address} for address in ("192.0.2.1", "192.0.2.2"))

    wrong.all_at_once([ApiCall("GET", "/toys", {"headers": job})] * FAILURE_BURST)

    assert wrong.get("/toys", headers=job).status_code == 429
    assert ToyClient(behind_proxy, right).get("/toys", headers=job).status_code == 429
    assert ToyClient(behind_proxy, right).get("/toys", headers=reader).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "nobody"},
        {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1"},
    ],
    ids=["malformed", "both kinds"],
)
def test_failure_limiter__malformed_headers_of_a_trusted_proxy_count_for_the_proxy(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(ForwardedHeadersMiddleware, "refusals", RefusalLog("headers ignored"))
    proxies = TrustedProxies(parse_networks("127.0.0.1"))
    guesses = ToyClient(
        ForwardedHeadersMiddleware(app, proxies=proxies), "a guess of the admin key, one of many"
    )
    calls = [ApiCall("GET", "/toys", {"headers": headers})] * FAILURE_BURST
    with capture_logs() as records:
        guesses.all_at_once(calls)
    assert guesses.get("/toys").status_code == 429
    assert [record["last"] for record in records if record["event"] == "headers ignored"] == [
        "127.0.0.1"
    ]


def test_failure_limiter__allows_one_more_failure_after_two_seconds() -> None:
    now = Seconds()
    failures = FailureLimiter(now=now)
    for _ in range(FAILURE_BURST):
        assert failures.retry_after_s("192.0.2.1") == 0
        failures.record_failure("192.0.2.1")
    assert failures.retry_after_s("192.0.2.1") == 2  # 30 per minute: one every 2 s
    assert failures.retry_after_s("192.0.2.2") == 0
    now.now += 1.5
    assert failures.retry_after_s("192.0.2.1") == 1
    now.now += 0.5
    assert failures.retry_after_s("192.0.2.1") == 0
    failures.record_failure("192.0.2.1")
    assert failures.retry_after_s("192.0.2.1") == 2


def test_failure_limiter__number_of_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaico.access.rate_limits.MAX_ADDRESSES", 3)
    failures = FailureLimiter(now=Seconds())
    for number in range(10):
        failures.record_failure(f"192.0.2.{number}")
    assert len(failures._empty_at) == 3
