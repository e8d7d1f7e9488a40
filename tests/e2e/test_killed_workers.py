"""A worker that is killed or frozen in any step loses and duplicates no row."""

import json
import os
import random
import signal
import time

import pytest

from mosaico.jobs.deaths import ALONE_AFTER, POISON_AFTER, JobDeaths
from mosaico.jobs.queue import DEATHS
from tests.support.deployment import TRACES, Deployment
from tests.support.kills import (
    STEPS,
    STEPS_WITHOUT_TRANSACTION,
    freeze_worker_in,
    kill_worker_in,
    run_undisturbed,
)
from tests.support.processes import children_of, until

# A round takes 10 to 20 s.
ROUNDS = int(os.environ.get("MOSAICO_TEST_KILL_ROUNDS", "25"))


def test_killed_worker__its_run_completes(
    deployment: Deployment,
) -> None:
    # Those of `test_pooled_connections.py` are the other ones.
    steps = ("collecting", "writing")
    kill_worker_in(deployment, steps, run_undisturbed(deployment))


@pytest.mark.prove
def test_frozen_worker__writes_nothing_after_its_runs_completed(
    deployment: Deployment,
) -> None:
    freeze_worker_in(deployment, STEPS_WITHOUT_TRANSACTION, run_undisturbed(deployment))


@pytest.mark.prove
def test_killed_worker__no_step_loses_or_duplicates_a_row(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills each step `ROUNDS` times at random moments.

    Every run must equal an undisturbed run, row by row and bit by bit.
    """
    expected = run_undisturbed(deployment)
    chance = random.Random(20_261_121)
    for number in range(ROUNDS):
        linger_s = chance.uniform(0, 1.5)
        takeovers = kill_worker_in(
            deployment, tuple(STEPS), expected, f"{number}-", linger_s=linger_s
        )
        with capsys.disabled():
            step_times = ", ".join(
                f"{step} {takeover.continued_s:.1f}/{takeover.completed_s:.1f} s"
                for step, takeover in takeovers.items()
            )
            print(f"  kill {number + 1} of {ROUNDS}: 0 lost, 0 duplicated; {step_times}")  # noqa: T201


@pytest.mark.prove
def test_frozen_worker__writes_nothing_in_any_step(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same with SIGSTOP, another worker that completes the runs, and SIGCONT."""
    expected = run_undisturbed(deployment)
    chance = random.Random(20_261_122)
    for number in range(ROUNDS):
        linger_s = chance.uniform(0, 1.5)
        freeze_worker_in(deployment, tuple(STEPS), expected, f"{number}-", linger_s=linger_s)
        with capsys.disabled():
            print(f"  freeze {number + 1} of {ROUNDS}: 0 rows written by the frozen worker")  # noqa: T201


def test_poison_job__fails_its_run_and_the_queue_continues(
    deployment: Deployment,
) -> None:
    deployment.upload("poison", tags=["gate:poison"])
    deployment.upload("after")
    # One job at a time: a worker that dies has no other.
    worker = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    run_id = deployment.start("poison")
    until(deployment.programs.gate("poison").is_reached)
    # As if four workers had been killed before: the test need not kill five of them.
    deployment.database.execute(
        "UPDATE procrastinate_jobs SET args = args || %s::jsonb"
        " WHERE task_name = 'score.shard' AND status = 'doing'",
        json.dumps({DEATHS: JobDeaths(POISON_AFTER - 1, POISON_AFTER - 1)._asdict()}),
    )

    worker.kill()
    deployment.database.age_heartbeats()
    deployment.programs.worker()

    run = deployment.ended_run(run_id)
    assert (run["status"], run["errorCode"]) == ("FAILED", "POISON")
    assert "read their logs" in run["errorMessage"]
    deployment.completed_run(deployment.start("after"))


@pytest.mark.prove
def test_poison_job__does_not_fail_the_long_run_beside_it(deployment: Deployment) -> None:
    """Both runs are in one worker that one of them kills, again and again."""
    bomb_gate, long_gate = map(deployment.programs.gate, ("bomb", "long"))
    deployment.upload("kill:bomb")
    deployment.upload("gate:long")
    worker = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="2")
    bomb = deployment.start("kill:bomb")
    until(bomb_gate.is_reached, what=worker.log)
    harmless = deployment.start("gate:long")
    until(long_gate.is_reached, what=worker.log)
    bomb_gate.open()
    worker.wait_for_exit()

    # From now on two workers: the long run may need one for itself, and never ends before its gate is open.
    kills, workers = 1, deployment.programs.workers(2, MOSAICO_WORKER_CONCURRENCY="2")
    while deployment.database.status(bomb) != "FAILED":
        for number, running in enumerate(workers):
            if not running.is_running:
                kills += 1
                assert kills <= ALONE_AFTER + POISON_AFTER
                workers[number] = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="2")
        time.sleep(0.1)
    assert deployment.ended_run(bomb)["errorCode"] == "POISON"
    assert kills > POISON_AFTER

    long_gate.open()
    deployment.completed_run(harmless)


def test_killed_pool_process__costs_no_value(deployment: Deployment) -> None:
    deployment.upload("run-1", tags=["gate:pool"])
    worker = deployment.programs.worker()
    run_id = deployment.start("run-1")
    until(deployment.programs.gate("pool").is_reached)

    for child in children_of(worker.pid):
        os.kill(child, signal.SIGKILL)
    deployment.programs.gate("pool").open()

    run = deployment.completed_run(run_id)
    # ROUGE, ACCURACY, the metric with the gate, and the rate of errors.
    assert run["metricsComputed"] == 4 * TRACES
