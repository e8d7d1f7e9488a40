"""A clock that jumps while a run is in progress: the run completes, and nothing is deleted.

The clocks of all processes of `mosaico serve` are moved with libfaketime (Debian: `apt install
libfaketime`), which reads the offset from a file. Its Postgres keeps the right time, as a database on
another machine does. libfaketime moves the monotonic clock too, because it breaks the timed waits of
Python otherwise; so the clock jumps forwards only. `tests/unit/jobs/test_clock_watch.py` has the jumps
backwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import until
from tests.support.serve import ServiceProcesses, running_processes

LIBRARIES = [
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    *Path("/usr/local/lib").glob("faketime/libfaketimeMT.so.1"),
]
JUMPS = ["+3600", "+1d", "+60d"]
REFUSED = "tick purge failed"
COLLECTIONS_STARTED = """
    SELECT count(*) FROM procrastinate_events AS event
    JOIN procrastinate_jobs AS job ON job.id = event.job_id
    WHERE job.task_name = 'runs.collect' AND event.type = 'started'
"""

pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(
        not LIBRARIES, reason="libfaketime is not installed; run `apt install libfaketime`"
    ),
]


class FakeClock:
    """The offset of the clock of all processes of a service."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set("+0")

    def set(self, offset: str) -> None:
        """Move the clock; `offset` is in the notation of libfaketime, such as `+60d`."""
        # Renamed, because a process that reads a half-written file ends.
        new_file = self._file.with_suffix(".new")
        new_file.write_text(f"{offset}\n")
        new_file.replace(self._file)

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
        }


@contextmanager
def service_with_clock(
    folder: Path, pool: ProcessPool
) -> Iterator[tuple[ServiceProcesses, FakeClock]]:
    clock = FakeClock(folder / "clock")
    with running_processes(folder, pool, **clock.environment()) as processes:
        yield processes, clock


def jump_clock(service_processes: ServiceProcesses, clock: FakeClock, offset: str) -> None:
    """Set the clock; wait until the purge, overdue now, was refused, and the worker is alive."""
    refusals = service_processes.serve.log.count(REFUSED)
    clock.set(offset)
    until(lambda: service_processes.serve.log.count(REFUSED) > refusals)
    since = service_processes.deployment.database.now()
    heartbeats = "SELECT min(last_heartbeat) > %s FROM procrastinate_workers"
    until(lambda: bool(service_processes.deployment.database.value(heartbeats, since)))


def kept_rows(deployment: Deployment) -> list[tuple[object, ...]]:
    """What a purge would mark or delete 60 days later."""
    return deployment.database.all(
        "SELECT id, purged_at FROM benchmark_runs UNION ALL SELECT id, NULL FROM idempotency_keys"
    )


def test_clock_jumps__the_run_completes_once_and_nothing_is_deleted(
    tmp_path: Path, metric_pool: ProcessPool
) -> None:
    with service_with_clock(tmp_path, metric_pool) as (service_processes, clock):
        deployment = service_processes.deployment
        deployment.database.execute("UPDATE benchmarks SET keep_days = 7")
        response = deployment.service.send(
            "POST",
            "/agents",
            {"id": "kept", "name": "Heron"},
            headers={"Idempotency-Key": "kept"},
        )
        assert response.status_code == 201, response.text
        deployment.upload("before")
        deployment.completed_run(deployment.start("before"))
        deployment.upload("gate:clock")
        run_id = deployment.start("gate:clock")
        gate = deployment.programs.gate("clock")
        until(gate.is_reached, what=service_processes.serve.log)

        rows = kept_rows(deployment)
        for offset in JUMPS:
            jump_clock(service_processes, clock, offset)
        assert kept_rows(deployment) == rows
        gate.open()
        deployment.completed_run(run_id)

        results = deployment.database.stored_run(run_id).results
        assert len({row[0] for row in results}) == len(results) == TRACES
        # No worker was taken for dead: the step was started once.
        assert deployment.database.value(COLLECTIONS_STARTED) == 1
