"""A job that ends its workers fails with POISON; from its second death on it runs alone."""

import threading
from typing import Any
from unittest.mock import ANY

import pytest

from mosaico.core.resources import Resources
from mosaico.jobs import job_runner
from mosaico.jobs.deaths import ALONE_AFTER, POISON_AFTER, JobDeaths
from mosaico.jobs.handlers import JobContext, JobHandlers
from mosaico.jobs.job_manager import FencedJobManager
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool
from tests.support.fleet import Fleet
from tests.support.processes import LIVENESS_S, until
from tests.support.running_worker import running_worker
from tests.support.toy_jobs import BuildToy, ReportToy

STARTS = """
    SELECT count(*) FROM procrastinate_events AS event
    JOIN procrastinate_jobs AS job ON job.id = event.job_id
    WHERE event.type = 'started' AND job.args ->> 'toy' = %s
"""


def test_poison_job__fails_after_five_deaths_alone(fleet: Fleet) -> None:
    fleet.enqueue("bomb")

    for _ in range(POISON_AFTER):
        assert fleet.status("bomb") == "todo"
        fleet.run_and_die()

    assert fleet.status("bomb") == "failed"
    query = "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    assert fleet.rows.value(query) == {"toy": "bomb", "code": "POISON", "message": ANY}


def test_poison_job__costs_its_neighbors_only_the_shared_deaths(fleet: Fleet) -> None:
    fleet.enqueue("boat", "bomb", "doll")
    for _ in range(ALONE_AFTER):
        assert fleet.run_and_die() == ["boat", "bomb", "doll"]
    # Its worker is the only one that dies from now on: the others run alone, too, and end.
    fleet.rows.execute(
        "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 hour'"
        " WHERE args ->> 'toy' <> 'bomb'"
    )
    for _ in range(POISON_AFTER):
        assert fleet.status("bomb") == "todo"
        assert fleet.run_and_die() == ["bomb"]

    assert fleet.status("bomb") == "failed"
    for harmless in ("boat", "doll"):
        assert fleet.status(harmless) == "todo"
        assert fleet.deaths(harmless) == JobDeaths(ALONE_AFTER, 0)


def test_job_with_two_deaths__is_the_next_one_of_the_queue(fleet: Fleet) -> None:
    """A busy worker gets no other job, so it is alone as soon as those that it holds have ended."""
    fleet.enqueue("boat", "bomb", deaths={"bomb": JobDeaths(ALONE_AFTER - 1, 0)})
    fleet.run_and_die()

    assert fleet.fetch(fleet.register(), 1) == ["bomb"]


def test_job_with_two_deaths__runs_alone_in_its_worker_until_it_makes_progress(
    fleet: Fleet, service_resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_record = threading.Event()
    started = {toy: threading.Event() for toy in ("boat", "bomb", "doll")}
    may_end = {toy: threading.Event() for toy in started}
    running: set[str] = set()
    beside_bomb: set[str] = set()
    handlers = JobHandlers()

    @handlers.register(BuildToy, on_failure=ReportToy)
    def build(job: JobContext, build: BuildToy) -> None:
        running.add(build.toy)
        started[build.toy].set()
        if build.toy == "bomb":
            beside_bomb.update(running)
            assert may_record.wait(LIVENESS_S)
            beside_bomb.update(running)
            with job.resources.db.begin() as session:
                job.record_progress(session)
        assert may_end[build.toy].wait(LIVENESS_S)
        running.remove(build.toy)

    fetches = count_fetches(monkeypatch)
    # More slots than jobs: only the rule keeps a job from its start.
    worker = Worker(
        service_resources, handlers, ProcessPool(0, warm_up=lambda: None), concurrency=4
    )
    fleet.enqueue("boat")
    with running_worker(worker, may_record, *may_end.values()):
        assert started["boat"].wait(LIVENESS_S)
        fleet.enqueue("bomb", "doll", deaths={"bomb": JobDeaths(ALONE_AFTER, 0)})
        # Fetched, and handed back because the worker is not idle.
        until(lambda: int(fleet.rows.value(STARTS, "bomb")) > 1)
        assert running == {"boat"}

        may_end["boat"].set()
        assert started["bomb"].wait(LIVENESS_S)
        attempts = len(fetches)
        until(lambda: len(fetches) > attempts + 2)
        may_record.set()
        assert started["doll"].wait(LIVENESS_S)
        # Beside the one that has made progress, and has no deaths any more.
        assert running == {"bomb", "doll"}
        assert fleet.deaths("bomb") == JobDeaths()

    assert beside_bomb == {"bomb"}
    # That it was handed back is no attempt.
    assert fleet.rows.all("SELECT DISTINCT attempts FROM procrastinate_jobs") == [(1,)]


def count_fetches(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Let workers look for jobs often; the list grows with each time."""
    fetches: list[None] = []
    fetch_job = FencedJobManager.fetch_job

    async def fetch(manager: FencedJobManager, **arguments: Any) -> Any:
        fetches.append(None)
        return await fetch_job(manager, **arguments)

    monkeypatch.setattr(job_runner, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(FencedJobManager, "fetch_job", fetch)
    return fetches
