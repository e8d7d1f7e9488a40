"""A server that asks to wait, or does not answer, is spared by every process."""

import dataclasses

import pytest
from sqlalchemy import text

from app.core.db import Database
from app.core.resources import Resources
from app.traces.circuit_breaker import FAILURES_TO_OPEN, FIRST_OPEN_S, MAX_OPEN_S, CircuitBreaker
from app.traces.collect import collect
from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.client import throttle_name
from app.traces.sources.langfuse.retry import COLLECTION_POLICY, LangfusePolicy
from app.traces.sources.langfuse.server_cache import check_server
from app.traces.sources.langfuse.source import LangfuseSource
from tests.integration.langfuse.collecting import HURRIED, query_of, resources
from tests.support.langfuse import StandIn
from tests.support.langfuse.mishaps import ALWAYS, HtmlPage, RateLimited


@pytest.fixture
def ours(migrated_database: Database) -> Resources:
    return dataclasses.replace(resources(), db=migrated_database)


@pytest.fixture
def limit(migrated_database: Database, langfuse: StandIn) -> CircuitBreaker:
    """What another process sees of the server."""
    langfuse.experiment(items=3)
    return CircuitBreaker(
        db=migrated_database, name=throttle_name(langfuse.url, langfuse.public_key)
    )


def let_it_pass(limit: CircuitBreaker) -> None:
    with limit.db.begin() as session:
        session.execute(text("UPDATE circuit_breakers SET open_until = now()"))


def traces(ours: Resources, langfuse: StandIn, patience: LangfusePolicy = HURRIED) -> int:
    source = LangfuseSource(resources=ours, policy=patience)
    pages = collect(source, query_of(langfuse), None)
    return sum(len(page.traces) for page in pages)


def given_up(ours: Resources, langfuse: StandIn) -> None:
    with pytest.raises(CollectionFailed) as caught:
        traces(ours, langfuse)
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"


def waits(ours: Resources, langfuse: StandIn) -> bool:
    """Whether a collection only shows signs of life, and asks nothing."""
    asked = len(langfuse.asked)
    pages = LangfuseSource(resources=ours, policy=COLLECTION_POLICY).pages(query_of(langfuse), None)
    beat = next(iter(pages))
    pages.close()  # type: ignore[attr-defined]
    return beat.traces == () and len(langfuse.asked) == asked


def test_a_server_that_is_given_up_again_and_again_is_left_alone(
    ours: Resources, langfuse: StandIn, limit: CircuitBreaker
) -> None:
    langfuse.inject(HtmlPage(status=503), on=ALWAYS)
    for _ in range(FAILURES_TO_OPEN - 1):
        given_up(ours, langfuse)
        assert limit.open_for_s() == 0
    given_up(ours, langfuse)
    assert FIRST_OPEN_S - 30 < limit.open_for_s() <= FIRST_OPEN_S
    assert waits(ours, langfuse)


def test_each_time_it_is_left_alone_for_longer(limit: CircuitBreaker) -> None:
    closed = []
    for _ in range(FAILURES_TO_OPEN + 5):
        limit.record_failure()
        closed.append(limit.open_for_s())
    # Nothing twice; then one minute, two, four, eight; and ten at most.
    expected = [0, 0, 60, 120, 240, 480, MAX_OPEN_S, MAX_OPEN_S]
    assert closed == pytest.approx(expected, abs=30)


def test_whoever_tries_its_keys_finds_out_that_it_answers_again(
    ours: Resources, langfuse: StandIn, limit: CircuitBreaker
) -> None:
    for _ in range(FAILURES_TO_OPEN):
        limit.record_failure()
    let_it_pass(limit)
    assert check_server(ours, query_of(langfuse)).api == "v4"
    assert limit.open_for_s() == 0
    limit.record_failure()
    assert limit.open_for_s() == 0  # it is the first time again


def test_a_wait_that_one_process_is_told_is_everybodys(
    ours: Resources, langfuse: StandIn, limit: CircuitBreaker
) -> None:
    langfuse.inject(RateLimited(retry_after_s=300), path="/experiments")
    pages = LangfuseSource(resources=ours, policy=COLLECTION_POLICY).pages(query_of(langfuse), None)
    assert next(iter(pages)).traces == ()
    pages.close()  # type: ignore[attr-defined]
    assert 270 < limit.open_for_s() <= 300
    limit.hold_requests(5)
    assert limit.open_for_s() > 270


def test_a_wait_is_over_when_it_is_over(
    ours: Resources, langfuse: StandIn, limit: CircuitBreaker
) -> None:
    limit.hold_requests(300)
    let_it_pass(limit)
    assert limit.open_for_s() == 0
    assert traces(ours, langfuse) == 3


def test_a_process_whose_database_is_away_spares_the_server_alone(langfuse: StandIn) -> None:
    alone = CircuitBreaker(db=resources().db, name="langfuse:nowhere")
    alone.hold_requests(300)
    alone.record_failure()
    alone.record_success()
    assert alone.open_for_s() == 0
