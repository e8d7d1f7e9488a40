"""Failures are counted, and a schedule that only fails is disabled."""

import threading
from datetime import UTC, datetime

from mosaico.runs.service import fail_run
from mosaico.schedules.firing import start_fire
from mosaico.schedules.models import ScheduleFire
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
from tests.support.waiting import LIVENESS_S


def test_auto_disable__last_failure_disables_with_reason(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO, maxConsecutiveFailures=2)
    prepared_service.patch("/benchmarks/bench-001", {"runName": "gone"})
    counts = []
    for day in range(3):
        tick(TWO + day * DAY)
        prepared_service.work()
        now = schedule(prepared_service)
        counts.append((now["consecutiveFailures"], now["enabled"]))
    assert counts == [(1, True), (2, False), (2, False)]
    assert now["nextRunAt"] is None
    assert now["disabledAt"]
    assert "2 failures in a row, the last one RUN_NOT_FOUND" in now["disabledReason"]
    enabled = prepared_service.patch("/schedule-configs/s-1", {"enabled": True})
    assert (enabled["consecutiveFailures"], enabled["disabledReason"]) == (0, None)


def test_auto_disable__first_failure_of_one_allowed(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO, maxConsecutiveFailures=1)
    prepared_service.patch("/benchmarks/bench-001", {"runName": "gone"})
    tick(TWO)
    prepared_service.work()
    assert schedule(prepared_service)["disabledReason"].startswith("1 failure in a row")


def test_auto_disable__ended_run_that_no_job_has_counted_stops_the_next_instant(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader
) -> None:
    """The claim of the fourth instant comes before the job that counts the third failure."""
    due(TWO, maxConsecutiveFailures=3)
    for day in range(4):
        tick(TWO + day * DAY)
        start_pending(prepared_service, rows)
        # The run fails, and its `schedules.run_ended` job waits in the queue.
        run_id = fires(prepared_service)[-1]["runId"]
        if run_id:
            with prepared_service.resources.db.begin() as session:
                fail_run(session, run_id, "TEST", "it fails", datetime.now(UTC))
    assert statuses(prepared_service) == [("STARTED", None)] * 3 + [("SKIPPED", "DISABLED")]
    prepared_service.work()
    after = schedule(prepared_service)
    assert (after["consecutiveFailures"], after["enabled"]) == (3, False)


def test_auto_disable__maximum_holds_while_workers_race(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader
) -> None:
    """Four workers start the instants of one schedule, and each of its runs fails at once."""
    due(TWO, maxConsecutiveFailures=3)
    db = prepared_service.resources.db
    for day in range(12):
        tick(TWO + day * DAY)
    seqs = iter(rows.all("SELECT seq FROM schedule_fires ORDER BY seq"))
    lock = threading.Lock()

    def start_and_fail() -> None:
        while True:
            with lock:
                row = next(seqs, None)
            if row is None:
                return
            with db.begin() as session:
                start_fire(session, row[0], datetime.now(UTC))
            with db.begin() as session:
                fire = session.get(ScheduleFire, row[0])
                if fire is not None and fire.run_id is not None:
                    fail_run(session, fire.run_id, "TEST", "it fails", datetime.now(UTC))

    workers = [threading.Thread(target=start_and_fail) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIVENESS_S)
    assert len(prepared_service.list_items("/benchmark-runs", status="FAILED")) <= 3
    prepared_service.work()
    assert schedule(prepared_service)["consecutiveFailures"] <= 3


def test_record_run_end__success_resets_and_cancelled_run_does_not_count(
    prepared_service: Service, due: Due, tick: Tick, rows: DatabaseReader
) -> None:
    due(TWO)
    prepared_service.patch("/benchmarks/bench-001", {"runName": "gone"})
    tick(TWO)
    prepared_service.work()
    assert schedule(prepared_service)["consecutiveFailures"] == 1
    tick(TWO + DAY)
    start_pending(prepared_service, rows)
    prepared_service.post(f"/benchmark-runs/{fires(prepared_service)[-1]['runId']}/cancel")
    prepared_service.work()
    assert schedule(prepared_service)["consecutiveFailures"] == 1
    prepared_service.patch("/benchmarks/bench-001", {"runName": None})
    tick(TWO + 2 * DAY)
    prepared_service.work()
    assert schedule(prepared_service)["consecutiveFailures"] == 0


def test_record_run_end__invalid_run_neither_counts_nor_resets(
    prepared_service: Service, due: Due, tick: Tick
) -> None:
    due(TWO)
    prepared_service.patch("/benchmarks/bench-001", {"runName": "gone"})
    tick(TWO)
    prepared_service.work()
    # Half of the traces have an output: less than minCoverage (0.9) needs.
    prepared_service.upload([pair(1, output=None), pair(2)], run_name="half")
    prepared_service.patch("/benchmarks/bench-001", {"runName": "half"})
    tick(TWO + DAY)
    prepared_service.work()
    run = prepared_service.get(f"/benchmark-runs/{fires(prepared_service)[-1]['runId']}")
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    assert schedule(prepared_service)["consecutiveFailures"] == 1
