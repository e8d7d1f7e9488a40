"""The clock of one process of the service jumps while a run is in progress: nothing is lost, doubled or
purged, no instant of a schedule fires twice, and nobody is alerted.

time-machine moves what Python reads (`time.time`, `datetime.now`). libfaketime is not used, because it
also breaks the timed waits of Python: with a moved monotonic clock a wait of a second lasts for the whole
jump, and it can move clocks forwards only. What reads the clock outside of Python (Postgres, uuid-utils)
keeps the right time, as on another machine.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from app.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import ROOT, until
from tests.support.serve import ServiceProcesses, running_processes
from tests.support.service import pair

HOUR_S, DAY_S = 3600.0, 86_400.0
COMMANDS = ("worker", "scheduler", "api")
JUMPS_S = {"60 days": 60 * DAY_S, "1 hour": HOUR_S, "-1 hour": -HOUR_S, "-60 days": -60 * DAY_S}

# What a purge, a monitor of overdue things or a lost step would change.
KEPT = """
    SELECT 'run', id, purged_at::text FROM benchmark_runs WHERE run_name = 'before'
    UNION ALL SELECT 'key', id, NULL FROM idempotency_keys
    UNION ALL SELECT 'trace', trace_id, NULL FROM collected_traces AS trace
              JOIN benchmark_runs AS run ON run.collection_id = trace.collection_id
              WHERE run.run_name = 'before'
    UNION ALL SELECT 'alert', id, state FROM alert_events
    UNION ALL SELECT 'failed', id, error_code FROM benchmark_runs WHERE status = 'FAILED'
    ORDER BY 1, 2
"""
# A worker does several steps of a run with one job, so the jobs have the names of their last steps.
MOST_STARTS = """
    SELECT max(starts) FROM (
        SELECT count(*) AS starts FROM procrastinate_events AS event
        JOIN procrastinate_jobs AS job ON job.id = event.job_id
        WHERE event.type = 'started' AND job.args ->> 'run_id' = %s GROUP BY job.id
    ) AS jobs
"""
# Instants that were left out, that fired before their time, or whose run is missing or shared.
WRONG_FIRES = """
    SELECT schedule_id, due_at, fired_at FROM (
        SELECT *, lag(coalesce(range_end, due_at)) OVER (PARTITION BY schedule_id ORDER BY due_at)
               AS previous,
               count(run_id) OVER (PARTITION BY run_id) AS runs
        FROM schedule_fires) AS fire
    WHERE due_at <> previous + interval '5 seconds' OR fired_at < due_at OR runs > 1
       OR fired_at > now() + interval '1 minute'
