"""The clock of one process of the service, of Postgres, or of the whole machine jumps while a run is in
progress: nothing is lost, doubled or purged, no instant of a schedule fires twice, and nobody is alerted.

`make prove` moves clocks with libfaketime, of a process with its children, and of Postgres. Without it
time-machine moves what Python reads (`time.time`, `datetime.now`) in one process.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import pytest

from app.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import FAKETIME, ROOT, until
from tests.support.serve import ServiceProcesses, running_processes
from tests.support.service import pair

HOUR_S, DAY_S = 3600.0, 86_400.0
COMMANDS = ("worker", "scheduler", "api")
MACHINE = (*COMMANDS, "postgres")
# Of Debian, Fedora, Arch and `make install`.
LIBRARIES = (
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    *(
        Path(folder) / "faketime/libfaketimeMT.so.1"
        for folder in ("/usr/lib64", "/usr/lib", "/usr/local/lib")
    ),
)
LIBRARY = next((library for library in LIBRARIES if library.exists()), None)
JUMPS_S = {"60 days": 60 * DAY_S, "1 hour": HOUR_S, "-1 hour": -HOUR_S, "-60 days": -60 * DAY_S}

# What a purge, a monitor of overdue things or a lost step would change.
KEPT = """
    SELECT 'run', id, NULL FROM benchmark_runs WHERE run_name = 'before'
    UNION ALL SELECT 'key', id, NULL FROM idempotency_keys
    UNION ALL SELECT 'trace', trace_id, NULL FROM collected_traces AS trace
              JOIN benchmark_runs AS run ON run.collection_id = trace.collection_id
              WHERE run.run_name = 'before'
    UNION ALL SELECT 'failed', id, error_code FROM benchmark_runs WHERE status = 'FAILED'
    ORDER BY 1, 2
"""
ALERTS = "SELECT state FROM alert_events"
# A purge marks first, and deletes a day later: `mosaico purge --undo` takes the marks back.
PURGED = "SELECT id FROM benchmark_runs WHERE purged_at IS NOT NULL"
# A worker does several steps of a run with one job, so the jobs have the names of their last steps.
MOST_STARTS = """
    SELECT max(starts) FROM (
        SELECT count(*) AS starts FROM procrastinate_events AS event
        JOIN procrastinate_jobs AS job ON job.id = event.job_id
        WHERE event.type = 'started' AND job.args ->> 'run_id' = %s GROUP BY job.id
    ) AS jobs
"""
# Instants that were left out, or that fired before their time.
WRONG_FIRES = """
    SELECT schedule_id, due_at, fired_at FROM (
        SELECT *, lag(coalesce(range_end, due_at)) OVER (PARTITION BY schedule_id ORDER BY due_at)
               AS previous
        FROM schedule_fires) AS fire
    WHERE due_at <> previous + interval '5 seconds' OR fired_at < due_at
       OR fired_at > now() + interval '1 minute'
"""
SHARED_RUNS = """
    SELECT run_id FROM schedule_fires WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1
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

    def move(self, commands: tuple[str, ...], offset_s: float) -> None:
        """Move the clocks of processes, and wait until each has noticed and gone on."""
        noticed = {command: self._notices(command) for command in commands}
        for command in commands:
            # Renamed, because the process must not read half a number.
            new_file = self.folder / f"{command}.new"
            new_file.write_text(f"{offset_s:+}\n")
            new_file.replace(self.folder / command)
        for command in commands:
            until(
                partial(self._is_noticed, command, offset_s, noticed[command]),
                what=self.service_processes.serve.log,
            )
        self._wait_for_progress()

    def _is_noticed(self, command: str, offset_s: float, noticed: int) -> bool:
        if command in OFFSETS:
            return abs(OFFSETS[command](self.deployment) - offset_s) < HOUR_S / 2
        return self._notices(command) > noticed

    def _notices(self, command: str) -> int:
        logger = {"worker": "app.jobs.job_runner", "scheduler": "app.schedules.ticker"}.get(command)
        lines = self.service_processes.serve.log.splitlines()
        return sum("the clock was set" in line and str(logger) in line for line in lines)

    def _wait_for_progress(self) -> None:
        database = self.deployment.database
        since, fires = database.now(), database.value(FIRES)
        heartbeats = "SELECT min(last_heartbeat) > %s FROM procrastinate_workers"
        until(lambda: bool(database.value(heartbeats, since)))
        until(lambda: bool(database.value(FIRES) > fires), what=self.service_processes.serve.log)


def _api_offset_s(deployment: Deployment) -> float:
    response = deployment.service.send("GET", "/agents")
    return parsedate_to_datetime(response.headers["Date"]).timestamp() - time.time()


def _database_offset_s(deployment: Deployment) -> float:
    clock = "SELECT extract(epoch FROM clock_timestamp())"
    return float(deployment.database.value(clock)) - time.time()


# The others say so in their logs.
OFFSETS = {"api": _api_offset_s, "postgres": _database_offset_s}


