"""New runs in a trace source are judged once each; what was there before is not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.db import DatabaseUnavailable
from app.core.errors import Unavailable
from app.core.resources import Resources
from app.runs.source_runs import find_judged_runs
from app.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    SourceRun,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from app.traces.types import Trace, TraceOutcome
from app.triggers.polling import find_target, list_complete_runs, start_new_runs
from app.triggers.queries import SubscriptionKey
from tests.integration.triggers.conftest import Scene

TRACE = Trace(
    trace_id="t",
    item_id="i",
    trial=0,
    outcome=TraceOutcome.SCORED,
    input="q",
    expected_output="a b",
    output="a b",
)


class Bookshelf:
    """A source with the runs that a test puts there."""

    def __init__(self) -> None:
        self.runs: list[SourceRun] = []
        self.error: Exception | None = None
        self.looks = 0

    def put(self, name: str, *, run_id: str | None = None, complete: bool = True) -> None:
        at = datetime(2026, 11, 22, tzinfo=UTC)
        run = SourceRun(
            id=run_id or f"id of {name}",
            name=name,
            started_at=at,
            ended_at=at,
            items=1,
            complete=complete,
        )
        self.runs = [run, *(each for each in self.runs if each.id != run.id)]

    def list_runs(self, _: Resources, __: TraceQuery) -> Sequence[SourceRun]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.runs

    def pages(self, query: TraceQuery, _: str | None) -> Iterator[TracePage]:
        asked = query.run_name
        read = next((run.id for run in self.runs if asked in (run.id, run.name)), None)
        yield TracePage(traces=(TRACE,), cursor=None, run_name=asked, run_id=read)


@pytest.fixture
def shelf(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Bookshelf:
    shelf = Bookshelf()
    monkeypatch.setattr(TRACE_SOURCES, "_items", dict(TRACE_SOURCES._items))
    monkeypatch.setattr(TRACE_SOURCES, "_loaded", list(TRACE_SOURCES._loaded))
    TRACE_SOURCES.register("shelf", SourceSpec(open=lambda _: shelf, list_runs=shelf.list_runs))
    scene.service.patch("/benchmarks/bench-001", {"source": "shelf"})
    scene.triggers(newRun={"pattern": "nightly-*"})
    return shelf


def look(scene: Scene) -> list[str | None]:
    """The runs that were judged, after everybody has looked once more."""
    scene.tick(minutes=5)
    return [run["runName"] for run in scene.runs()]


def test_what_is_there_at_first_is_not_judged_and_each_new_run_is_judged_once(
    scene: Scene, shelf: Bookshelf
) -> None:
    shelf.put("nightly-1")
    assert look(scene) == []
    shelf.put("nightly-2")
    shelf.put("adhoc")
    shelf.put("nightly-3")
    assert look(scene) == ["nightly-2", "nightly-3"]
    assert look(scene) == ["nightly-2", "nightly-3"]
    assert {(run["triggeredBy"], run["status"]) for run in scene.runs()} == {("EVENT", "COMPLETED")}
    events = scene.events(type="new-run")
    assert [event["runIds"] for event in events] == [[run["id"]] for run in scene.runs()[::-1]]


def test_a_run_is_judged_once_it_is_complete(scene: Scene, shelf: Bookshelf) -> None:
    shelf.put("nightly-1", complete=False)
    assert look(scene) == []
    shelf.put("nightly-2", complete=False)
    assert look(scene) == []
    shelf.put("nightly-2")
    assert look(scene) == ["nightly-2"]
    shelf.put("nightly-1")
    assert look(scene) == ["nightly-2", "nightly-1"]


def test_a_run_that_somebody_judged_already_is_not_judged_again(
    scene: Scene, shelf: Bookshelf
) -> None:
    look(scene)
    shelf.put("nightly-1")
    scene.service.completed(runName="nightly-1")
    assert look(scene) == ["nightly-1"]


def test_a_new_run_of_an_old_name_is_asked_for_by_its_id(scene: Scene, shelf: Bookshelf) -> None:
    shelf.put("nightly-1", run_id="first")
    look(scene)
    shelf.put("nightly-1", run_id="second")
    assert look(scene) == ["second"]


def test_runs_that_all_bear_one_name_are_judged_each(scene: Scene, shelf: Bookshelf) -> None:
    look(scene)
    shelf.put("nightly-", run_id="first")
    assert look(scene) == ["nightly-"]
    shelf.put("nightly-", run_id="second")
    assert look(scene) == ["nightly-", "second"]
    assert look(scene) == ["nightly-", "second"]


@contextmanager
def impatient(resources: Resources) -> Iterator[Session]:
    """A transaction that waits for nobody."""
    with resources.db.begin() as session:
        session.execute(text("SET LOCAL lock_timeout = '20ms'"))
        yield session


def test_a_look_takes_its_turn_with_schedules_that_judge_the_same(
    scene: Scene, shelf: Bookshelf
) -> None:
    look(scene)
    shelf.put("nightly-1")
    watched = SubscriptionKey("bench-001", "agent-001")
    resources = scene.service.resources
    with resources.db.read() as session:
        place = find_target(session, watched, resources)
    assert place is not None
    listed = list_complete_runs(place, resources)
    with resources.db.begin() as schedule:
        find_judged_runs(schedule, "bench-001", "agent-001", listed)
        with pytest.raises(DatabaseUnavailable), impatient(resources) as session:
            start_new_runs(session, place, listed, resources.clock())


def test_a_wider_pattern_does_not_dig_up_the_past(scene: Scene, shelf: Bookshelf) -> None:
    look(scene)
    shelf.put("adhoc-1")
    look(scene)
    scene.triggers(newRun={"pattern": "*"})
    assert look(scene) == []
    shelf.put("adhoc-2")
    assert look(scene) == ["adhoc-2"]


def test_elsewhere_and_after_a_pause_what_is_there_at_first_is_not_judged_either(
    scene: Scene, shelf: Bookshelf
) -> None:
    look(scene)
    shelf.put("nightly-1")
    scene.service.patch("/benchmarks/bench-001", {"datasetRef": "other"})
    assert look(scene) == []
    scene.triggers()
    shelf.put("nightly-2")
    look(scene)
    scene.triggers(newRun={})
    assert look(scene) == []


def test_nobody_looks_more_often_than_every_five_minutes_however_many_tick(
    scene: Scene, shelf: Bookshelf
) -> None:
    for seconds in (0, 60, 120, 119):
        scene.tick(seconds=seconds)
    assert shelf.looks == 1
    scene.tick(seconds=2)
    assert shelf.looks == 2


def test_a_source_that_refuses_is_recorded_once_with_a_count(
    scene: Scene, shelf: Bookshelf
) -> None:
    shelf.error = CollectionFailed("the keys are wrong; send others", code="LANGFUSE_AUTH")
    look(scene)
    look(scene)
    [event] = scene.events()
    assert (event["status"], event["reason"], event["occurrences"], event["benchmarkIds"]) == (
        "IGNORED",
        "the keys are wrong; send others",
        2,
        ["bench-001"],
    )
    shelf.error = None
    look(scene)
    shelf.put("nightly-1")
    assert look(scene) == ["nightly-1"]


def test_a_source_that_is_away_is_asked_again_later(scene: Scene, shelf: Bookshelf) -> None:
    look(scene)
    shelf.put("nightly-1")
    shelf.error = Unavailable("the source is away; try again later")
    scene.clock.go_on(minutes=5)
    from app.jobs.handlers import HANDLERS, JobContext
    from app.triggers import tasks

    handler = HANDLERS.find("triggers.poll")
    assert handler is not None
    job = JobContext(
        resources=scene.service.resources, pool=scene.service.pool, is_stopping=lambda: False
    )
    with pytest.raises(Unavailable):
        tasks.poll(job, benchmark_id="bench-001", agent_id="agent-001")
    assert scene.events() == []
    shelf.error = None
    assert look(scene) == ["nightly-1"]
