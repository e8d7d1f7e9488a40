"""Due instants: runs, overlaps, failures, edits and clock jumps."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from mosaico.schedules import queries
from mosaico.schedules.service import recompute_next_runs
from mosaico.traces.registry import TRACE_SOURCES, SourceRun, SourceSpec
from tests.support.paged_source import PagedSource
from tests.support.processes import until
from tests.support.schedule_fires import (
    DAY,
    TWO,
    Due,
    Tick,
    fires,
    schedule,
    start_pending,
    statuses,
)
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def test_fire_due__due_instant_starts_run_and_advances_schedule(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    assert tick(TWO - timedelta(milliseconds=1)) == 0
    assert tick(TWO) == 1
    assert tick(TWO) == 0
    prepared_service.work()
    [fire] = fires(prepared_service)
    assert (fire["status"], fire["dueAt"]) == ("STARTED", "2026-03-02T02:00:00Z")
    run = prepared_service.get(f"/benchmark-runs/{fire['runId']}")
    assert (run["status"], run["triggeredBy"]) == ("COMPLETED", "SCHEDULED")
    after = schedule(prepared_service)
    assert after["nextRunAt"] == "2026-03-03T02:00:00Z"
    assert after["lastRunAt"] is not None
    [line] = prepared_service.list_items("/audit", actorId="s-1")
    assert (line["actorType"], line["action"]) == ("schedule", "start_run")
    assert line["resourceId"] == run["id"]


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ("FIRE_ONCE", ["COALESCED", "COALESCED", None]),
        ("SKIP", ["MISSED", "MISSED", "MISSED"]),
        ("FIRE_ALL", [None, "OVERLAP", "OVERLAP"]),
    ],
)
def test_fire_due__missed_instants_follow_misfire_policy(
    prepared_service: Service,
    due: Due,
    tick: Tick,
    rows: DatabaseReader,
    policy: str,
    reasons: list[str | None],
) -> None:
    due(TWO, misfirePolicy=policy)
    tick(TWO + 2 * DAY + timedelta(hours=5))
    # The start jobs alone: a run of the first is under way when the next one comes.
    while rows.value("SELECT count(*) FROM schedule_fires WHERE status = 'PENDING'"):
        start_pending(prepared_service, rows)
    recorded_fires = fires(prepared_service)
    assert [fire["reason"] for fire in recorded_fires] == reasons
    assert all(fire["detail"] for fire in recorded_fires if fire["reason"])
    assert schedule(prepared_service)["nextRunAt"] == "2026-03-05T02:00:00Z"


def test_fire_due__long_outage_is_caught_up_in_several_transactions(
    prepared_service: Service,
    due: Due,
    tick: Tick,
    rows: DatabaseReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mosaico.schedules.firing.MAX_FIRES_PER_TRANSACTION", 4)
    for schedule_id in ("s-1", "s-2", "s-3"):
        due(TWO, schedule_id)
    written = []
    while tick(TWO + 3 * DAY):
        written.append(rows.value("SELECT count(*) FROM schedule_fires"))
    # Three schedules missed four nights each.
    assert written == [4, 8, 12]
    for schedule_id in ("s-1", "s-2", "s-3"):
        assert [fire["dueAt"][8:10] for fire in fires(prepared_service, schedule_id)] == [
            "02",
            "03",
            "04",
            "05",
        ]
        assert [reason for _, reason in statuses(prepared_service, schedule_id)] == [
            *["COALESCED"] * 3,
            None,
        ]


@pytest.mark.parametrize(
    ("policy", "second", "first_run"),
    [
        ("FORBID", "SKIPPED", "PENDING"),
        ("ALLOW", "STARTED", "PENDING"),
        ("REPLACE", "STARTED", "CANCELLED"),
    ],
)
def test_start_fire__overlap_follows_concurrency_policy(
    prepared_service: Service,
    due: Due,
    tick: Tick,
    rows: DatabaseReader,
    policy: str,
    second: str,
    first_run: str,
) -> None:
    due(TWO, concurrencyPolicy=policy)
    for day in range(2):
        tick(TWO + day * DAY)
        start_pending(prepared_service, rows)
    first, last = fires(prepared_service)
    assert (first["status"], last["status"]) == ("STARTED", second)
    assert prepared_service.get(f"/benchmark-runs/{first['runId']}")["status"] == first_run


def test_start_fire__start_error_is_a_failure_with_reason(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO, maxConsecutiveFailures=1)
    prepared_service.patch("/agents/agent-001", {"archived": True})
    tick(TWO)
    prepared_service.work()
    [fire] = fires(prepared_service)
    assert (fire["status"], fire["runId"]) == ("FAILED", None)
    assert fire["reason"] is None
    assert fire["errorCode"]
    assert "archived" in fire["detail"]
    assert "archived" in schedule(prepared_service)["disabledReason"]


def test_change_schedule__edit_affects_later_instants_only(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    prepared_service.create_agent("agent-002")
    due(TWO)
    tick(TWO)
    changed = prepared_service.patch(
        "/schedule-configs/s-1", {"agentId": "agent-002", "enabled": False}
    )
    assert changed["nextRunAt"] is None
    prepared_service.work()
    [fire] = fires(prepared_service)
    assert prepared_service.get(f"/benchmark-runs/{fire['runId']}")["agentId"] == "agent-001"
    assert tick(TWO + DAY) == 0


def test_start_fire__deleted_schedule_starts_no_run(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    tick(TWO)
    prepared_service.delete("/schedule-configs/s-1")
    prepared_service.work()
    assert prepared_service.get("/benchmark-runs")["items"] == []


def test_delete_schedule__started_run_continues(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader
) -> None:
    due(TWO)
    tick(TWO)
    start_pending(prepared_service, rows)
    prepared_service.delete("/schedule-configs/s-1")
    prepared_service.work()
    assert prepared_service.get("/benchmark-runs")["items"][0]["status"] == "COMPLETED"


def test_delete_schedule__a_job_deletes_its_fires_and_not_those_of_its_successor(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader
) -> None:
    instants = "SELECT due_at FROM schedule_fires ORDER BY 1"
    due(TWO)
    tick(TWO)
    prepared_service.delete("/schedule-configs/s-1")
    assert len(rows.all(instants)) == 1
    due(TWO + DAY)
    tick(TWO + DAY)

    prepared_service.work()

    assert rows.all(instants) == [(TWO + DAY,)]


def test_fire_due__locked_schedule_is_skipped(
    prepared_service: Service, due: Due, tick: Tick, service: Service
) -> None:
    due(TWO)
    due(TWO, "s-2")
    with service.resources.db.begin() as session:
        # As another scheduler that is firing this schedule: the tick must not wait for it.
        queries.get_schedule(session, "s-1", for_update=True)
        assert tick(TWO) == 1
    assert tick(TWO) == 1
    assert [len(fires(prepared_service, schedule_id)) for schedule_id in ("s-1", "s-2")] == [1, 1]


def test_fire_due__clock_jump_fires_nothing_twice(
    prepared_service: Service, due: Due, tick: Tick, service: Service
) -> None:
    due(TWO, concurrencyPolicy="ALLOW")
    tick(TWO)
    tick(TWO + 2 * DAY)  # the clock is set ahead: two days at once
    with service.resources.db.begin() as session:
        recompute_next_runs(session, TWO + timedelta(hours=1), "", 10)  # and back again
    assert schedule(prepared_service)["nextRunAt"] == "2026-03-03T02:00:00Z"
    for day in (1, 2, 3):
        tick(TWO + day * DAY)
    prepared_service.work()
    recorded_fires = [(fire["dueAt"][8:10], fire["status"]) for fire in fires(prepared_service)]
    # The jump has coalesced the instant of the third into that of the fourth.
    assert recorded_fires == [
        ("02", "STARTED"),
        ("03", "SKIPPED"),
        ("04", "STARTED"),
        ("05", "STARTED"),
    ]
    assert len(prepared_service.get("/benchmark-runs")["items"]) == 3


def test_fire_due__unknown_time_zone_disables_schedule(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader, service: Service
) -> None:
    due(TWO)
    due(TWO + DAY, "s-2")
    rows.execute("UPDATE schedule_configs SET timezone = 'Atlantis/Poseidonis'")
    # The tick finds the schedule that is due, the recomputation the other one.
    tick(TWO)
    with service.resources.db.begin() as session:
        recompute_next_runs(session, TWO, "", 10)
    for schedule_id in ("s-1", "s-2"):
        assert "Atlantis/Poseidonis" in schedule(prepared_service, schedule_id)["disabledReason"]
        assert not schedule(prepared_service, schedule_id)["enabled"]
    assert fires(prepared_service) == []


def test_recompute_next_runs__zone_data_change_updates_next_run(
    prepared_service: Service, due: Due, rows: DatabaseReader, service: Service
) -> None:
    # As computed with other zone data: by its expression it is due at two o'clock.
    due(TWO + timedelta(minutes=30))
    with service.resources.db.begin() as session:
        assert recompute_next_runs(session, TWO - DAY / 2, "", 10) is None
    assert schedule(prepared_service)["nextRunAt"] == "2026-03-02T02:00:00Z"


def test_recompute_next_runs__waits_for_a_schedule_whose_run_is_being_started(
    prepared_service: Service, due: Due, rows: DatabaseReader, service: Service
) -> None:
    """Otherwise a clock that is set back would leave it at its old time."""
    due(TWO + 60 * DAY)
    db = service.resources.db

    def recompute() -> None:
        with db.begin() as session:
            recompute_next_runs(session, TWO - DAY / 2, "", 10)

    with ThreadPoolExecutor(1) as thread, db.begin() as session:
        queries.get_schedule(session, "s-1", for_update=True)
        recomputed = thread.submit(recompute)
        until(lambda: recomputed.done() or bool(rows.value(WAITING)))
        session.commit()
        recomputed.result()
    assert schedule(prepared_service)["nextRunAt"] == "2026-03-02T02:00:00Z"


@pytest.fixture
def source() -> Iterator[list[SourceRun]]:
    """A source whose runs the test decides about, newest first."""
    source_runs: list[SourceRun] = []
    TRACE_SOURCES._items["listed"] = SourceSpec(
        open=lambda resources: PagedSource(resources=resources, page_size=100),
        list_runs=lambda *_: source_runs,
    )
    yield source_runs
    del TRACE_SOURCES._items["listed"]


def make_source_run(name: str, *, complete: bool = True) -> SourceRun:
    return SourceRun(
        id=f"id-{name}", name=name, started_at=TWO, ended_at=None, items=1, complete=complete
    )


def test_run_name_pattern__newest_complete_run_is_evaluated_once(
    prepared_service: Service, due: Due, tick: Tick, source: list[SourceRun]
) -> None:
    prepared_service.patch("/benchmarks/bench-001", {"source": "listed"})
    for name in ("nightly-1", "nightly-2"):
        prepared_service.upload([pair(1)], run_name=name)
    due(TWO, runNamePattern="nightly-*")
    # Of two schedules that look for the same run only one may evaluate it.
    due(TWO, "s-2", runNamePattern="nightly-*")
    source += [
        make_source_run("manual-1"),
        make_source_run("nightly-2", complete=False),
        make_source_run("nightly-1"),
    ]
    tick(TWO)
    prepared_service.work()
    fire_statuses = sorted(statuses(prepared_service) + statuses(prepared_service, "s-2"))
    assert fire_statuses == [("SKIPPED", "NO_NEW_RUN"), ("STARTED", None)]
    source[1] = make_source_run("nightly-2")
    tick(TWO + DAY)
    prepared_service.work()
    tick(TWO + 2 * DAY)
    prepared_service.work()
    judged = [run["runName"] for run in prepared_service.get("/benchmark-runs")["items"]]
    assert judged == ["nightly-2", "nightly-1"]
    assert statuses(prepared_service)[-1] == ("SKIPPED", "NO_NEW_RUN")
    assert schedule(prepared_service)["consecutiveFailures"] == 0


def test_run_name_pattern__source_without_run_list_is_a_failure(
    prepared_service: Service, due: Due, tick: Tick, source: list[SourceRun]
) -> None:
    prepared_service.patch("/benchmarks/bench-001", {"source": "listed"})
    due(TWO, runNamePattern="nightly-*")
    # Only now: the API refuses a pattern for a source without a list of runs.
    prepared_service.patch("/benchmarks/bench-001", {"source": "local"})
    tick(TWO)
    prepared_service.work()
    [fire] = fires(prepared_service)
    assert fire["status"] == "FAILED"
    assert "omit runNamePattern" in fire["detail"]
