"""A job that ends its workers fails with POISON; its neighbors and jobs of lost machines do not."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from sqlalchemy import text

from app.core.resources import Resources
from app.jobs.deaths import (
    DELAY_AFTER_UNPROVED,
    PLACE_SUSPECTS,
    SUSPECT_AFTER,
    SUSPECTS_LOCK,
    UNSERVED_LOCK,
    read_deaths,
    write_deaths,
)
from app.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from app.jobs.models import WorkerProcess
from app.jobs.outcomes import JobClaim, JobReleased, JobRetry, record_outcome
from app.jobs.queue import DEATHS, enqueue, enqueue_once, split_arguments
from app.jobs.rescue import rescue_jobs
from app.jobs.silent_sessions import SilentSessions
from app.jobs.worker_process import ProcessOrigin
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import BuildShip, BuildToy, ReportToy

HANDLERS = JobHandlers()
HANDLERS.register(BuildToy, on_failure=ReportToy)(lambda _job, _build: None)
BUILD_OF_QUEUE = {"toys": BuildToy, "ships": BuildShip}
INSTANCES = itertools.count()


def machine(name: str, *, boot: int = 1, supervisor: str = "") -> ProcessOrigin:
    return ProcessOrigin(machine=name, boot_id=f"{name}-{boot}", supervisor=supervisor, instance="")


def new_process(origin: ProcessOrigin) -> ProcessOrigin:
    return replace(origin, instance=f"process {next(INSTANCES)}")


PELICAN, HERON = machine("pelican"), machine("heron")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers and their jobs in the tables of the database, without processes."""

    resources: Resources

    @property
    def rows(self) -> DatabaseReader:
        return DatabaseReader(self.resources.db.url)

    def enqueue(self, *toys: str, lock: str | None = None, queue: str = "toys") -> None:
        with self.resources.db.begin() as session:
            for toy in toys:
                enqueue(session, BUILD_OF_QUEUE[queue](toy=toy), lock=lock)

    def enqueue_once(self, toy: str) -> None:
        """A job of which one at a time waits, such as a poll."""
        with self.resources.db.begin() as session:
            assert enqueue_once(session, BuildToy(toy=toy), key="poll")

    def register(self, origin: ProcessOrigin, queues: Sequence[str] | None = None) -> int:
        """A worker that is alive now, of a new process unless the origin has an instance."""
        if not origin.instance:
            origin = new_process(origin)
        with self.resources.db.begin() as session:
            worker_id = session.scalar(
                text("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
            )
            assert isinstance(worker_id, int)
            process = WorkerProcess(
                worker_id=worker_id,
                machine=origin.machine,
                boot_id=origin.boot_id,
                supervisor=origin.supervisor,
                instance=origin.instance,
                queues=None if queues is None else list(queues),
            )
            session.add(process)
            session.flush()
            session.execute(text(PLACE_SUSPECTS))
        return worker_id

    def fetch(self, worker_id: int, count: int = 10) -> list[str]:
        """Let a worker fetch jobs as procrastinate does; returns their toys."""
        query = """
            SELECT job.args ->> 'toy' FROM worker_processes AS process,
                procrastinate_fetch_job_v2(process.queues::varchar[], process.worker_id) AS job
            WHERE process.worker_id = %s AND job.id IS NOT NULL
        """
        with self.resources.db.begin() as session:
            cursor = session.connection().connection.driver_connection.cursor()  # type: ignore[union-attr]
            toys = [cursor.execute(query, (worker_id,)).fetchone() for _ in range(count)]
        return [toy for row in toys if row is not None for toy in row]

    def lose(self, *worker_ids: int) -> None:
        """The workers have been silent for a minute."""
        for worker_id in worker_ids:
            self.set_heartbeat(worker_id, timedelta(minutes=-1))

    def set_heartbeat(self, worker_id: int, since_now: timedelta) -> None:
        self.rows.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() + %s WHERE id = %s",
            since_now,
            worker_id,
        )

    def rescue(self, rescuer: ProcessOrigin) -> int:
        if not rescuer.instance:
            rescuer = new_process(rescuer)
        with self.resources.db.begin() as session:
            return rescue_jobs(
                session,
                HANDLERS,
                SilentSessions(),
                rescuer,
                reconnect_s=0,
            )

    def run_and_die(self, origin: ProcessOrigin, rescuer: ProcessOrigin) -> list[str]:
        """A new worker fetches every job that it may, and dies; returns the toys of its jobs."""
        worker_id = self.register(origin)
        toys = self.fetch(worker_id)
        self.lose(worker_id)
        assert self.rescue(rescuer) == len(toys)
        return toys

    def wait_until_due(self) -> None:
        self.rows.execute(
            "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE status = 'todo'"
        )

    def let_days_pass(self, toy: str, *, days: float) -> None:
        """Everything that happened to a job and its workers happened earlier."""
        self.rows.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - %s",
            timedelta(days=days),
        )
        [(job_id, arguments)] = self.rows.all(
            "SELECT id, args FROM procrastinate_jobs WHERE args ->> 'toy' = %s", toy
        )
        deaths = [
            replace(death, rescued_at=death.rescued_at - timedelta(days=days))
            for death in read_deaths(split_arguments(arguments).deaths)
        ]
        self.rows.execute(
            "UPDATE procrastinate_jobs SET args = args || %s::jsonb WHERE id = %s",
            json.dumps({DEATHS: write_deaths(deaths)}),
            job_id,
        )

    def status(self, toy: str) -> str:
        query = (
            "SELECT status::text FROM procrastinate_jobs"
            " WHERE task_name = 'toys.build' AND args ->> 'toy' = %s"
        )
        return str(self.rows.value(query, toy))

    def lock(self, toy: str) -> str | None:
        lock: str | None = self.rows.value(
            "SELECT lock FROM procrastinate_jobs WHERE args ->> 'toy' = %s", toy
        )
        return lock

    def deaths(self, toy: str) -> int:
        query = "SELECT args FROM procrastinate_jobs WHERE args ->> 'toy' = %s"
        arguments: dict[str, Any] = self.rows.value(query, toy)
        return len(split_arguments(arguments).deaths)

    def finish(self, toy: str) -> None:
        self.rows.execute(
            "SELECT procrastinate_finish_job_v1(id, 'succeeded', false)"
            " FROM procrastinate_jobs WHERE args ->> 'toy' = %s",
            toy,
        )


