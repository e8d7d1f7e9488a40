"""Progress of a watched run, and reconnection to the service."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.console.api_client import ApiClient, ServiceUnreachable
from app.core.console.event_stream import ServerSentEvent, read_events
from app.runs.cli.progress import ProgressReporter, describe_run, follow_run, run_exit_code

JSON = dict[str, Any]


def run(status: str = "RUNNING", **fields: Any) -> JSON:
    return {
        "id": "run-1",
        "status": status,
        "validity": None,
        "validityReasons": None,
        "errorMessage": None,
        "tracesTotal": None,
        "tracesCollected": 0,
        "tracesProcessed": 0,
        "startedAt": None,
        "completedAt": None,
        **fields,
    }


def test_progress__line_is_due_at_the_start_and_at_every_tenth() -> None:
    progress = ProgressReporter()
    due = [
        done
        for done in range(101)
        if progress.is_due(run(tracesTotal=100, tracesCollected=done), 0)
    ]
    assert due == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


def test_progress__line_is_due_when_measuring_begins() -> None:
    progress = ProgressReporter()
    assert progress.is_due(run(tracesTotal=100, tracesCollected=100), 0)
    assert progress.is_due(run(tracesTotal=100, tracesCollected=100, tracesProcessed=1), 0)
    assert not progress.is_due(run(tracesTotal=100, tracesCollected=100, tracesProcessed=2), 0)


def test_progress__line_is_due_after_30_s_and_on_a_status_change() -> None:
    progress = ProgressReporter()
    assert progress.is_due(run("PENDING"), 0)
    assert not progress.is_due(run("PENDING"), 29.9)
    assert progress.is_due(run("PENDING"), 30)
    assert progress.is_due(run("RUNNING"), 31)
    assert not progress.is_due(run("RUNNING"), 60.9)


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_progress__prints_at_most_eleven_lines(steps: list[int]) -> None:
    progress = ProgressReporter()
    lines = [
        done
        for done in sorted(steps)
        if progress.is_due(run(tracesTotal=1000, tracesCollected=done), 0)
    ]
    assert 1 <= len(lines) <= 11


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (run("PENDING"), "PENDING waits for a worker"),
        (run(), "RUNNING collecting traces"),
        (run(tracesTotal=0), "RUNNING collecting traces"),
        (run(tracesTotal=3, tracesCollected=1), "RUNNING 33 % (1 of 3 traces collected)"),
        (run(tracesTotal=3, tracesProcessed=2), "RUNNING 66 % (2 of 3 traces measured)"),
        (
            run(
                "COMPLETED",
                validity="VALID",
                tracesProcessed=3,
                startedAt="2026-11-21T22:00:00Z",
                completedAt="2026-11-21T22:00:01.5Z",
            ),
            "COMPLETED VALID 3 traces in 1.5 s",
        ),
        (
            run("COMPLETED", validity="INVALID", validityReasons=["too little", "too bad"]),
            "COMPLETED INVALID 0 traces: too little; too bad",
        ),
        (run("FAILED", errorMessage="no such\ndataset"), "FAILED 0 traces: no such\\ndataset"),
        (run("CANCELLED"), "CANCELLED 0 traces"),
    ],
)
def test_describe__is_one_line(state: JSON, line: str) -> None:
    assert describe_run(state) == line


@pytest.mark.parametrize(
    ("status", "validity", "code"),
    [
        ("COMPLETED", "VALID", 0),
        ("COMPLETED", "INVALID", 3),
        ("FAILED", None, 3),
        ("CANCELLED", None, 3),
    ],
)
def test_exit_code__is_0_only_for_a_completed_valid_run(
    status: str, validity: str | None, code: int
) -> None:
    assert run_exit_code(run(status, validity=validity)) == code


class ProgressService:
    """A service with prepared events per connection; an error breaks the connection."""

    def __init__(self, *connections: list[ServerSentEvent | ServiceUnreachable]) -> None:
        self._connections = iter(connections)
        self.last_ids: list[str | None] = []

    def events(self, path: str, last_id: str | None = None) -> Iterator[ServerSentEvent]:
        assert path == "/runs/1/events"
        self.last_ids.append(last_id)
        for event in next(self._connections):
            if isinstance(event, ServiceUnreachable):
                raise event
            yield event


def follow_all(service: ProgressService, *, seconds_per_reading: float = 1.0) -> list[JSON]:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds_per_reading
        return now

    def sleep(seconds: float) -> None:
        """The clock advances with each reading."""

    return list(follow_run(cast("ApiClient", service), "/runs/1", sleep=sleep, clock=clock))


def test_follow__resumes_a_broken_connection_at_the_last_event() -> None:
    half, done = run(tracesTotal=2, tracesProcessed=1), run("COMPLETED")
    service = ProgressService(
        [ServerSentEvent("1", run()), ServerSentEvent("2", half), ServiceUnreachable("gone")],
        [],
        [ServerSentEvent("3", done)],
    )
    assert follow_all(service) == [run(), half, done]
    assert service.last_ids == [None, "2", "2"]


def test_follow__keep_alive_repeats_the_last_state() -> None:
    service = ProgressService(
        [
            ServerSentEvent("1", run()),
            ServerSentEvent("1", None),
            ServerSentEvent("2", run("FAILED")),
        ]
    )
    assert follow_all(service) == [run(), run(), run("FAILED")]


def test_follow__unreachable_service_fails_at_once() -> None:
    with pytest.raises(ServiceUnreachable):
        follow_all(ProgressService([ServiceUnreachable("away")]))


def test_follow__lost_service_is_retried_for_a_minute() -> None:
    away: list[ServerSentEvent | ServiceUnreachable] = [ServiceUnreachable("away")]
    service = ProgressService([ServerSentEvent("1", run())], *[away] * 100)
    with pytest.raises(ServiceUnreachable):
        follow_all(service)
    # Heard at second 2; each connection is one reading of the clock: 2 + 61 > 2 + 60.
    assert len(service.last_ids) == 1 + 61


def test_read_events__parses_lines() -> None:
    lines = [
        "event: run",
        "id: 7",
        'data: {"a":',
        "data: 1}",
        "",
        ": still here",
        "",
        "retry: 5",
        'data:{"b": 2}',
        "",
        'data: {"cut": true}',
    ]
    assert list(read_events(lines)) == [
        ServerSentEvent("7", {"a": 1}),
        ServerSentEvent("7", None),
        ServerSentEvent("7", {"b": 2}),
    ]
