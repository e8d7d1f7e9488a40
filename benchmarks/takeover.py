"""R1: the time from the death of a worker to the completion of its run, per step of the run.

A new worker is started at the moment of the kill; an undisturbed run takes about a second.
"""

from collections.abc import Iterator

from benchmarks.deployment import deployment_with_workers
from benchmarks.result_rows import BenchRow
from tests.support.kills import STEPS, kill_worker_in, run_undisturbed

GOAL_S = 15.0


def measure() -> Iterator[BenchRow]:
    """Kill a worker in each step of a run, with one run per step."""
    with deployment_with_workers() as deployment:
        steps = tuple(step for step in STEPS if step != "writing back")  # the run is complete then
        seconds = kill_worker_in(deployment, steps, run_undisturbed(deployment))
    for step, taken_s in seconds.items():
        yield BenchRow(
            f"R1 {step}",
            f"≤ {GOAL_S:g} s",
            taken_s / GOAL_S,
            taken_s <= GOAL_S,
            f"complete {taken_s:.1f} s after kill -9, equal to an undisturbed run",
        )
