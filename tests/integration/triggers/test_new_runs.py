"""Each new run of a trace source is evaluated once; earlier runs are not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.db import DatabaseUnavailable
from mosaico.core.errors import Unavailable
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import PollSource
from mosaico.runs.source_runs import find_evaluated_runs
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    SourceRun,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.triggers.polling import find_target, list_complete_runs, start_new_runs
from mosaico.triggers.queries import SubscriptionKey
from tests.integration.triggers.conftest import TriggerSetup

TRACE = Trace(
    trace_id="t",
    item_id="i",
    trial=0,
    outcome=TraceOutcome.SCORED,
    input="q",
    expected_output="a b",
    output="a b",
)


class FakeSource:
    """A trace source with the runs that a test adds."""

    def __init__(self) -> None:
        self.runs: list[SourceRun] = []
        self.error: Exception | None = None
        self.polls = 0

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
        self.runs = [run, *(other for other in self.runs if other.id != run.id)]

    def list_runs(self, _: Resources, __: TraceQuery) -> Sequence[SourceRun]:
        self.polls += 1
        if self.error is not None:
            raise self.error
        return self.runs

    def pages(self, query: TraceQuery, _: str | None) -> Iterator[TracePage]:
        run_name = query.run_name
        read = next((run.id for run in self.runs if run_name in (run.id, run.name)), None)
        yield TracePage(traces=(TRACE,), cursor=None, run_name=run_name, run_id=read)


@pytest.fixture
def source(setup: TriggerSetup, monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    source = FakeSource()
    # Copies: the source of this test must not stay registered for the others.
    monkeypatch.setattr(TRACE_SOURCES, "_items", dict(TRACE_SOURCES._items))
    monkeypatch.setattr(TRACE_SOURCES, "_loaded", list(TRACE_SOURCES._loaded))
    TRACE_SOURCES.register("source", SourceSpec(open=lambda _: source, list_runs=source.list_runs))
    setup.service.patch("/benchmarks/bench-001", {"source": "source"})
    setup.set_triggers(newRun={"pattern": "nightly-*"})
    return source


def poll(setup: TriggerSetup) -> list[str | None]:
    """Poll once more; returns the run names of all started runs."""
    setup.tick(minutes=5)
    return [run["runName"] for run in setup.list_runs()]


def test_poll__first_poll_starts_nothing_and_new_runs_start_once(
    setup: TriggerSetup, source: FakeSource
) -> None:
    source.put("nightly-1")
    assert poll(setup) == []
    source.put("nightly-2")
    source.put("adhoc")
    source.put("nightly-3")
    assert poll(setup) == ["nightly-2", "nightly-3"]
    assert poll(setup) == ["nightly-2", "nightly-3"]
    assert {(run["triggeredBy"], run["status"]) for run in setup.list_runs()} == {
        ("EVENT", "COMPLETED")
    }
    events = setup.list_events(type="new-run")
    assert [event["runIds"] for event in events] == [[run["id"]] for run in setup.list_runs()[::-1]]


def test_poll__incomplete_run_waits_until_it_is_complete(
    setup: TriggerSetup, source: FakeSource
) -> None:
    source.put("nightly-1", complete=False)
    assert poll(setup) == []
    source.put("nightly-2", complete=False)
    assert poll(setup) == []
    source.put("nightly-2")
    assert poll(setup) == ["nightly-2"]
    source.put("nightly-1")
    assert poll(setup) == ["nightly-2", "nightly-1"]


def test_poll__evaluated_run_is_not_started_again(setup: TriggerSetup, source: FakeSource) -> None:
    poll(setup)
    source.put("nightly-1")
    setup.service.complete_run(runName="nightly-1")
    assert poll(setup) == ["nightly-1"]


def test_poll__run_with_a_reused_name_is_selected_by_id(
    setup: TriggerSetup, source: FakeSource
) -> None:
    source.put("nightly-1", run_id="first")
    poll(setup)
    source.put("nightly-1", run_id="second")
    assert poll(setup) == ["second"]


def test_poll__runs_with_one_name_are_evaluated_separately(
    setup: TriggerSetup, source: FakeSource
) -> None:
    poll(setup)
    source.put("nightly-", run_id="first")
    assert poll(setup) == ["nightly-"]
    source.put("nightly-", run_id="second")
    assert poll(setup) == ["nightly-", "second"]
    assert poll(setup) == ["nightly-", "second"]


@contextmanager
def short_lock_timeout(resources: Resources) -> Iterator[Session]:
    """A transaction with a short lock timeout."""
    with resources.db.begin() as session:
        # The other transaction holds its lock for as long as this one waits.
        session.execute(text("SET LOCAL lock_timeout = '20ms'"))
        yield session


def test_poll__is_serialized_with_schedules(setup: TriggerSetup, source: FakeSource) -> None:
    poll(setup)
    source.put("nightly-1")
    key = SubscriptionKey("bench-001", "agent-001")
    resources = setup.service.resources
    with resources.db.read() as session:
        target = find_target(session, key, resources)
    assert target is not None
    listed = list_complete_runs(target, resources)
    newest = {run.id: run.run for run in listed}
    with resources.db.begin() as schedule:
        # A schedule locks the pair of benchmark and agent with this query, until it commits.
        find_evaluated_runs(schedule, "bench-001", "agent-001", listed)
        with pytest.raises(DatabaseUnavailable), short_lock_timeout(resources) as session:
            start_new_runs(session, target, listed, newest, resources.clock())


def test_poll__wider_pattern_does_not_include_earlier_runs(
    setup: TriggerSetup, source: FakeSource
) -> None:
    poll(setup)
    source.put("adhoc-1")
    poll(setup)
    setup.set_triggers(newRun={"pattern": "*"})
    assert poll(setup) == []
    source.put("adhoc-2")
    assert poll(setup) == ["adhoc-2"]


def test_poll__changed_source_or_reenabled_trigger_starts_anew(
    setup: TriggerSetup, source: FakeSource
) -> None:
    poll(setup)
    source.put("nightly-1")
    setup.service.patch("/benchmarks/bench-001", {"datasetRef": "other"})
    assert poll(setup) == []
    setup.set_triggers()
    source.put("nightly-2")
    # This poll deletes the subscription, and with it the old starting point.
    poll(setup)
    setup.set_triggers(newRun={})
    assert poll(setup) == []


def test_enqueue_due_polls__polls_at_most_every_five_minutes(
    setup: TriggerSetup, source: FakeSource
) -> None:
    # The clock runs between the ticks too: a minute of it must not reach the five minutes.
    for seconds in (0, 60, 120, 60):
        setup.tick(seconds=seconds)
    assert source.polls == 1
    # Four minutes so far: 61 seconds more pass POLL_INTERVAL (5 minutes).
    setup.tick(seconds=61)
    assert source.polls == 2


def test_poll__repeated_failure_is_counted_in_one_event(
    setup: TriggerSetup, source: FakeSource
) -> None:
    source.error = CollectionFailed("the keys are wrong; send others", code="LANGFUSE_AUTH")
    poll(setup)
    poll(setup)
    [event] = setup.list_events()
    assert (event["status"], event["reason"], event["occurrences"], event["benchmarkIds"]) == (
        "IGNORED",
        "the keys are wrong; send others",
        2,
        ["bench-001"],
    )
    source.error = None
    poll(setup)
    source.put("nightly-1")
    assert poll(setup) == ["nightly-1"]


def test_poll__unavailable_source_is_retried(setup: TriggerSetup, source: FakeSource) -> None:
    poll(setup)
    source.put("nightly-1")
    source.error = Unavailable("the source is away; try again later")
    setup.clock.advance(minutes=5)
    from mosaico.jobs.handlers import HANDLERS, JobContext
    from mosaico.triggers import tasks

    handler = HANDLERS.find("triggers.poll")
    assert handler is not None
    job = JobContext(
        resources=setup.service.resources, pool=setup.service.pool, is_stopping=lambda: False
    )
    # Called here and not by the worker, which would wait before it tries again.
    with pytest.raises(Unavailable):
        tasks.poll(job, PollSource(benchmark_id="bench-001", agent_id="agent-001"))
    assert setup.list_events() == []
    source.error = None
    assert poll(setup) == ["nightly-1"]
