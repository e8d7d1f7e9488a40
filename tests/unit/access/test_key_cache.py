"""The cache of API keys: a burst of requests with one key asks the database once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from mosaico.access import queries
from mosaico.access.key_cache import KeyCache
from mosaico.access.queries import KeyIdentity
from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

REQUESTS = 20
KEY = KeyIdentity(id="key-1", role="read", expires_at=None, revoked_at=None)


class GatedDatabase:
    """A database whose statements wait until `gate` is opened."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    @contextmanager
    def read_statement(self) -> Iterator[None]:
        assert self.gate.wait(30)
        yield


def find_in_many_threads(
    monkeypatch: pytest.MonkeyPatch, answer: KeyIdentity | Exception | None
) -> tuple[list[Any], int]:
    """What each of many requests with one key gets, and the number of queries."""
    database, queried_tokens = GatedDatabase(), []

    def find_key(_: object, token: str) -> KeyIdentity | None:
        queried_tokens.append(token)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(queries, "find_key", find_key)
    cache = KeyCache(cast("Database", database), lambda: datetime.now(UTC))
    # All requests have begun before the database answers the first one.
    entered = threading.Barrier(REQUESTS + 1)

    def request() -> Any:
        entered.wait(30)
        try:
            return cache.find_key("mosaico_token")
        except Unavailable as error:
            return type(error)

    with ThreadPoolExecutor(REQUESTS) as threads:
        futures = [threads.submit(request) for _ in range(REQUESTS)]
        entered.wait(30)
        database.gate.set()
        return [future.result(30) for future in futures], len(queried_tokens)


def test_key_cache__burst_of_requests_with_one_key_is_one_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, query_count = find_in_many_threads(monkeypatch, KEY)
    assert keys == [KEY] * REQUESTS
    assert query_count == 1


@pytest.mark.parametrize(("answer", "expected"), [(None, None), (Unavailable(), Unavailable)])
def test_key_cache__every_request_of_a_burst_gets_the_answer(
    answer: Exception | None, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, _ = find_in_many_threads(monkeypatch, answer)
    assert answers == [expected] * REQUESTS
