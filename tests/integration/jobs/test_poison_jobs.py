"""A job that ends its workers fails with POISON; until then it runs alone, and its neighbors go on."""

from datetime import timedelta
from unittest.mock import ANY

import pytest

from mosaico.jobs.deaths import (
    DELAY_AFTER_UNPROVED,
    GIVE_UP_AFTER,
    MIN_OWN_DEATHS,
    SUSPECT_AFTER,
    SUSPECTS_LOCK,
    UNSERVED_LOCK,
)
from mosaico.jobs.handlers import MAX_ATTEMPTS
from tests.support.fleet import HERON, PELICAN, Fleet, machine


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
    for _ in range(SUSPECT_AFTER):
        assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["bomb", "boat", "doll"]
    for _ in range(MIN_OWN_DEATHS):
        assert fleet.status("bomb") == "todo"
        assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["bomb"]

    assert fleet.status("bomb") == "failed"
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

    # Of the old suspects only the first runs; the new job is none yet and runs beside it.
    assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "bomb"]
    assert fleet.run_and_die(PELICAN, rescuer=PELICAN) == ["boat", "bomb"]
    # Now the new job is a suspect, and waits for the others.
    assert fleet.fetch(fleet.register(PELICAN)) == ["boat"]
    fleet.finish("boat")
    assert fleet.fetch(fleet.register(PELICAN)) == ["doll"]


def test_suspect__gives_its_own_lock_up(fleet: Fleet) -> None:
    # A living worker of all queues: without one the suspect would get UNSERVED_LOCK.
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
    # Counted as alive, the dead worker of "ships" would keep its suspect first in line for 60 days.
    fleet.set_heartbeat(fleet.register(HERON, ["ships"]), timedelta(days=60))

    fleet.rescue(PELICAN)

    assert fleet.lock("boat") == UNSERVED_LOCK
    assert fleet.fetch(fleet.register(PELICAN, ["toys"])) == ["doll"]


def test_lost_machines__after_fifty_the_job_waits_and_delays_no_other_suspect(fleet: Fleet) -> None:
    fleet.enqueue("bomb")
    for boot in range(DELAY_AFTER_UNPROVED):
        # Each boot has an ID of its own, which is never seen again: none of the deaths is proved.
        fleet.run_and_die(machine("task", boot=boot), rescuer=HERON)
    fleet.enqueue("boat", lock=SUSPECTS_LOCK)
    worker_id = fleet.register(HERON)

    # Death 51 is the first that makes the job wait, for a minute (FIRST_DELAY).
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

    # The neighbor belongs to the boot of the dead workers: its heartbeat proves their deaths.
    fleet.rows.execute(
        "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %s", neighbor
    )
    # Deaths are judged only when one is added. This one, of another boot, is not proved itself.
    fleet.run_and_die(machine("pelican", boot=2), rescuer=HERON)

    assert fleet.status("bomb") == "failed"


@pytest.mark.parametrize("with_database", [False, True], ids=["machine", "machine and database"])
def test_machine_that_ends_with_each_crash__fails_its_job_after_twelve_hours(
    fleet: Fleet, *, with_database: bool
) -> None:
    """A virtual machine per task, or one with its database: nothing that was above the worker is ever seen
    again.
    """

    def crash(boot: int) -> list[str]:
        origin = machine("task", boot=boot)
        return fleet.run_and_die(origin, rescuer=HERON, with_database=with_database)

    fleet.enqueue("bomb")
    for boot in range(DELAY_AFTER_UNPROVED):
        crash(boot)
    # The first death is too recent for INTERRUPTED; a busy machine takes seconds for all of them.
    rest = timedelta(minutes=15)
    fleet.let_time_pass("bomb", GIVE_UP_AFTER - rest)
    crash(DELAY_AFTER_UNPROVED)
    assert fleet.status("bomb") == "todo"
    # It waits for a minute.
    assert crash(DELAY_AFTER_UNPROVED + 1) == []

    fleet.let_time_pass("bomb", rest)
    fleet.wait_until_due()
    assert crash(DELAY_AFTER_UNPROVED + 1) == ["bomb"]

    assert fleet.status("bomb") == "failed"
    query = "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    assert fleet.rows.value(query) == {"toy": "bomb", "code": "INTERRUPTED", "message": ANY}
