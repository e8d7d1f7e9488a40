"""Runs complete after the whole service and its Postgres were killed, at any step and many times."""

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from mosaico.jobs.deaths import POISON_AFTER
from mosaico.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES, Deployment, judge_settings
from tests.support.kills import (
    STEPS,
    UndisturbedRun,
    assert_equal_to,
    complete_undisturbed_run,
    start_stopped_runs,
    stop_points,
)
from tests.support.llm import model_server
from tests.support.processes import until
from tests.support.serve import (
    ServiceProcesses,
    kill_postmaster,
    restart_after_power_loss,
    running_processes,
)

# In one step, without any progress of its run: another one would end the run as poison.
POWER_LOSSES = POISON_AFTER - 1

pytestmark = [pytest.mark.prove, pytest.mark.xdist_group("lost power")]


@pytest.fixture(scope="module")
def service_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    folder = tmp_path_factory.mktemp("power")
    # Each run waits in its step, and both shards of a run may wait at once.
    settings = {
        "MOSAICO_WORKER_CONCURRENCY": str(len(STEPS) + 2),
        "MOSAICO_METRIC_PROCESSES": "2",
    }
    with (
        model_server() as models,
        running_processes(folder, metric_pool, **settings, **judge_settings(models)) as processes,
    ):
        yield processes


@pytest.fixture(scope="module")
def undisturbed_run(service_processes: ServiceProcesses) -> UndisturbedRun:
    return complete_undisturbed_run(service_processes.deployment)


@pytest.mark.parametrize(
    "end",
    [restart_after_power_loss, kill_postmaster],
    ids=["whole-tree-and-postgres", "postmaster"],
)
def test_lost_power__no_step_loses_or_duplicates_a_row(
    service_processes: ServiceProcesses,
    undisturbed_run: UndisturbedRun,
    end: Callable[[ServiceProcesses], None],
) -> None:
    """One run waits in each step; every run must then equal an undisturbed run, bit by bit."""
    deployment = service_processes.deployment
    runs: dict[str, str] = {}
    label = f"{end.__name__}-"
    with stop_points(deployment, label, tuple(STEPS)) as stops:
        start_stopped_runs(deployment, runs, stops, label, service_processes.serve)
        end(service_processes)
        for stop in stops.values():
            # The locks of the database ended with it.
            with contextlib.suppress(psycopg.OperationalError):
                stop.open()
        for run_id in runs.values():
            deployment.completed_run(run_id)
            deployment.wait_for_write_back(run_id)

    assert_equal_to(undisturbed_run, deployment, runs, label)


def test_lost_power__a_healthy_run_completes_after_four_in_one_step(
    service_processes: ServiceProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every process of the service and of Postgres is killed at once, again and again."""
    deployment = service_processes.deployment
    gate = deployment.programs.gate("power-loss")
    deployment.upload("gate:power-loss")
    run_id = deployment.start("gate:power-loss")
    for number in range(POWER_LOSSES):
        until(lambda: is_collecting(deployment, run_id), what=service_processes.serve.log)
        restart_after_power_loss(service_processes)
        with capsys.disabled():
            print(f"  power loss {number + 1} of {POWER_LOSSES}")  # noqa: T201
    gate.open()

    deployment.completed_run(run_id)

    results = deployment.database.stored_run(run_id).results
    assert len({row[0] for row in results}) == len(results) == TRACES


def is_collecting(deployment: Deployment, run_id: str) -> bool:
    query = (
        "SELECT count(*) > 0 FROM procrastinate_jobs"
        " WHERE task_name = 'runs.collect' AND status = 'doing' AND args ->> 'run_id' = %s"
    )
    return bool(deployment.database.value(query, run_id))
