"""A server that asks to wait, or does not answer, is spared by every process."""

import dataclasses

import pytest
from sqlalchemy import text

from app.core.db import Database
from app.core.resources import Resources
from app.traces.circuit_breaker import CLOSED_S, GIVEN_UP_OFTEN, LONGEST_S, SourceLimit
from app.traces.collect import collect
from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.client import turn_of
from app.traces.sources.langfuse.retry import PATIENCE, Patience
from app.traces.sources.langfuse.server_cache import check
from app.traces.sources.langfuse.source import LangfuseSource
from tests.integration.langfuse.collecting import HURRIED, query_of, resources
from tests.support.langfuse import StandIn
from tests.support.langfuse.mishaps import ALWAYS, HtmlPage, RateLimited


@pytest.fixture
def ours(migrated_database: Database) -> Resources:
    return dataclasses.replace(resources(), db=migrated_database)


@pytest.fixture
def limit(migrated_database: Database, langfuse: StandIn) -> SourceLimit:
    """What another process sees of the server."""
    langfuse.experiment(items=3)
    return SourceLimit(db=migrated_database, name=turn_of(langfuse.url, langfuse.public_key))


def let_it_pass(limit: SourceLimit) -> None:
    with limit.db.begin() as session:
        session.execute(text("UPDATE source_limits SET closed_until = now()"))


def traces(ours: Resources, langfuse: StandIn, patience: Patience = HURRIED) -> int:
    source = LangfuseSource(resources=ours, patience=patience)
    pages = collect(source, query_of(langfuse), None)
    return sum(len(page.traces) for page in pages)


def given_up(ours: Resources, langfuse: StandIn) -> None:
    with pytest.raises(CollectionFailed) as caught:
        traces(ours, langfuse)
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"


def waits(ours: Resources, langfuse: StandIn) -> bool:
    """Whether a collection only shows signs of life, and asks nothing."""
    asked = len(langfuse.asked)
    pages = LangfuseSource(resources=ours, patience=PATIENCE).pages(query_of(langfuse), None)
    beat = next(iter(pages))
    pages.close()  # type: ignore[attr-defined]
    return beat.traces == () and len(langfuse.asked) == asked


def test_a_server_that_is_given_up_again_and_again_is_left_alone(
    ours: Resources, langfuse: StandIn, limit: SourceLimit
) -> None:
    langfuse.inject(HtmlPage(status=503), on=ALWAYS)
    for _ in range(GIVEN_UP_OFTEN - 1):
        given_up(ours, langfuse)
        assert limit.closed_s() == 0
    given_up(ours, langfuse)
    assert CLOSED_S - 30 < limit.closed_s() <= CLOSED_S
    assert waits(ours, langfuse)


def test_each_time_it_is_left_alone_for_longer(limit: SourceLimit) -> None:
    closed = []
    for _ in range(GIVEN_UP_OFTEN + 5):
        limit.gave_up()
        closed.append(limit.closed_s())
    # Nothing twice; then one minute, two, four, eight; and ten at most.
    expected = [0, 0, 60, 120, 240, 480, LONGEST_S, LONGEST_S]
    assert closed == pytest.approx(expected, abs=30)


def test_whoever_tries_its_keys_finds_out_that_it_answers_again(
    ours: Resources, langfuse: StandIn, limit: SourceLimit
) -> None:
    for _ in range(GIVEN_UP_OFTEN):
        limit.gave_up()
    let_it_pass(limit)
    assert check(ours, query_of(langfuse)).api == "v4"
    assert limit.closed_s() == 0
    limit.gave_up()
    assert limit.closed_s() == 0  # it is the first time again


def test_a_wait_that_one_process_is_told_is_everybodys(
    ours: Resources, langfuse: StandIn, limit: SourceLimit
) -> None:
    langfuse.inject(RateLimited(retry_after_s=300), path="/experiments")
    pages = LangfuseSource(resources=ours, patience=PATIENCE).pages(query_of(langfuse), None)
    assert next(iter(pages)).traces == ()
    pages.close()  # type: ignore[attr-defined]
    assert 270 < limit.closed_s() <= 300
    limit.hold(5)
    assert limit.closed_s() > 270


def test_a_wait_is_over_when_it_is_over(
    ours: Resources, langfuse: StandIn, limit: SourceLimit
) -> None:
    limit.hold(300)
    let_it_pass(limit)
    assert limit.closed_s() == 0
    assert traces(ours, langfuse) == 3


def test_a_process_whose_database_is_away_spares_the_server_alone(langfuse: StandIn) -> None:
    alone = SourceLimit(db=resources().db, name="langfuse:nowhere")
    alone.hold(300)
    alone.gave_up()
    alone.answered()
    assert alone.closed_s() == 0
