"""The deaths of workers make the job poison that caused them, and no other."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.jobs.deaths import (
    DELAY_AFTER_UNPROVED,
    GIVE_UP_AFTER,
    SUSPECT_AFTER_UNPROVED,
    Sighting,
    Suspicion,
    WorkerDeath,
    delay_retry,
    judge_deaths,
    read_deaths,
    review_deaths,
    write_deaths,
)
from mosaico.jobs.handlers import MAX_ATTEMPTS
from mosaico.jobs.worker_process import ProcessOrigin

T0 = datetime(2026, 11, 23, tzinfo=UTC)


def at(minute: float) -> datetime:
    return T0 + timedelta(minutes=minute)


def death(
    minute: int = 0, *, root: str = "boot-1", is_own: bool = True, is_proved: bool = False
) -> WorkerDeath:
    """The death of the worker whose instance is named after the minute."""
    return WorkerDeath(
        instance=str(minute),
        root=root,
        rescued_at=at(minute),
        is_own=is_own,
        is_proved=is_proved,
    )


def proved(*are_own: bool) -> list[WorkerDeath]:
    return [death(minute, is_own=is_own, is_proved=True) for minute, is_own in enumerate(are_own)]


@pytest.mark.parametrize(
    ("supervisor", "boot_id", "root"),
    [("tree-1", "boot-1", "tree-1"), ("", "boot-1", "boot-1"), ("", "", "pelican")],
)
def test_process_root__is_the_supervisor_else_the_boot_of_the_machine(
    supervisor: str, boot_id: str, root: str
) -> None:
    origin = ProcessOrigin(machine="pelican", boot_id=boot_id, supervisor=supervisor, instance="1")

    assert origin.root == root


def test_deaths__are_stored_as_json() -> None:
    deaths = [death(1), death(2, root="tree", is_own=False, is_proved=True)]

    assert read_deaths(write_deaths(deaths)) == deaths


def test_read_deaths__a_field_of_a_newer_version_is_ignored() -> None:
    [entry] = write_deaths([death(1)])

    assert read_deaths([{**entry, "signal": 9}]) == [death(1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"rescued_at": "yesterday"},
        {"rescued_at": "2026-11-23T00:00:00"},  # without a zone: cannot be compared
        {"instance": None},
    ],
)
def test_read_deaths__an_unreadable_entry_does_not_count_and_is_logged(
    changes: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = write_deaths([death(1), death(2)])

    assert read_deaths([{**first, **changes}, second]) == [death(2)]

    assert "cannot be read and does not count: {'instance': " in caplog.text


@pytest.mark.parametrize("entries", [None, {}, 3, ["x"]])
def test_read_deaths__something_else_contains_no_deaths(entries: object) -> None:
    assert read_deaths(entries) == []


@pytest.mark.parametrize(
    ("sighting", "is_proved"),
    [
        (Sighting("8", "boot-1", at(1)), True),  # another worker of the same boot
        (Sighting("9", "boot-1", at(0)), True),  # the rescuer itself
        (Sighting("8", "boot-1", at(-0.1)), False),  # died with it, as far as is known
        (Sighting("8", "boot-2", at(1)), False),  # the machine started again
    ],
)
def test_review_deaths__proof_is_a_later_sign_of_life_of_the_root(
    sighting: Sighting, is_proved: bool
) -> None:
    [reviewed] = review_deaths([death()], [sighting])

    assert reviewed == death(is_proved=is_proved)


def test_review_deaths__proof_stays_when_the_worker_that_gave_it_is_forgotten() -> None:
    assert review_deaths([death(is_proved=True)], []) == [death(is_proved=True)]


def test_review_deaths__death_with_the_database_is_never_proved() -> None:
    with_database = replace(death(), with_database=True)

    assert review_deaths([with_database], [Sighting("8", "boot-1", at(1))]) == [with_database]


def test_review_deaths__worker_that_was_only_suspended_did_not_die() -> None:
    assert review_deaths([death()], [Sighting("0", "boot-1", at(1))]) == []


@pytest.mark.parametrize(
    ("deaths", "suspicion"),
    [
        (proved(), Suspicion.NONE),
        (proved(True), Suspicion.NONE),
        (proved(False, False), Suspicion.SUSPECT),
        (proved(*[True] * (MAX_ATTEMPTS - 1)), Suspicion.SUSPECT),
        (proved(*[True] * MAX_ATTEMPTS), Suspicion.POISON),
        (proved(False, False, True, True, True), Suspicion.POISON),
        (proved(*[False] * 2 * MAX_ATTEMPTS), Suspicion.SUSPECT),
        ([death() for _ in range(SUSPECT_AFTER_UNPROVED - 1)], Suspicion.NONE),
        ([death() for _ in range(SUSPECT_AFTER_UNPROVED)], Suspicion.SUSPECT),
        ([death(minute) for minute in range(3 * DELAY_AFTER_UNPROVED)], Suspicion.SUSPECT),
    ],
)
def test_judge_deaths(deaths: list[WorkerDeath], suspicion: Suspicion) -> None:
    assert judge_deaths(deaths) is suspicion


@pytest.mark.parametrize(
    ("deaths", "minutes"),
    [
        ([death()] * DELAY_AFTER_UNPROVED, 0),
        ([death()] * (DELAY_AFTER_UNPROVED + 1), 1),
        ([death()] * (DELAY_AFTER_UNPROVED + 2), 2),
        ([death()] * (DELAY_AFTER_UNPROVED + 6), 32),
        ([death()] * (DELAY_AFTER_UNPROVED + 7), 60),
        ([death()] * 10_000, 60),
        # Beside others, and proved: the first may be no deaths of the job, the second make it poison.
        ([death(is_own=False)] * 10_000, 0),
        ([death(is_proved=True)] * 10_000, 0),
    ],
)
def test_delay_retry__doubles_after_fifty_unproved_deaths_up_to_an_hour(
    deaths: list[WorkerDeath], minutes: float
) -> None:
    assert delay_retry(deaths) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("count", "hours", "suspicion"),
    [
        (DELAY_AFTER_UNPROVED + 1, 12, Suspicion.INTERRUPTED),
        (DELAY_AFTER_UNPROVED + 1, 11.9, Suspicion.SUSPECT),
        # A machine that is switched off every night.
        (DELAY_AFTER_UNPROVED, 50 * 24, Suspicion.SUSPECT),
    ],
)
def test_judge_deaths__gives_up_after_twelve_hours_of_unproved_deaths(
    count: int, hours: float, suspicion: Suspicion
) -> None:
    deaths = [death()] * (count - 1)

    assert (
        judge_deaths([*deaths, replace(death(), rescued_at=T0 + timedelta(hours=hours))])
        is suspicion
    )


def test_judge_deaths__a_job_that_ends_each_machine_has_its_result_before_the_next_night() -> None:
    """Each attempt takes the machine along after a minute."""
    deaths, now = [death()], timedelta()
    while judge_deaths(deaths) is not Suspicion.INTERRUPTED:
        now += timedelta(minutes=1) + delay_retry(deaths)
        deaths.append(replace(death(), rescued_at=T0 + now))

    assert GIVE_UP_AFTER <= now <= GIVE_UP_AFTER + timedelta(minutes=61)
    # 50 at once, 6 while the delay doubles to an hour, then one every 61 minutes.
    assert 65 <= len(deaths) <= 69


def simulate_fleet(origins: Iterable[str], rescuer: str) -> int:
    """Let the worker of each root die in one job; returns the deaths until it is poison, 0 if never.

    The root of a death is seen again only when a later worker has the same one.
    """
    deaths: list[WorkerDeath] = []
    for minute, root in enumerate(origins):
        # Half a minute before: the next worker of a root proves the
        # deaths before this one, not this one.
        started = [Sighting(f"next {minute}", root, at(minute - 0.5))]
        sightings = [*started, Sighting("rescuer", rescuer, at(minute))]
        deaths = review_deaths([*deaths, death(minute, root=root)], sightings)
        if judge_deaths(deaths) is Suspicion.POISON:
            return minute + 1
    return 0


def test_fleet__power_losses_never_make_a_job_poison() -> None:
    boots = (f"boot-{number}" for number in range(3 * DELAY_AFTER_UNPROVED))

    assert simulate_fleet(boots, rescuer="another machine") == 0


def test_fleet__crashes_on_living_machines_make_a_job_poison() -> None:
    boots = itertools.islice(itertools.cycle(["boot-1", "boot-2"]), 3 * MAX_ATTEMPTS)

    # The last deaths are proved once their machines are seen again.
    assert simulate_fleet(boots, rescuer="another machine") == MAX_ATTEMPTS + 2


def test_fleet__crashes_beside_the_rescuer_make_a_job_poison_at_once() -> None:
    assert simulate_fleet(["boot-1"] * MAX_ATTEMPTS, rescuer="boot-1") == MAX_ATTEMPTS