@pytest.fixture
def fleet(service_resources: Resources) -> Fleet:
    return Fleet(service_resources)


def test_poison_job__fails_after_five_crashes_on_one_machine(fleet: Fleet) -> None:
    fleet.enqueue("bomb")

    for _ in range(MAX_ATTEMPTS):
        assert fleet.status("bomb") == "todo"
        fleet.run_and_die(PELICAN, rescuer=PELICAN)

    assert fleet.status("bomb") == "failed"
    query = "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    assert fleet.rows.value(query) == {"toy": "bomb", "code": "POISON", "message": ANY}


def test_poison_job__costs_its_neighbors_only_the_shared_deaths(fleet: Fleet) -> None:
    """The jobs of one worker: one of them ends it, the others would take long."""
    fleet.enqueue("bomb", "boat", "doll")
    crashes = 0
    while fleet.status("bomb") == "todo":
        worker_id = fleet.register(PELICAN)
        toys = fleet.fetch(worker_id)
        if "bomb" in toys:
            crashes += 1
            fleet.lose(worker_id)
            fleet.rescue(PELICAN)
        else:
            [toy] = toys
            fleet.finish(toy)

    assert fleet.status("bomb") == "failed"
    assert crashes <= MAX_ATTEMPTS + 1
    for harmless in ("boat", "doll"):
        assert fleet.status(harmless) == "todo"
        assert fleet.deaths(harmless) == SUSPECT_AFTER


def test_suspects__run_one_after_another_and_later_jobs_beside_them(fleet: Fleet) -> None:
    fleet.enqueue("boat", "bomb", "doll")
    for _ in range(SUSPECT_AFTER):
        assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "bomb", "doll"]
    fleet.enqueue("car")

    # In another worker, too.
    assert fleet.fetch(fleet.register(PELICAN)) == ["boat", "car"]
    assert fleet.fetch(fleet.register(HERON)) == []
    fleet.finish("boat")
    assert fleet.fetch(fleet.register(HERON)) == ["bomb"]


def test_first_death__delays_none_of_the_jobs(fleet: Fleet) -> None:
    fleet.enqueue("boat", "doll")
    fleet.run_and_die(PELICAN, rescuer=PELICAN)

    assert fleet.fetch(fleet.register(HERON)) == ["boat", "doll"]


