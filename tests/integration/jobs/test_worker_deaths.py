"""What counts as a death of a worker by its job: not the loss of a machine, a restart or a suspension."""

import json
from datetime import timedelta

import pytest

from mosaico.jobs.deaths import DELAY_AFTER_UNPROVED
from mosaico.jobs.handlers import MAX_ATTEMPTS
from mosaico.jobs.outcomes import JobClaim, JobReleased, JobRetry, record_outcome
from mosaico.jobs.queue import DEATHS, split_arguments
from mosaico.jobs.worker_process import ProcessOrigin
from tests.support.fleet import HANDLERS, HERON, PELICAN, Fleet, machine, new_process


def test_heartbeat_in_the_future__proves_no_death(fleet: Fleet) -> None:
    """Power losses, after a worker that died before the clock of the database was set back."""
    fleet.set_heartbeat(fleet.register(PELICAN), timedelta(days=60))
    fleet.enqueue("boat")

    # Ten deaths: with proofs, five of them would make the job poison.
    for _ in range(2 * MAX_ATTEMPTS):
        fleet.run_and_die(PELICAN, rescuer=HERON)

    assert fleet.status("boat") == "todo"


@pytest.mark.parametrize("rescuer", [HERON, PELICAN])
def test_lost_machines__never_make_a_job_poison(fleet: Fleet, rescuer: ProcessOrigin) -> None:
    """Power losses of a fleet whose database runs elsewhere: the machine comes back, boot by boot."""
    fleet.enqueue("boat")

    # From boot 2 on: PELICAN, one of the rescuers, is boot 1 and would prove a death of boot 1.
    for boot in range(2, 2 + DELAY_AFTER_UNPROVED + 10):
        # From death 51 (DELAY_AFTER_UNPROVED) on the job waits for a minute or longer.
        fleet.wait_until_due()
        assert fleet.run_and_die(machine("pelican", boot=boot), rescuer=rescuer) == ["boat"]

    assert fleet.status("boat") == "todo"


def test_restarted_services__never_make_a_job_poison(fleet: Fleet) -> None:
    """`mosaico serve` ends with all its processes, and is started again on the same machine."""
    fleet.enqueue("boat")

    for number in range(2 * MAX_ATTEMPTS):
        # The rescuer belongs to the next tree: no sign of the old supervisor proves the death.
        rescuer = machine("pelican", supervisor=f"tree-{number + 1}")
        fleet.run_and_die(machine("pelican", supervisor=f"tree-{number}"), rescuer=rescuer)

    assert fleet.status("boat") == "todo"


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

    # The one death is that of HERON: the heartbeat has removed that of PELICAN.
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
        # As a version with other fields may have written it.
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


def test_restarts_of_the_database__never_make_a_job_poison(fleet: Fleet) -> None:
    fleet.enqueue("boat")

    for _ in range(2 * MAX_ATTEMPTS):
        fleet.run_and_die(PELICAN, rescuer=PELICAN, with_database=True)

    assert (fleet.status("boat"), fleet.deaths("boat")) == ("todo", 2 * MAX_ATTEMPTS)


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
    # The rescue added one attempt and one rescue, so the four errors are still four.
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
