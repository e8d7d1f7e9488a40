"""What counts as a death of a worker for the jobs that it held, and what forgets it."""

import threading

import pytest
from sqlalchemy import text

from mosaico.core.resources import Resources
from mosaico.jobs.deaths import ALONE_AFTER, JobDeaths
from mosaico.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.outcomes import JobClaim, JobProgress, JobReleased, JobRetry, record_outcome
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.queue import DEATHS, RESCUES, split_arguments
from mosaico.jobs.worker_process import PRESENCE_LOCK
from tests.support.fleet import HANDLERS, Fleet
from tests.support.processes import LIVENESS_S, until
from tests.support.running_worker import running_worker
from tests.support.toy_jobs import BuildToy, ReportToy


def test_death__counts_for_each_job_that_the_worker_held(fleet: Fleet) -> None:
    fleet.enqueue("boat", "doll")
    fleet.run_and_die()

    assert [fleet.deaths(toy) for toy in ("boat", "doll")] == [JobDeaths(1, 0)] * 2


def test_death__of_a_worker_with_one_job_is_alone(fleet: Fleet) -> None:
    fleet.enqueue("boat", "doll")
    fleet.run_and_die(count=1)

    assert (fleet.deaths("boat"), fleet.deaths("doll")) == (JobDeaths(1, 1), JobDeaths())


def test_death__delays_none_of_the_jobs(fleet: Fleet) -> None:
    fleet.enqueue("boat", "doll")
    fleet.run_and_die()

    assert fleet.fetch(fleet.register()) == ["boat", "doll"]


def test_frozen_worker__loses_its_job_as_by_a_death(
    fleet: Fleet, service_resources: Resources
) -> None:
    """It may be a lost machine, whose connection lives on for a while."""
    fleet.enqueue("boat")
    worker_id = fleet.register()
    fleet.fetch(worker_id)
    fleet.lose(worker_id)
    with service_resources.db.begin() as session:
        hold = "SELECT pg_advisory_lock_shared(:lock, CAST(:worker AS int))"
        session.execute(text(hold), {"lock": PRESENCE_LOCK, "worker": worker_id})

        assert fleet.rescue() == 1

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", JobDeaths(1, 1))


@pytest.mark.parametrize(
    "table",
    # The process received SIGTERM; and it ended in order, without the database for its job.
    ["worker_processes WHERE worker_id", "procrastinate_workers WHERE id"],
)
def test_worker_that_stops_in_order__did_not_die(fleet: Fleet, table: str) -> None:
    fleet.enqueue("boat")
    worker_id = fleet.register()
    fleet.fetch(worker_id)
    fleet.rows.execute(f"DELETE FROM {table} = %s", worker_id)
    fleet.lose(worker_id)

    assert fleet.rescue() == 1

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", JobDeaths())


def test_worker_that_is_asked_to_stop__signs_off_while_its_job_runs(
    fleet: Fleet, service_resources: Resources
) -> None:
    """A job may not end in time, and the process exits with it."""
    started, may_end = threading.Event(), threading.Event()
    handlers = JobHandlers()

    @handlers.register(BuildToy, on_failure=ReportToy)
    def build(_job: object, _build: object) -> None:
        started.set()
        assert may_end.wait(LIVENESS_S)

    fleet.enqueue("boat")
    pool = ProcessPool(0, warm_up=lambda: None)
    worker = Worker(service_resources, handlers, pool, concurrency=1)
    with running_worker(worker, may_end):
        assert started.wait(LIVENESS_S)
        assert fleet.rows.value("SELECT count(*) FROM worker_processes") == 1
        worker.stop()
        until(lambda: fleet.rows.value("SELECT count(*) FROM worker_processes") == 0)
        assert fleet.status("boat") == "doing"


def test_lost_worker__its_jobs_are_rescued_although_its_heartbeat_is_of_the_future(
    fleet: Fleet,
) -> None:
    """The clock of the database was set back."""
    fleet.enqueue("boat")
    fleet.fetch(fleet.register())
    fleet.rows.execute(
        "UPDATE procrastinate_workers SET last_heartbeat = now() + interval '60 days'"
    )

    assert fleet.rescue() == 1

    assert fleet.status("boat") == "todo"


