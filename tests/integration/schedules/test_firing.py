"""What becomes of due instants: runs, overlaps, failures, edits and clocks that jump."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from app.core.db import Database
from app.schedules import queries
from app.schedules import ticker as ticks
from app.schedules.service import recompute_next_runs
from app.schedules.ticker import Ticker, fire_all_due
from app.traces.registry import TRACE_SOURCES, SourceRun, SourceSpec
from tests.support.service import JSON, Service, pair
from tests.support.stored import Rows

TWO = datetime(2026, 3, 2, 2, tzinfo=UTC)
DAY = timedelta(days=1)
AN_HOUR_S = 3600.0
LIVENESS_S = 60.0

Due = Callable[..., JSON]
Tick = Callable[[datetime], int]


def fires(service: Service, schedule_id: str = "s-1") -> list[JSON]:
    """Oldest first."""
    return list(reversed(service.listed(f"/schedule-configs/{schedule_id}/fires")))


def statuses(service: Service, schedule_id: str = "s-1") -> list[tuple[str, str | None]]:
    return [(fire["status"], fire["reason"]) for fire in fires(service, schedule_id)]


def schedule(service: Service, schedule_id: str = "s-1") -> JSON:
    return service.get(f"/schedule-configs/{schedule_id}")


def test_a_due_instant_starts_a_run_and_the_schedule_goes_on(
    ready: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    assert tick(TWO - timedelta(milliseconds=1)) == 0
    assert tick(TWO) == 1
    assert tick(TWO) == 0
    ready.work()
    [fire] = fires(ready)
    assert (fire["status"], fire["dueAt"]) == ("STARTED", "2026-03-02T02:00:00Z")
    run = ready.get(f"/benchmark-runs/{fire['runId']}")
    assert (run["status"], run["triggeredBy"]) == ("COMPLETED", "SCHEDULED")
    after = schedule(ready)
    assert after["nextRunAt"] == "2026-03-03T02:00:00Z"
    assert after["lastRunAt"] is not None
    [line] = ready.listed("/audit", actorId="s-1")
    assert (line["actorType"], line["action"]) == ("schedule", "start_run")
    assert line["resourceId"] == run["id"]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("FIRE_ONCE", ["COALESCED", "COALESCED", None]),
        ("SKIP", ["MISSED", "MISSED", "MISSED"]),
        ("FIRE_ALL", [None, "OVERLAP", "OVERLAP"]),
    ],
)
def test_missed_instants_follow_the_policy_and_each_leaves_a_row(
    ready: Service, due: Due, tick: Tick, rows: Rows, policy: str, wanted: list[str | None]
) -> None:
    due(TWO, misfirePolicy=policy)
    tick(TWO + 2 * DAY + timedelta(hours=5))
    # The start jobs alone: a run of the first is under way when the next one comes.
    while rows.value("SELECT count(*) FROM schedule_fires WHERE status = 'PENDING'"):
        start_pending(ready, rows)
    found = fires(ready)
    assert [fire["reason"] for fire in found] == wanted
    assert all(fire["detail"] for fire in found if fire["reason"])
    assert schedule(ready)["nextRunAt"] == "2026-03-05T02:00:00Z"


def test_what_a_long_outage_left_is_caught_up_in_several_transactions(
    ready: Service, due: Due, tick: Tick, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.schedules.firing.MAX_FIRES_PER_TRANSACTION", 4)
    for each in ("s-1", "s-2", "s-3"):
        due(TWO, each)
    written = []
    while tick(TWO + 3 * DAY):
        written.append(rows.value("SELECT count(*) FROM schedule_fires"))
    assert written == [4, 8, 12]
    for each in ("s-1", "s-2", "s-3"):
        assert [fire["dueAt"][8:10] for fire in fires(ready, each)] == ["02", "03", "04", "05"]
        assert [reason for _, reason in statuses(ready, each)] == [*["COALESCED"] * 3, None]


def start_pending(service: Service, rows: Rows) -> None:
    """Do the oldest start job by hand."""
    from app.schedules.firing import start_fire

    seq = rows.value("SELECT min(seq) FROM schedule_fires WHERE status = 'PENDING'")
    with service.resources.db.begin() as session:
        start_fire(session, seq, datetime.now(UTC))


@pytest.mark.parametrize(
    ("policy", "second", "first_run"),
    [
        ("FORBID", "SKIPPED", "PENDING"),
        ("ALLOW", "STARTED", "PENDING"),
        ("REPLACE", "STARTED", "CANCELLED"),
    ],
)
def test_an_overlap_follows_the_policy(
    ready: Service, due: Due, tick: Tick, rows: Rows, policy: str, second: str, first_run: str
) -> None:
    due(TWO, concurrencyPolicy=policy)
    for day in range(2):
        tick(TWO + day * DAY)
        start_pending(ready, rows)
    first, last = fires(ready)
    assert (first["status"], last["status"]) == ("STARTED", second)
    assert ready.get(f"/benchmark-runs/{first['runId']}")["status"] == first_run


def test_the_last_of_so_many_failures_disables_once_and_says_why(
    ready: Service, due: Due, tick: Tick
) -> None:
    due(TWO, maxConsecutiveFailures=2)
    ready.patch("/benchmarks/bench-001", {"runName": "gone"})
    counts = []
    for day in range(3):
        tick(TWO + day * DAY)
        ready.work()
        now = schedule(ready)
        counts.append((now["consecutiveFailures"], now["enabled"]))
    assert counts == [(1, True), (2, False), (2, False)]
    assert now["nextRunAt"] is None
    assert now["disabledAt"]
    assert "2 failures in a row, the last one RUN_NOT_FOUND" in now["disabledReason"]
    enabled = ready.patch("/schedule-configs/s-1", {"enabled": True})
    assert (enabled["consecutiveFailures"], enabled["disabledReason"]) == (0, None)


def test_success_forgives_a_cancelled_run_does_not_count(
    ready: Service, due: Due, tick: Tick, rows: Rows
) -> None:
    due(TWO)
    ready.patch("/benchmarks/bench-001", {"runName": "gone"})
    tick(TWO)
    ready.work()
    assert schedule(ready)["consecutiveFailures"] == 1
    tick(TWO + DAY)
    start_pending(ready, rows)
    ready.post(f"/benchmark-runs/{fires(ready)[-1]['runId']}/cancel")
    ready.work()
    assert schedule(ready)["consecutiveFailures"] == 1
    ready.patch("/benchmarks/bench-001", {"runName": None})
    tick(TWO + 2 * DAY)
    ready.work()
    assert schedule(ready)["consecutiveFailures"] == 0


def test_a_run_whose_numbers_cannot_be_trusted_neither_counts_nor_forgives(
    ready: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    ready.patch("/benchmarks/bench-001", {"runName": "gone"})
    tick(TWO)
    ready.work()
    ready.upload([pair(1, output=None), pair(2)], run_name="half")
    ready.patch("/benchmarks/bench-001", {"runName": "half"})
    tick(TWO + DAY)
    ready.work()
    run = ready.get(f"/benchmark-runs/{fires(ready)[-1]['runId']}")
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    assert schedule(ready)["consecutiveFailures"] == 1


def test_what_cannot_be_started_is_a_failure_with_its_reason(
    ready: Service, due: Due, tick: Tick
) -> None:
    due(TWO, maxConsecutiveFailures=1)
    ready.patch("/agents/agent-001", {"archived": True})
    tick(TWO)
    ready.work()
    [fire] = fires(ready)
    assert (fire["status"], fire["runId"]) == ("FAILED", None)
    assert "archived" in fire["detail"]
    assert "archived" in schedule(ready)["disabledReason"]


def test_an_edit_changes_later_instants_only(ready: Service, due: Due, tick: Tick) -> None:
    ready.agent("agent-002")
    due(TWO)
    tick(TWO)
    changed = ready.patch("/schedule-configs/s-1", {"agentId": "agent-002", "enabled": False})
    assert changed["nextRunAt"] is None
    ready.work()
    [fire] = fires(ready)
    assert ready.get(f"/benchmark-runs/{fire['runId']}")["agentId"] == "agent-001"
    assert tick(TWO + DAY) == 0


def test_a_schedule_that_is_deleted_while_it_fires_starts_nothing(
    ready: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    tick(TWO)
    ready.delete("/schedule-configs/s-1")
    ready.work()
    assert ready.get("/benchmark-runs")["items"] == []


def test_a_run_outlives_the_schedule_that_started_it(
    ready: Service, due: Due, tick: Tick, rows: Rows
) -> None:
    due(TWO)
    tick(TWO)
    start_pending(ready, rows)
    ready.delete("/schedule-configs/s-1")
    ready.work()
    assert ready.get("/benchmark-runs")["items"][0]["status"] == "COMPLETED"


def test_an_edit_under_way_is_waited_for_by_nobody(
    ready: Service, due: Due, tick: Tick, service: Service
) -> None:
    due(TWO)
    due(TWO, "s-2")
    with service.resources.db.begin() as session:
        queries.get_schedule(session, "s-1", for_update=True)
        assert tick(TWO) == 1
    assert tick(TWO) == 1
    assert [len(fires(ready, each)) for each in ("s-1", "s-2")] == [1, 1]


def test_a_clock_that_jumps_ahead_and_back_fires_nothing_twice(
    ready: Service, due: Due, tick: Tick, service: Service
) -> None:
    due(TWO, concurrencyPolicy="ALLOW")
    tick(TWO)
    tick(TWO + 2 * DAY)  # the clock is set ahead: two days at once
    with service.resources.db.begin() as session:
        recompute_next_runs(session, TWO + timedelta(hours=1), "", 10)  # and back again
    assert schedule(ready)["nextRunAt"] == "2026-03-03T02:00:00Z"
    for day in (1, 2, 3):
        tick(TWO + day * DAY)
    ready.work()
    found = [(fire["dueAt"][8:10], fire["status"]) for fire in fires(ready)]
    assert found == [("02", "STARTED"), ("03", "SKIPPED"), ("04", "STARTED"), ("05", "STARTED")]
    assert len(ready.get("/benchmark-runs")["items"]) == 3


def test_a_zone_that_is_gone_disables_the_schedule_with_its_reason(
    ready: Service, due: Due, tick: Tick, rows: Rows, service: Service
) -> None:
    due(TWO)
    due(TWO + DAY, "s-2")
    rows.do("UPDATE schedule_configs SET timezone = 'Atlantis/Poseidonis'")
    tick(TWO)
    with service.resources.db.begin() as session:
        recompute_next_runs(session, TWO, "", 10)
    for each in ("s-1", "s-2"):
        assert "Atlantis/Poseidonis" in schedule(ready, each)["disabledReason"]
        assert not schedule(ready, each)["enabled"]
    assert fires(ready) == []


def test_after_a_change_of_the_zone_data_the_next_instant_is_computed_anew(
    ready: Service, due: Due, rows: Rows, service: Service
) -> None:
    due(TWO + timedelta(minutes=30))
    with service.resources.db.begin() as session:
        assert recompute_next_runs(session, TWO - DAY / 2, "", 10) is None
    assert schedule(ready)["nextRunAt"] == "2026-03-02T02:00:00Z"


@pytest.fixture
def source() -> Iterator[list[SourceRun]]:
    """A source whose runs the test decides about, newest first."""
    held: list[SourceRun] = []
    local = TRACE_SOURCES.get("local")
    TRACE_SOURCES._items["listed"] = SourceSpec(open=local.open, list_runs=lambda *_: held)
    yield held
    del TRACE_SOURCES._items["listed"]


def held(name: str, *, complete: bool = True) -> SourceRun:
    return SourceRun(
        id=f"id-{name}", name=name, started_at=TWO, ended_at=None, items=1, complete=complete
    )


def test_a_pattern_judges_the_newest_complete_run_once(
    ready: Service, due: Due, tick: Tick, source: list[SourceRun]
) -> None:
    ready.patch("/benchmarks/bench-001", {"source": "listed"})
    for name in ("nightly-1", "nightly-2"):
        ready.upload([pair(1)], run_name=name)
    due(TWO, runNamePattern="nightly-*")
    due(TWO, "s-2", runNamePattern="nightly-*")
    source += [held("manual-1"), held("nightly-2", complete=False), held("nightly-1")]
    tick(TWO)
    ready.work()
    found = sorted(statuses(ready) + statuses(ready, "s-2"))
    assert found == [("SKIPPED", "NO_NEW_RUN"), ("STARTED", None)]
    source[1] = held("nightly-2")
    tick(TWO + DAY)
    ready.work()
    tick(TWO + 2 * DAY)
    ready.work()
    judged = [run["runName"] for run in ready.get("/benchmark-runs")["items"]]
    assert judged == ["nightly-2", "nightly-1"]
    assert statuses(ready)[-1] == ("SKIPPED", "NO_NEW_RUN")
    assert schedule(ready)["consecutiveFailures"] == 0


def test_a_source_that_lists_no_runs_any_more_is_a_failure_that_says_so(
    ready: Service, due: Due, tick: Tick, source: list[SourceRun]
) -> None:
    ready.patch("/benchmarks/bench-001", {"source": "listed"})
    due(TWO, runNamePattern="nightly-*")
    ready.patch("/benchmarks/bench-001", {"source": "local"})
    tick(TWO)
    ready.work()
    [fire] = fires(ready)
    assert fire["status"] == "FAILED"
    assert "omit runNamePattern" in fire["detail"]


def test_four_schedulers_fire_every_instant_once(
    ready: Service, service: Service, rows: Rows
) -> None:
    """200 schedules that are due every second, for some seconds."""
    ready.post(
        "/schedule-configs",
        {
            "id": "s",
            "name": "s",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "* * * * * *",
            "enabled": False,
        },
    )
    rows.do(
        """
        INSERT INTO schedule_configs SELECT (jsonb_populate_record(one, jsonb_build_object(
            'id', 's-' || n, 'enabled', true,
            'next_run_at', date_trunc('second', clock_timestamp())))).*
        FROM schedule_configs AS one, generate_series(1, 200) AS n
        """
    )
    enough = "SELECT count(*) >= 800 FROM schedule_fires"
    waiting = threading.Event()
    with ExitStack() as tickers:
        for _ in range(4):
            ticker = Ticker(service.resources.db)
            ticker.start()
            tickers.callback(ticker.stop)
        for _ in range(int(LIVENESS_S / 0.1)):
            if rows.value(enough):
                break
            waiting.wait(0.1)
    assert rows.value(enough)
    assert (
        rows.all(
            """
            SELECT schedule_id, due_at, following FROM (
                SELECT schedule_id, due_at, lead(due_at) OVER (PARTITION BY schedule_id
                                                               ORDER BY due_at) AS following
                FROM schedule_fires) AS fire
            WHERE following <> due_at + interval '1 second'
            """
        )
        == []
    )
    jobs, fired = rows.all(
        "SELECT (SELECT sum(jsonb_array_length(args -> 'fires')) FROM procrastinate_jobs"
        " WHERE task_name = 'schedules.start'),"
        " (SELECT count(*) FROM schedule_fires WHERE status = 'PENDING')"
    )[0]
    assert jobs == fired


def test_a_scheduler_comes_again_when_something_is_due(ready: Service, rows: Rows) -> None:
    assert fire_all_due(ready.resources.db) == 1.0
    ready.post(
        "/schedule-configs",
        {
            "id": "s",
            "name": "s",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "* * * * * *",
        },
    )
    assert 0 < fire_all_due(ready.resources.db) <= 1.0


def test_a_scheduler_comes_again_at_once_as_often_as_it_must(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_s = iter([0.0] * 300)
    over = threading.Event()

    def fire(_db: Database) -> float:
        wait_s = next(waits_s, None)
        if wait_s is None:
            over.set()
        return AN_HOUR_S if wait_s is None else wait_s

    monkeypatch.setattr(ticks, "MAX_WAIT_S", AN_HOUR_S)
    monkeypatch.setattr(ticks, "fire_all_due", fire)
    ticker = Ticker(service.resources.db)
    ticker.start()
    assert over.wait(LIVENESS_S)
    ticker.stop()