def test_new_poison_job__joins_the_suspects(fleet: Fleet) -> None:
    """It ends workers beside a harmless suspect, until it is one itself."""
    fleet.enqueue("boat", "doll")
    for _ in range(SUSPECT_AFTER):
        fleet.run_and_die(PELICAN, rescuer=PELICAN)
    fleet.enqueue("bomb")

    assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "bomb"]
    assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "bomb"]
    # Now the new job is a suspect, and waits for the others.
    assert fleet.fetch(fleet.register(PELICAN)) == ["boat"]
    fleet.finish("boat")
    assert fleet.fetch(fleet.register(PELICAN)) == ["doll"]


def test_suspect__gives_its_own_lock_up(fleet: Fleet) -> None:
    fleet.register(HERON)
    fleet.enqueue("boat", lock="harbor")
    for _ in range(SUSPECT_AFTER):
        fleet.run_and_die(PELICAN, rescuer=PELICAN)

    assert fleet.rows.value("SELECT lock FROM procrastinate_jobs") == SUSPECTS_LOCK


def test_suspect_of_a_queue_without_worker__holds_up_no_other(fleet: Fleet) -> None:
    fleet.enqueue("boat", queue="ships")
    fleet.enqueue("doll")
    for _ in range(SUSPECT_AFTER):
        assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "doll"]

    # The first suspect waits for a worker of its queue.
    toy_worker = fleet.register(PELICAN, ["toys"])
    fleet.rescue(PELICAN)
    assert fleet.fetch(toy_worker) == ["doll"]
    assert fleet.lock("boat") == UNSERVED_LOCK

    # Once there is one, again one suspect runs at a time.
    ship_worker = fleet.register(HERON, ["ships"])
    assert fleet.fetch(ship_worker) == []
    fleet.finish("doll")
    assert fleet.fetch(ship_worker) == ["boat"]
    assert fleet.lock("boat") == SUSPECTS_LOCK


def test_suspect__of_a_queue_whose_dead_worker_has_a_heartbeat_in_the_future_holds_up_no_other(
    fleet: Fleet,
) -> None:
    fleet.enqueue("boat", queue="ships")
    fleet.enqueue("doll")
    for _ in range(SUSPECT_AFTER):
        fleet.run_and_die(PELICAN, rescuer=PELICAN)
    fleet.set_heartbeat(fleet.register(HERON, ["ships"]), timedelta(days=60))

    fleet.rescue(PELICAN)

    assert fleet.lock("boat") == UNSERVED_LOCK
    assert fleet.fetch(fleet.register(PELICAN, ["toys"])) == ["doll"]


def test_heartbeat_in_the_future__proves_no_death(fleet: Fleet) -> None:
    """Power losses, after a worker that died before the clock of the database was set back."""
    fleet.set_heartbeat(fleet.register(PELICAN), timedelta(days=60))
    fleet.enqueue("boat")

    for _ in range(2 * MAX_ATTEMPTS):
        fleet.run_and_die(PELICAN, rescuer=HERON)

    assert fleet.status("boat") == "todo"


@pytest.mark.parametrize("rescuer", [HERON, PELICAN])
def test_lost_machines__never_make_a_job_poison(fleet: Fleet, rescuer: ProcessOrigin) -> None:
    """Power losses of a fleet whose database runs elsewhere: the machine comes back, boot by boot."""
    fleet.enqueue("boat")

    for boot in range(2, 2 + DELAY_AFTER_UNPROVED + 10):
        fleet.wait_until_due()
        assert fleet.run_and_die(machine("pelican", boot=boot), rescuer=rescuer) == ["boat"]

    assert fleet.status("boat") == "todo"


def test_lost_machines__after_fifty_the_job_waits_and_delays_no_other_suspect(fleet: Fleet) -> None:
    fleet.enqueue("bomb")
    for boot in range(DELAY_AFTER_UNPROVED):
        fleet.run_and_die(machine("task", boot=boot), rescuer=HERON)
    fleet.enqueue("boat", lock=SUSPECTS_LOCK)
    worker_id = fleet.register(HERON)

    assert fleet.run_and_die(machine("task", boot=DELAY_AFTER_UNPROVED), rescuer=HERON) == ["bomb"]

    assert fleet.lock("bomb") == UNSERVED_LOCK
    assert fleet.fetch(worker_id) == ["boat"]

    # Just before its time it is again one of the suspects, of which one runs at a time.
    fleet.wait_until_due()
    fleet.rescue(PELICAN)
    assert fleet.lock("bomb") == SUSPECTS_LOCK
    assert fleet.fetch(worker_id) == []
    fleet.finish("boat")
    assert fleet.fetch(worker_id) == ["bomb"]