def test_errors_of_earlier_attempts__are_no_deaths(fleet: Fleet) -> None:
    fleet.enqueue("boat")
    fleet.rows.execute("UPDATE procrastinate_jobs SET attempts = %s", MAX_ATTEMPTS - 1)

    fleet.run_and_die()

    [(attempts, arguments)] = fleet.rows.all("SELECT attempts, args FROM procrastinate_jobs")
    # The rescue added one attempt and one rescue, so the four errors are still four.
    assert attempts - split_arguments(arguments).rescues == MAX_ATTEMPTS - 1
    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", JobDeaths(1, 1))


def hold_job_with_deaths(fleet: Fleet) -> JobClaim:
    """A worker has a job that must run alone."""
    deaths = JobDeaths(ALONE_AFTER, 1)
    fleet.enqueue("boat", deaths={"boat": deaths})
    worker_id = fleet.register()
    fleet.fetch(worker_id)
    [(job_id, arguments)] = fleet.rows.all("SELECT id, args FROM procrastinate_jobs")
    return JobClaim(
        id=job_id, name="toys.build", arguments=arguments, attempts=0, worker_id=worker_id
    )


def test_progress__forgets_the_deaths_of_the_job(
    fleet: Fleet, service_resources: Resources
) -> None:
    shared: list[int] = []
    claim = hold_job_with_deaths(fleet)
    progress = JobProgress(claim, shared.append)

    with service_resources.db.begin() as session:
        progress.record(session)
        # Not before it is certain.
        assert shared == []

    assert shared == [claim.id]
    assert fleet.deaths("boat") == JobDeaths()
    assert fleet.rows.value("SELECT priority FROM procrastinate_jobs") == 0


def test_progress__rolled_back_one_forgets_nothing(
    fleet: Fleet, service_resources: Resources
) -> None:
    shared: list[int] = []
    progress = JobProgress(hold_job_with_deaths(fleet), shared.append)

    with service_resources.db.begin() as session:
        progress.record(session)
        session.rollback()

    assert (fleet.deaths("boat"), shared) == (JobDeaths(ALONE_AFTER, 1), [])


def test_progress__of_a_worker_that_lost_the_job_forgets_nothing(
    fleet: Fleet, service_resources: Resources
) -> None:
    progress = JobProgress(hold_job_with_deaths(fleet), lambda _: None)
    fleet.rows.execute("UPDATE procrastinate_jobs SET attempts = attempts + 1")

    with service_resources.db.begin() as session:
        progress.record(session)

    assert fleet.deaths("boat") == JobDeaths(ALONE_AFTER, 1)


def test_rescue__later_deaths_replace_the_stored_ones(fleet: Fleet) -> None:
    fleet.enqueue("boat")
    for _ in range(ALONE_AFTER):
        fleet.run_and_die()

    arguments = fleet.rows.value("SELECT args FROM procrastinate_jobs")
    assert arguments == {"toy": "boat", RESCUES: 2, DEATHS: JobDeaths(2, 2)._asdict()}


def test_rescue_jobs__a_job_whose_twin_waits_is_finished(fleet: Fleet) -> None:
    """Two waiting jobs of one key would violate the unique index, and end every rescue."""
    fleet.enqueue("boat")
    worker_id = fleet.register()
    fleet.enqueue_once("first poll")
    assert sorted(fleet.fetch(worker_id)) == ["boat", "first poll"]
    fleet.enqueue_once("second poll")
    assert fleet.fetch(worker_id) == ["second poll"]
    fleet.enqueue_once("third poll")
    fleet.lose(worker_id)

    assert fleet.rescue() == 3

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
    worker_id = fleet.register()
    assert fleet.fetch(worker_id) == ["poll"]
    fleet.enqueue_once("next poll")
    job_id = fleet.rows.value("SELECT id FROM procrastinate_jobs WHERE args ->> 'toy' = 'poll'")
    claim = JobClaim(
        id=job_id, name="toys.build", arguments={"toy": "poll"}, attempts=0, worker_id=worker_id
    )

    with fleet.resources.db.begin() as session:
        assert record_outcome(session, claim, outcome, HANDLERS)

    assert (fleet.status("poll"), fleet.status("next poll")) == ("succeeded", "todo")
