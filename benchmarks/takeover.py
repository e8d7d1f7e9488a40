"""R1: the time from the death of a worker until its run goes on and is complete, per step of the run.

A new worker is started at the moment of the kill. Each step has a run and a kill of its own, so that
no run waits for another one.
"""

from collections.abc import Iterator

from benchmarks.deployment import deployment_with_workers
from benchmarks.result_rows import BenchRow
from tests.support.deployment import Deployment
from tests.support.kills import STEPS, UndisturbedRun, kill_worker_in, run_undisturbed

GOAL_S = 10.0


def measure() -> Iterator[BenchRow]:
    """Kill a worker in each step of a run; the run must equal an undisturbed one."""
    with deployment_with_workers() as deployment:
        yield from _kill_in_each_step(deployment, run_undisturbed(deployment))


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
