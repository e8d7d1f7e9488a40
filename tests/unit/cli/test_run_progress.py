"""Progress of a watched run, and reconnection to the service."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.api_responses import ServiceUnreachable
from mosaico.core.console.event_stream import ServerSentEvent, read_events
from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.runs.cli.progress import ProgressLog, describe_run, follow_run, run_exit_code
from mosaico.runs.schemas import RunView
from tests.support.views import partial_view

AN_INSTANT = datetime(2026, 11, 21, 22, tzinfo=UTC)


def run(status: RunStatus = RunStatus.RUNNING, **fields: Any) -> RunView:
    counts = (
        "traces_collected", "traces_processed", "metrics_computed", "metrics_reused", "retry_count",
        "redacted_texts",
    )  # fmt: skip
    texts = ("id", "benchmark_id", "agent_id", "results")
    fixed = {"triggered_by": TriggerType.MANUAL, "created_at": AN_INSTANT}
    flags = {"has_new_data": True, "is_late": False}
    required = dict.fromkeys(counts, 0) | dict.fromkeys(texts, "run-1") | fixed | flags
    return partial_view(RunView, **{**required, "status": status, **fields})


def event(event_id: str, state: RunView | None) -> ServerSentEvent:
    return ServerSentEvent(event_id, state.model_dump(mode="json") if state else None)


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_progress__prints_at_most_eleven_lines(steps: list[int]) -> None:
    progress = ProgressLog()
    lines = [
        done
        for done in sorted(steps)
        if progress.is_due(run(traces_total=1000, traces_collected=done), 0)
    ]
    # 0 %, each tenth and 100 %.
    assert 1 <= len(lines) <= 11


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (run(RunStatus.PENDING), "PENDING waits for a worker"),
        (run(), "RUNNING collecting traces"),
        (run(traces_total=0), "RUNNING collecting traces"),
        (run(traces_total=3, traces_collected=1), "RUNNING 33 % (1 of 3 traces collected)"),
        (run(traces_total=3, traces_processed=2), "RUNNING 66 % (2 of 3 traces measured)"),
        (
            run(
                RunStatus.COMPLETED,
                validity=Validity.VALID,
                traces_processed=3,
                started_at=AN_INSTANT,
                completed_at=AN_INSTANT + timedelta(seconds=1.5),
            ),
            "COMPLETED VALID 3 traces in 1.5 s",
        ),
        (
            run(
                RunStatus.COMPLETED,
                validity=Validity.INVALID,
                validity_reasons=["too little", "too bad"],
            ),
            "COMPLETED INVALID 0 traces: too little; too bad",
        ),
        (
            run(RunStatus.FAILED, error_message="no such\ndataset"),
            "FAILED 0 traces: no such\\ndataset",
        ),
        (run(RunStatus.CANCELLED), "CANCELLED 0 traces"),
    ],
)
def test_describe__is_one_line(state: RunView, line: str) -> None:
    assert describe_run(state) == line


@pytest.mark.parametrize(
    ("status", "validity", "code"),
    [
        (RunStatus.COMPLETED, Validity.VALID, 0),
        (RunStatus.COMPLETED, Validity.INVALID, 3),
        (RunStatus.FAILED, None, 3),
        (RunStatus.CANCELLED, None, 3),
    ],
)
def test_exit_code__is_0_only_for_a_completed_valid_run(
    status: RunStatus, validity: Validity | None, code: int
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


def follow_all(service: ProgressService, *, seconds_per_reading: float = 1.0) -> list[RunView]:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds_per_reading
        return now

    def sleep(seconds: float) -> None:
        """The clock advances with each reading."""

    return list(follow_run(cast("ApiClient", service), "/runs/1", sleep=sleep, clock=clock))


def test_follow__resumes_a_broken_connection_at_the_last_event() -> None:
    half, done = run(traces_total=2, traces_processed=1), run(RunStatus.COMPLETED)
    service = ProgressService(
        [event("1", run()), event("2", half), ServiceUnreachable("gone")],
        [],
        [event("3", done)],
    )
    assert follow_all(service) == [run(), half, done]
    # The second connection ends without an event, so the third one asks for the same.
    assert service.last_ids == [None, "2", "2"]


def test_follow__keep_alive_repeats_the_last_state() -> None:
    service = ProgressService(
        [
            event("1", run()),
            event("1", None),
            event("2", run(RunStatus.FAILED)),
        ]
    )
    assert follow_all(service) == [run(), run(), run(RunStatus.FAILED)]


def test_follow__unreachable_service_fails_at_once() -> None:
    with pytest.raises(ServiceUnreachable):
        follow_all(ProgressService([ServiceUnreachable("away")]))


def test_follow__lost_service_is_retried_for_a_minute() -> None:
    away: list[ServerSentEvent | ServiceUnreachable] = [ServiceUnreachable("away")]
    service = ProgressService([event("1", run())], *[away] * 100)
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
        # Without the empty line that ends an event it may be cut, and is not one.
        'data: {"cut": true}',
    ]
    assert list(read_events(lines)) == [
        ServerSentEvent("7", {"a": 1}),
        ServerSentEvent("7", None),
        ServerSentEvent("7", {"b": 2}),
    ]
