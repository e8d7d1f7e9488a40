"""R1: the time from the death of a worker until its run goes on and is complete, per step of the run.

A new worker is started at the moment of the kill. Each step has a run and a kill of its own, so that
no run waits for another one. `takeover-busy` measures the same beside eight endless loops, and counts
the jobs that a live worker loses meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.deployment import deployment_with_workers
from benchmarks.result_rows import BenchRow
from tests.support.busy_loops import busy_loops
from tests.support.deployment import Deployment
from tests.support.kills import STEPS, UndisturbedRun, kill_worker_in, run_undisturbed
from tests.support.processes import until

GOAL_S = 10.0
BUSY_LOOPS = 8


def measure() -> Iterator[BenchRow]:
    """Kill a worker in each step of a run; the run must equal an undisturbed one."""
    with deployment_with_workers() as deployment:
        yield from _kill_in_each_step(deployment, run_undisturbed(deployment))


def measure_busy() -> Iterator[BenchRow]:
    """The same on a busy machine, beside a worker that lives and has a job all the time."""
    with deployment_with_workers() as deployment, busy_loops(BUSY_LOOPS):
        undisturbed = run_undisturbed(deployment)
        with _running_bystander(deployment) as run_id:
            yield from _kill_in_each_step(deployment, undisturbed)
            query = "SELECT max(attempts) FROM procrastinate_jobs WHERE args ->> 'run_id' = %s"
            takeovers = int(deployment.database.value(query, run_id))
        yield BenchRow(
            "R1 live worker",
            "0",
            float(takeovers),
            takeovers == 0,
            f"{takeovers} jobs were taken from a live worker beside {BUSY_LOOPS} endless loops",
        )


@contextmanager
def _running_bystander(deployment: Deployment) -> Iterator[str]:
    """A worker with one job that lasts as long as the block; gives the ID of its run."""
    gate = deployment.programs.gate("bystander")
    deployment.upload("gate:bystander")
    worker = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    run_id = deployment.start("gate:bystander")
    until(gate.is_reached, what=worker.log)
    yield run_id
    gate.open()
    deployment.completed_run(run_id)


def _kill_in_each_step(deployment: Deployment, undisturbed: UndisturbedRun) -> Iterator[BenchRow]:
    for step in STEPS:
        if step == "writing back":  # the run is complete then
            continue
        [takeover] = kill_worker_in(deployment, (step,), undisturbed).values()
        yield BenchRow(
            f"R1 {step}",
            f"≤ {GOAL_S:g} s",
            takeover.continued_s / GOAL_S,
            takeover.continued_s <= GOAL_S,
            f"goes on {takeover.continued_s:.1f} s and is complete {takeover.completed_s:.1f} s"
            " after kill -9, equal to an undisturbed run",
        )