"""
FIRES = "SELECT count(*) FROM schedule_fires"


@dataclass(frozen=True, slots=True)
class MovedClocks:
    """A service and the clocks of its processes."""

    service_processes: ServiceProcesses
    folder: Path

    @property
    def deployment(self) -> Deployment:
        return self.service_processes.deployment

    def move(self, command: str, offset_s: float) -> None:
        """Move the clock of a process, and wait until it has noticed and gone on."""
        noticed = self._notices(command)
        # Renamed, because the process must not read half a number.
        new_file = self.folder / f"{command}.new"
        new_file.write_text(str(offset_s))
        new_file.replace(self.folder / command)
        if command == "api":
            until(lambda: abs(self._api_offset_s() - offset_s) < HOUR_S / 2)
        else:
            until(lambda: self._notices(command) > noticed, what=self.service_processes.serve.log)
        self._wait_for_progress()

    def _notices(self, command: str) -> int:
        logger = {"worker": "app.jobs.job_runner", "scheduler": "app.schedules.ticker"}.get(command)
        lines = self.service_processes.serve.log.splitlines()
        return sum("the clock was set" in line and str(logger) in line for line in lines)

    def _api_offset_s(self) -> float:
        response = self.deployment.service.send("GET", "/agents")
        return parsedate_to_datetime(response.headers["Date"]).timestamp() - time.time()

    def _wait_for_progress(self) -> None:
        database = self.deployment.database
        since, fires = database.now(), database.value(FIRES)
        heartbeats = "SELECT min(last_heartbeat) > %s FROM procrastinate_workers"
        until(lambda: bool(database.value(heartbeats, since)))
        until(lambda: bool(database.value(FIRES) > fires), what=self.service_processes.serve.log)


@pytest.fixture
def clocks(tmp_path: Path, metric_pool: ProcessPool) -> Iterator[MovedClocks]:
    folder = tmp_path / "clocks"
    folder.mkdir()
    path = [ROOT / "tests/support/moved_clock", ROOT, tmp_path / "plugins"]
    settings = {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "MOSAICO_TEST_CLOCKS": str(folder),
        "MOSAICO_WORKER_CONCURRENCY": "4",
    }
    with running_processes(tmp_path, metric_pool, **settings) as processes:
        yield MovedClocks(processes, folder)


def prepare(deployment: Deployment) -> None:
    """A run that retention may purge, a rule about missing runs, and a schedule of every 5 seconds."""
    deployment.database.execute("UPDATE benchmarks SET keep_days = 7")
    deployment.upload("before")
    deployment.service.upload([pair(1)], name="ticks")
    deployment.service.create_benchmark("bench-002", datasetRef="ticks", metrics=["ROUGE"])
    deployment.completed_run(deployment.start("before"))
    rule = {
        "name": "missing",
        "benchmarkId": "bench-001",
        "agentId": "agent-001",
        "metric": "ROUGE",
        "condition": "LESS_THAN",
        "threshold": -1,
        "maxHoursWithoutRun": 1,
    }
    deployment.service.post("/alert-configs", rule)
    schedule = {
        "name": "often",
        "benchmarkId": "bench-002",
        "agentId": "agent-001",
        "cronExpression": "*/5 * * * * *",
        "concurrencyPolicy": "ALLOW",
    }
    deployment.service.post("/schedule-configs", schedule)
    until(lambda: bool(deployment.database.value(FIRES)))


def create_once(deployment: Deployment) -> str:
    """Start the run of the test; a repeated request must not start a second one."""
    body = {"benchmarkId": "bench-001", "agentId": "agent-001", "runName": "gate:clock"}
    response = deployment.service.send(
        "POST", "/benchmark-runs", body, headers={"Idempotency-Key": "once"}
    )
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def jump(clocks: MovedClocks, commands: tuple[str, ...], jumps_s: tuple[float, ...]) -> None:
    deployment = clocks.deployment
    prepare(deployment)
    deployment.upload("gate:clock")
    run_id = create_once(deployment)
    gate = deployment.programs.gate("clock")
    until(gate.is_reached, what=clocks.service_processes.serve.log)
    keys_before = deployment.database.all(KEPT)
    for command in commands:
        for offset_s in jumps_s:
            clocks.move(command, offset_s)
            assert create_once(deployment) == run_id, (command, offset_s)
            assert deployment.database.all(KEPT) == keys_before, (command, offset_s)
        clocks.move(command, 0)
    gate.open()
    deployment.completed_run(run_id)

    results = deployment.database.stored_run(run_id).results
    assert len({row[0] for row in results}) == len(results) == TRACES
    # No worker was taken for dead: each job was started once.
    assert deployment.database.value(MOST_STARTS, run_id) == 1
    assert deployment.database.all(WRONG_FIRES) == []
    assert deployment.database.all(KEPT) == keys_before


# Longer than 5 s: a whole service starts, and a schedule fires after each jump.
def test_clock_jump__60_days_and_back_change_nothing(clocks: MovedClocks) -> None:
    jump(clocks, ("worker", "scheduler"), (60 * DAY_S,))


@pytest.mark.prove
def test_clock_jumps__of_every_process_change_nothing(clocks: MovedClocks) -> None:
    jump(clocks, COMMANDS, tuple(JUMPS_S.values()))
