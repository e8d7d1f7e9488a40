"""The deaths of worker processes during a job: when the job must run alone, and when it is their cause.

A process holds several jobs, and nobody knows which of them ended it. So a death counts for each of them,
and a job with two deaths runs alone: the following deaths are its own.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from mosaico.core.errors import AppError

ALONE_AFTER = 2
POISON_AFTER = 5


class JobDeaths(NamedTuple):
    """The deaths of processes that held a job, since the last progress of the job.

    `alone` counts those of processes that held no other job.
    """

    total: int = 0
    alone: int = 0


class Poison(AppError):
    """Workers died while they ran a job of the run, again and again; read their logs, for example for a lack
    of memory, then retry the run.
    """

    code = "POISON"


def read_deaths(stored: dict[str, Any]) -> JobDeaths:
    """The deaths that the arguments of a job contain as JSON; fields of a newer version are ignored."""
    return JobDeaths(stored.get("total", 0), stored.get("alone", 0))


def count_death(deaths: JobDeaths, *, is_alone: bool) -> JobDeaths:
    """Add the death of a process; `is_alone`: it held no other job."""
    return JobDeaths(deaths.total + 1, deaths.alone + is_alone)


def runs_alone(deaths: JobDeaths) -> bool:
    """Return whether no other job may be in the process that runs the job."""
    return deaths.total >= ALONE_AFTER


def is_poison(deaths: JobDeaths) -> bool:
    """Return whether the job fails, because it ends its workers."""
    return deaths.alone >= POISON_AFTER


def may_start(*, alone: bool, running: Collection[bool]) -> bool:
    """Return whether a process may start a job; `alone` and `running` tell of that job and of those that it
    holds whether they run alone.
    """
    return not any(running) and not (alone and running)
