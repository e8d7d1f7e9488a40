"""When a job runs alone, and when it fails because it ends its workers."""

import pytest

from mosaico.jobs.deaths import (
    JobDeaths,
    count_death,
    is_poison,
    may_start,
    read_deaths,
    runs_alone,
)


@pytest.mark.parametrize(
    ("is_alone", "expected"), [(False, JobDeaths(3, 1)), (True, JobDeaths(3, 2))]
)
def test_count_death(*, is_alone: bool, expected: JobDeaths) -> None:
    assert count_death(JobDeaths(2, 1), is_alone=is_alone) == expected


@pytest.mark.parametrize(
    ("deaths", "alone"),
    [
        (JobDeaths(), False),
        (JobDeaths(1, 0), False),
        # One death may have any cause, such as a restart of the machine.
        (JobDeaths(1, 1), False),
        (JobDeaths(2, 0), True),
        (JobDeaths(7, 5), True),
    ],
)
def test_runs_alone__from_the_second_death_on(deaths: JobDeaths, *, alone: bool) -> None:
    assert runs_alone(deaths) is alone


@pytest.mark.parametrize(
    ("deaths", "fails"),
    [
        (JobDeaths(), False),
        (JobDeaths(4, 4), False),
        (JobDeaths(5, 5), True),
        (JobDeaths(6, 4), False),
        (JobDeaths(7, 5), True),
        # The deaths that a job shared may be those of its neighbors.
        (JobDeaths(100, 0), False),
    ],
)
def test_is_poison__after_five_deaths_alone(deaths: JobDeaths, *, fails: bool) -> None:
    assert is_poison(deaths) is fails


@pytest.mark.parametrize(
    ("alone", "running", "expected"),
    [
        (False, [], True),
        (False, [False, False], True),
        (False, [True], False),
        (True, [], True),
        (True, [False], False),
        (True, [True], False),
        # A job that others may be beside again, as it has made progress.
        (False, [False, True], False),
    ],
)
def test_may_start(*, alone: bool, running: list[bool], expected: bool) -> None:
    assert may_start(alone=alone, running=running) is expected


def test_neighbors_of_a_poison_job__share_two_deaths_with_it_and_never_fail() -> None:
    bomb = neighbor = JobDeaths()
    while not is_poison(bomb):
        is_alone = runs_alone(bomb)
        bomb = count_death(bomb, is_alone=is_alone)
        neighbor = neighbor if is_alone else count_death(neighbor, is_alone=False)

    assert (bomb, neighbor) == (JobDeaths(7, 5), JobDeaths(2, 0))


@pytest.mark.parametrize(
    ("stored", "deaths"),
    [
        ({}, JobDeaths()),
        ({"total": 2, "alone": 1}, JobDeaths(2, 1)),
        ({"total": 2, "alone": 1, "of_a_newer_version": 1}, JobDeaths(2, 1)),
    ],
)
def test_read_deaths(stored: dict[str, int], deaths: JobDeaths) -> None:
    assert read_deaths(stored) == deaths