def test_restarted_services__never_make_a_job_poison(fleet: Fleet) -> None:
    """`mosaico serve` ends with all its processes, and is started again on the same machine."""
    fleet.enqueue("boat")

    for number in range(2 * MAX_ATTEMPTS):
        rescuer = machine("pelican", supervisor=f"tree-{number + 1}")
        fleet.run_and_die(machine("pelican", supervisor=f"tree-{number}"), rescuer=rescuer)

    assert fleet.status("boat") == "todo"


def test_crashes_on_living_machines__make_a_job_poison_although_others_rescue(fleet: Fleet) -> None:
    """Every death is rescued by another machine, and each machine starts its worker again."""
    fleet.enqueue("bomb")
    crashes = 0
    while fleet.status("bomb") == "todo":
        crashes += 1
        assert crashes <= MAX_ATTEMPTS + 2
        died, rescuer = (PELICAN, HERON) if crashes % 2 else (HERON, PELICAN)
        fleet.run_and_die(died, rescuer=rescuer)

    # The last death is proved by the rescuer of the next one.
    assert (fleet.status("bomb"), crashes) == ("failed", MAX_ATTEMPTS + 1)


def test_another_worker_of_the_machine__proves_the_deaths(fleet: Fleet) -> None:
    neighbor = fleet.register(PELICAN)
    fleet.enqueue("bomb")
    for _ in range(MAX_ATTEMPTS):
        fleet.run_and_die(PELICAN, rescuer=HERON)
    assert fleet.status("bomb") == "todo"

    fleet.rows.execute(
        "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %s", neighbor
    )
    fleet.run_and_die(machine("pelican", boot=2), rescuer=HERON)

    assert fleet.status("bomb") == "failed"


def test_machine_that_ends_with_each_crash__fails_its_job_after_a_week(fleet: Fleet) -> None:
    """A virtual machine per task: nothing that was above the worker is ever seen again."""
    fleet.enqueue("bomb")
    for boot in range(DELAY_AFTER_UNPROVED):
        fleet.run_and_die(machine("task", boot=boot), rescuer=HERON)
    fleet.let_days_pass("bomb", days=7)

    fleet.run_and_die(machine("task", boot=DELAY_AFTER_UNPROVED), rescuer=HERON)

    assert fleet.status("bomb") == "failed"
    query = "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    assert fleet.rows.value(query) == {"toy": "bomb", "code": "INTERRUPTED", "message": ANY}


def test_suspended_worker__did_not_die(fleet: Fleet) -> None:
    """A laptop sleeps during the job, and its worker goes on afterwards."""
    fleet.enqueue("boat")
    worker_id = fleet.register(PELICAN)
    fleet.fetch(worker_id)
    fleet.lose(worker_id)
    fleet.rescue(HERON)
    assert fleet.deaths("boat") == 1

    fleet.rows.execute(
        "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %s", worker_id
    )
    fleet.run_and_die(HERON, rescuer=HERON)

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 1)


@pytest.mark.parametrize("rescuer", ["the process itself", "another process"])
def test_process_that_registers_again__did_not_die(fleet: Fleet, rescuer: str) -> None:
    """It lost its connection, and its worker has another ID now."""
    process = new_process(PELICAN)
    fleet.enqueue("boat")
    worker_id = fleet.register(process)
    fleet.fetch(worker_id)
    fleet.lose(worker_id)
    fleet.register(process)

    assert fleet.rescue(process if rescuer == "the process itself" else HERON) == 1

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 0)


def test_rescue__an_unreadable_death_of_one_job_holds_up_no_other(fleet: Fleet) -> None:
    fleet.enqueue("boat", "kite")
    worker_id = fleet.register(PELICAN)
    fleet.fetch(worker_id)
    fleet.rows.execute(
        "UPDATE procrastinate_jobs SET args = args || %s::jsonb WHERE args ->> 'toy' = 'boat'",
        json.dumps({DEATHS: [{"machine": "heron"}]}),
    )
    fleet.lose(worker_id)

    assert fleet.rescue(HERON) == 2

    assert {toy: (fleet.status(toy), fleet.deaths(toy)) for toy in ("boat", "kite")} == {
        "boat": ("todo", 1),
        "kite": ("todo", 1),
    }