@contextmanager
def moved_clocks(
    tmp_path: Path, metric_pool: ProcessPool, **settings: str
) -> Iterator[MovedClocks]:
    path = [ROOT / "tests/support/moved_clock", ROOT, tmp_path / "plugins"]
    # Not below `tmp_path`, which the account of Postgres cannot enter.
    with tempfile.TemporaryDirectory(prefix="clocks-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for command in MACHINE:
            (folder / command).write_text("+0\n")
        settings = {
            **settings,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "MOSAICO_TEST_CLOCKS": name,
            "MOSAICO_WORKER_CONCURRENCY": "4",
        }
        with running_processes(tmp_path, metric_pool, **settings) as service_processes:
            yield MovedClocks(service_processes, folder)


@pytest.fixture
def python_clocks(tmp_path: Path, metric_pool: ProcessPool) -> Iterator[MovedClocks]:
    with moved_clocks(tmp_path, metric_pool) as clocks:
        yield clocks


@pytest.fixture
def machine_clocks(tmp_path: Path, metric_pool: ProcessPool) -> Iterator[MovedClocks]:
    if LIBRARY is None:
        pytest.skip("libfaketime is not installed; for example `apt-get install faketime`")
    with moved_clocks(tmp_path, metric_pool, **{FAKETIME: str(LIBRARY)}) as clocks:
        yield clocks


def prepare(deployment: Deployment) -> None:
    """A run that retention may purge, and a schedule of every 5 seconds."""
    deployment.database.execute("UPDATE benchmarks SET keep_days = 7")
    deployment.upload("before")
    deployment.service.upload([pair(1)], name="ticks")
    deployment.service.create_benchmark("bench-002", datasetRef="ticks", metrics=["ROUGE"])
    deployment.completed_run(deployment.start("before"))
    schedule = {
        "name": "often",
        "benchmarkId": "bench-002",
        "agentId": "agent-001",
        "cronExpression": "*/5 * * * * *",
        "concurrencyPolicy": "ALLOW",
    }
    deployment.service.post("/schedule-configs", schedule)
    until(lambda: bool(deployment.database.value(FIRES)))


def watch_missing_runs(deployment: Deployment) -> None:
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


def create_once(deployment: Deployment) -> str:
    """Start the run of the test; a repeated request must not start a second one."""
    body = {"benchmarkId": "bench-001", "agentId": "agent-001", "runName": "gate:clock"}
    response = deployment.service.send(
        "POST", "/benchmark-runs", body, headers={"Idempotency-Key": "once"}
    )
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def jump(
    clocks: MovedClocks, groups: tuple[tuple[str, ...], ...], jumps_s: tuple[float, ...]
) -> None:
    """Move the clocks of each group of processes at once, one jump after the other, and back."""
    deployment = clocks.deployment
    prepare(deployment)
    # It decides: by its clock runs and fires may really be missing.
    moves_database = any("postgres" in commands for commands in groups)
    watch_missing_runs(deployment)
    deployment.upload("gate:clock")
    run_id = create_once(deployment)
    gate = deployment.programs.gate("clock")
    until(gate.is_reached, what=clocks.service_processes.serve.log)
    kept = deployment.database.all(KEPT)
    for commands in groups:
        for offset_s in (*jumps_s, 0):
            clocks.move(commands, offset_s)
            # An idempotency key is valid for a day, by the clock of the database.
            if not (moves_database and offset_s >= DAY_S):
                assert create_once(deployment) == run_id, (commands, offset_s)
            assert deployment.database.all(KEPT) == kept, (commands, offset_s)
    gate.open()
    deployment.completed_run(run_id)

    results = deployment.database.stored_run(run_id).results
    assert len({row[0] for row in results}) == len(results) == TRACES
    # No worker was taken for dead.
    assert "jobs of dead workers" not in clocks.service_processes.serve.log
    assert deployment.database.all(SHARED_RUNS) == []
    if not moves_database:
        # Postgres measures its time limits with its clock: a statement may be ended, and repeated.
        assert deployment.database.value(MOST_STARTS, run_id) == 1
        assert deployment.database.all(WRONG_FIRES) == []
        assert deployment.database.all(ALERTS) == []
    # No clock is trusted alone: only where both were wrong, something old may be marked.
    if groups != (MACHINE,):
        assert deployment.database.all(PURGED) == []
    assert deployment.database.all(KEPT) == kept


# Longer than 5 s: a whole service starts, and a schedule fires after each jump.
def test_clock_jump__60_days_and_back_change_nothing(python_clocks: MovedClocks) -> None:
    jump(python_clocks, (("worker",), ("scheduler",)), (60 * DAY_S,))


@pytest.mark.prove
def test_clock_jumps__of_every_process_change_nothing(machine_clocks: MovedClocks) -> None:
    groups = tuple((command,) for command in COMMANDS)
    jump(machine_clocks, groups, tuple(JUMPS_S.values()))


@pytest.mark.prove
@pytest.mark.parametrize("commands", [("postgres",), MACHINE], ids=["postgres", "whole-machine"])
def test_clock_jumps__of_the_database_change_nothing(
    machine_clocks: MovedClocks, commands: tuple[str, ...]
) -> None:
    jump(machine_clocks, (commands,), tuple(JUMPS_S.values()))
