"""The circuit breaker: all processes stop requests to a server that fails or asks for a wait."""

import dataclasses

import pytest
from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.core.resources import Resources
from mosaico.traces.circuit_breaker import (
    FAILURES_TO_OPEN,
    FIRST_OPEN_S,
    CircuitBreaker,
)
from mosaico.traces.registry import CollectionFailed, collect
from mosaico.traces.sources.langfuse.catalog import check_server
from mosaico.traces.sources.langfuse.client import throttle_name
from mosaico.traces.sources.langfuse.failures import COLLECTION_POLICY, LangfusePolicy
from mosaico.traces.sources.langfuse.source import LangfuseSource
from tests.integration.langfuse.collection import FAST_POLICY, make_query, make_resources
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import ALWAYS, HtmlResponse, RateLimited


@pytest.fixture
def ours(migrated_database: Database) -> Resources:
    return dataclasses.replace(make_resources(), db=migrated_database)


@pytest.fixture
def limit(migrated_database: Database, langfuse: FakeLangfuse) -> CircuitBreaker:
    """The breaker as another process sees it."""
    langfuse.experiment(items=3)
    return CircuitBreaker(
        db=migrated_database, name=throttle_name(langfuse.url, langfuse.public_key)
    )


def let_it_pass(limit: CircuitBreaker) -> None:
    with limit.db.begin() as session:
        session.execute(text("UPDATE circuit_breakers SET open_until = now()"))


def traces(
    ours: Resources, langfuse: FakeLangfuse, retry_policy: LangfusePolicy = FAST_POLICY
) -> int:
    source = LangfuseSource(resources=ours, policy=retry_policy)
    pages = collect(source, make_query(langfuse), None)
    return sum(len(page.traces) for page in pages)


def given_up(ours: Resources, langfuse: FakeLangfuse) -> None:
    with pytest.raises(CollectionFailed) as caught:
        traces(ours, langfuse)
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"


def waits(ours: Resources, langfuse: FakeLangfuse) -> bool:
    """Whether a collection yields heartbeats only, without a request."""
    request_count = len(langfuse.requests)
    pages = LangfuseSource(resources=ours, policy=COLLECTION_POLICY).pages(
        make_query(langfuse), None
    )
    beat = next(iter(pages))
    pages.close()  # type: ignore[attr-defined]
    return beat.traces == () and len(langfuse.requests) == request_count


def test_circuit_breaker__opens_after_repeated_failures(
    ours: Resources, langfuse: FakeLangfuse, limit: CircuitBreaker
) -> None:
    langfuse.inject(HtmlResponse(status=503), on=ALWAYS)
    for _ in range(FAILURES_TO_OPEN - 1):
        given_up(ours, langfuse)
        assert limit.open_for_s() == 0
    given_up(ours, langfuse)
    # Thirty seconds for a slow machine: the time counts from the failure.
    assert FIRST_OPEN_S - 30 < limit.open_for_s() <= FIRST_OPEN_S
    assert waits(ours, langfuse)


def test_circuit_breaker__successful_check_closes_it(
    ours: Resources, langfuse: FakeLangfuse, limit: CircuitBreaker
) -> None:
    for _ in range(FAILURES_TO_OPEN):
        limit.record_failure()
    let_it_pass(limit)
    assert check_server(ours, make_query(langfuse)).api == "v4"
    assert limit.open_for_s() == 0
    limit.record_failure()
    assert limit.open_for_s() == 0  # the count of failures starts again


def test_circuit_breaker__hold_applies_to_all_processes(
    ours: Resources, langfuse: FakeLangfuse, limit: CircuitBreaker
) -> None:
    langfuse.inject(RateLimited(retry_after_s=300), path="/experiments")
    pages = LangfuseSource(resources=ours, policy=COLLECTION_POLICY).pages(
        make_query(langfuse), None
    )
    assert next(iter(pages)).traces == ()
    pages.close()  # type: ignore[attr-defined]
    assert 270 < limit.open_for_s() <= 300
    # A shorter wait that another request gets does not end the longer one.
    limit.hold_requests(5)
    assert limit.open_for_s() > 270


def test_circuit_breaker__hold_ends_with_its_time(
    ours: Resources, langfuse: FakeLangfuse, limit: CircuitBreaker
) -> None:
    limit.hold_requests(300)
    let_it_pass(limit)
    assert limit.open_for_s() == 0
    assert traces(ours, langfuse) == 3
