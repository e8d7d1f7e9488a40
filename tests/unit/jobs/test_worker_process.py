"""Which deaths of a worker count towards the poison limit of its jobs."""

from dataclasses import replace

import pytest

from app.jobs.worker_process import ProcessOrigin, is_death_counted

DEAD = ProcessOrigin(machine="pelican", boot_id="boot-1", supervisor="tree-1")


@pytest.mark.parametrize(
    ("rescuer", "is_counted"),
    [
        (DEAD, True),  # the worker alone died
        (replace(DEAD, boot_id="boot-2"), False),  # its machine was restarted
        (replace(DEAD, supervisor="tree-2"), False),  # its process tree was restarted
        # Another machine cannot know why the worker died.
        (replace(DEAD, machine="heron", boot_id="boot-9", supervisor="tree-9"), True),
    ],
)
def test_is_death_counted__depends_on_the_origin(rescuer: ProcessOrigin, is_counted: bool) -> None:
    assert is_death_counted(DEAD, rescuer, database_restarted=False) is is_counted
    assert not is_death_counted(DEAD, rescuer, database_restarted=True)


def test_is_death_counted__unknown_origin_counts() -> None:
    assert is_death_counted(None, DEAD, database_restarted=False)
    assert not is_death_counted(None, DEAD, database_restarted=True)
