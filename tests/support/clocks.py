"""A service whose clocks a test moves: of a process, of Postgres, or of the whole machine."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

from mosaico.core.clock import utc_now
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.worker_process import PRESENCE_LOCK
from mosaico.runs.retention import purge_runs_before
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import ROOT, until
from tests.support.serve import ServiceProcesses, running_processes
from tests.support.service import pair

HOUR_S, DAY_S = 3600.0, 86_400.0
COMMANDS = ("worker", "scheduler", "api")
MACHINE = (*COMMANDS, "postgres")
# More than what a process takes for slewing.
NUDGE_S = 2.0

FIRES = "SELECT count(*) FROM schedule_fires"
# Of the workers that live: the rows of dead ones stay for a day.
LIVE_WORKERS = """
    SELECT count(*) FILTER (WHERE worker.last_heartbeat > %s), count(*)
    FROM procrastinate_workers AS worker
    JOIN pg_locks AS lock ON lock.objid = worker.id
    WHERE lock.locktype = 'advisory' AND lock.classid = %s AND lock.granted
"""
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
# A purge marks first, and deletes a day later: `mosaico purge --undo` takes the marks back.
PURGED = """
    SELECT id FROM benchmark_runs WHERE purged_at IS NOT NULL AND run_name IS DISTINCT FROM 'marked'
"""
# The traces of a run that was marked a moment before the clocks moved.
MARKED_TRACES = """
    SELECT count(*) FROM collected_traces AS trace
    JOIN benchmark_runs AS run ON run.collection_id = trace.collection_id
    WHERE run.run_name = 'marked'
"""
SHARED_RUNS = """
    SELECT run_id FROM schedule_fires WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1
"""
RESCUED = "jobs of dead workers"
PURGE_MARKS = "SELECT count(*) FROM purge_marks"
REFUSED_PURGE = "nothing old is deleted"


@dataclass(frozen=True, slots=True)
class MovedClocks:
    """A service and the clocks of its processes."""

    service_processes: ServiceProcesses
    folder: Path

    @property
    def deployment(self) -> Deployment:
        return self.service_processes.deployment

    @property
    def log(self) -> str:
        return self.service_processes.serve.log

    def move(self, commands: tuple[str, ...], offset_s: float) -> None:
        """Move the clocks of processes, and wait until each has noticed and gone on."""
        noticed = {command: self._notices(command) for command in commands}
        self.set(commands, offset_s)
        for command in commands:
            until(
                partial(self._is_noticed, command, offset_s, noticed[command]),
                what=self.log,
            )
        self.wait_for_progress()

    def set(self, commands: tuple[str, ...], offset_s: float) -> None:
        """Move the clocks of processes."""
        for command in commands:
            # Renamed, because the process must not read half a number.
            new_file = self.folder / f"{command}.new"
            new_file.write_text(f"{offset_s:+}\n")
            new_file.replace(self.folder / command)

    def purge(self, offset_s: float) -> None:
        """Let the worker purge now, whose clock is ahead by `offset_s`: after a jump it runs everything
        that is periodic.
        """
        refused = self.log.count(REFUSED_PURGE)
        # A purge that is not refused sets them again.
        self.deployment.database.execute("DELETE FROM purge_marks")
        self.move(("worker",), offset_s + NUDGE_S)
        until(
            lambda: self.log.count(REFUSED_PURGE) > refused or self._purge_marks() > 0,
            what=self.log,
        )
        self.move(("worker",), offset_s)

    def _purge_marks(self) -> int:
        return int(self.deployment.database.value(PURGE_MARKS))

    def _is_noticed(self, command: str, offset_s: float, noticed: int) -> bool:
        if command in OFFSETS:
            # Tests jump by hours and days; half an hour leaves room
            # for a slow response, not for a jump.
            return abs(OFFSETS[command](self.deployment) - offset_s) < HOUR_S / 2
        return self._notices(command) > noticed

    def _notices(self, command: str) -> int:
        logger = {"worker": "mosaico.jobs.job_runner", "scheduler": "mosaico.schedules.ticker"}.get(
            command
        )
        return sum(
            "the clock was set" in line and str(logger) in line for line in self.log.splitlines()
        )

    def wait_for_progress(self) -> None:
        """Wait until each worker has sent a heartbeat and a schedule has fired."""
        database = self.deployment.database
        since, fires = database.now(), database.value(FIRES)

        def is_alive() -> bool:
            [(alive, present)] = database.all(LIVE_WORKERS, since, PRESENCE_LOCK)
            # Every worker, because one that has not noticed the jump
            # would look like one that is dead.
            return bool(alive == present > 0)

        until(is_alive, what=self.log)
        until(lambda: bool(database.value(FIRES) > fires), what=self.log)


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
    path = [ROOT / "tests/support/moved_clock", ROOT / "app", ROOT, tmp_path / "plugins"]
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


def prepare_runs(deployment: Deployment) -> None:
    """A run that is purged already, one that retention may purge, and a schedule of every 5 seconds."""
    deployment.upload("marked")
    deployment.completed_run(deployment.start("marked"))
    with deployment.service.resources.db.begin() as session:
        assert purge_runs_before(session, utc_now(), utc_now()) == 1
    # Short enough that every jump of a month makes the run of the test old.
    deployment.database.execute("UPDATE benchmarks SET keep_days = 7")
    deployment.upload("before")
    # One trace only: the runs of the schedule must not take the workers from the run of the test.
    deployment.service.upload([pair(1)], name="ticks")
    deployment.service.create_benchmark("bench-002", datasetRef="ticks", metrics=["ROUGE"])
    deployment.completed_run(deployment.start("before"))
    schedule = {
        "name": "often",
        "benchmarkId": "bench-002",
        "agentId": "agent-001",
        "cronExpression": "*/5 * * * * *",
        # A run that a jump delays must not hold the next firing
        # back: firings are the sign of progress.
        "concurrencyPolicy": "ALLOW",
    }
    deployment.service.post("/schedule-configs", schedule)
    until(lambda: bool(deployment.database.value(FIRES)))


def create_once(deployment: Deployment, run_name: str) -> str:
    """Start the run of the test; a repeated request must not start a second one."""
    body = {"benchmarkId": "bench-001", "agentId": "agent-001", "runName": run_name}
    response = deployment.service.send(
        "POST", "/benchmark-runs", body, headers={"Idempotency-Key": run_name}
    )
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def require_complete(deployment: Deployment, run_id: str) -> None:
    """The run completes with each trace once."""
    deployment.completed_run(run_id)
    results = deployment.database.stored_run(run_id).results
    assert len({row[0] for row in results}) == len(results) == TRACES