def test_lost_worker__its_jobs_are_rescued_although_the_clock_of_the_database_was_set_back(
    fleet: Fleet,
) -> None:
    """Its last heartbeat is of a time that comes again in 60 days."""
    fleet.enqueue("boat")
    worker_id = fleet.register(PELICAN)
    fleet.fetch(worker_id)
    fleet.rows.execute(
        "UPDATE procrastinate_workers SET last_heartbeat = now() + interval '60 days'"
    )

    assert fleet.rescue(HERON) == 1

    assert fleet.status("boat") == "todo"


def test_restart_of_the_database__is_no_death(fleet: Fleet) -> None:
    fleet.enqueue("boat")
    worker_id = fleet.register(PELICAN)
    fleet.fetch(worker_id)
    fleet.lose(worker_id)
    fleet.rows.execute(
        "UPDATE procrastinate_events SET at = pg_postmaster_start_time() - interval '1 s'"
    )

    fleet.rescue(PELICAN)

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 0)


def test_worker_that_signed_off__did_not_die(fleet: Fleet) -> None:
    """It stopped in order, and could not return its job because the database was away."""
    fleet.enqueue("boat")
    worker_id = fleet.register(PELICAN)
    fleet.fetch(worker_id)
    fleet.rows.execute("DELETE FROM procrastinate_workers WHERE id = %s", worker_id)

    assert fleet.rescue(PELICAN) == 1

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 0)


def test_errors_of_earlier_attempts__are_no_deaths(fleet: Fleet) -> None:
    fleet.enqueue("boat")
    fleet.rows.execute("UPDATE procrastinate_jobs SET attempts = %s", MAX_ATTEMPTS - 1)

    fleet.run_and_die(PELICAN, rescuer=PELICAN)

    [(attempts, arguments)] = fleet.rows.all("SELECT attempts, args FROM procrastinate_jobs")
    assert attempts - split_arguments(arguments).rescues == MAX_ATTEMPTS - 1
    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 1)


def test_two_power_losses__leave_the_jobs_of_a_machine_side_by_side(fleet: Fleet) -> None:
    fleet.enqueue("boat", "car", "doll")
    for boot in (1, 2):
        rescuer = machine("pelican", boot=boot + 1)
        fleet.run_and_die(machine("pelican", boot=boot), rescuer=rescuer)

    worker_id = fleet.register(machine("pelican", boot=3))
    assert sorted(fleet.fetch(worker_id)) == ["boat", "car", "doll"]


def test_rescue_jobs__a_job_whose_twin_waits_is_finished(fleet: Fleet) -> None:
    """Two waiting jobs of one key would violate the unique index, and end every rescue."""
    fleet.enqueue("boat")
    worker_id = fleet.register(PELICAN)
    fleet.enqueue_once("first poll")
    assert sorted(fleet.fetch(worker_id)) == ["boat", "first poll"]
    fleet.enqueue_once("second poll")
    assert fleet.fetch(worker_id) == ["second poll"]
    fleet.enqueue_once("third poll")
    fleet.lose(worker_id)

    assert fleet.rescue(PELICAN) == 3

    assert fleet.status("boat") == "todo"
    assert [fleet.status(f"{name} poll") for name in ("first", "second", "third")] == [
        "succeeded",
        "succeeded",
        "todo",
    ]


@pytest.mark.parametrize("outcome", [JobRetry(delay_s=1), JobReleased()])
def test_record_outcome__a_job_whose_twin_waits_does_not_go_back(
    fleet: Fleet, outcome: JobRetry | JobReleased
) -> None:
    fleet.enqueue_once("poll")
    worker_id = fleet.register(PELICAN)
    assert fleet.fetch(worker_id) == ["poll"]
    fleet.enqueue_once("next poll")
    job_id = fleet.rows.value("SELECT id FROM procrastinate_jobs WHERE args ->> 'toy' = 'poll'")
    claim = JobClaim(
        id=job_id, name="toys.build", arguments={"toy": "poll"}, attempts=0, worker_id=worker_id
    )

    with fleet.resources.db.begin() as session:
        assert record_outcome(session, claim, outcome, HANDLERS)

    assert (fleet.status("poll"), fleet.status("next poll")) == ("succeeded", "todo")
