"""A worker that is killed or frozen in any step loses and duplicates no row."""

import json
import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.jobs.deaths import (
    DELAY_AFTER_UNPROVED,
    FIRST_DELAY,
    GIVE_UP_AFTER,
    WorkerDeath,
    write_deaths,
)
from mosaico.jobs.handlers import MAX_ATTEMPTS
from mosaico.jobs.queue import DEATHS
from mosaico.jobs.worker_process import SUPERVISED
from tests.support.deployment import TRACES, Deployment
from tests.support.kills import (
    STEPS,
    STEPS_WITHOUT_TRANSACTION,
    TAKEOVER_S,
    freeze_worker_in,
    kill_worker_in,
    run_undisturbed,
)
from tests.support.processes import Program, children_of, until

# A round takes 10 to 20 s.
ROUNDS = int(os.environ.get("MOSAICO_TEST_KILL_ROUNDS", "25"))
PROVED_DEATH = WorkerDeath(
    instance="", root="1", rescued_at=datetime.now(UTC), is_own=True, is_proved=True
)


EVERY_NIGHT = {
    "name": "nightly",
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "cronExpression": "0 0 2 * * *",
    "concurrencyPolicy": "FORBID",
}
DELAYED = """
    SELECT count(*) > 0 FROM procrastinate_jobs
    WHERE status = 'todo' AND scheduled_at > now() AND args ->> 'run_id' = %s
"""
DELAY = """
    SELECT scheduled_at - now() FROM procrastinate_jobs
    WHERE status = 'todo' AND scheduled_at > now() AND args ->> 'run_id' = %s
"""


def unproved_death(age: timedelta) -> WorkerDeath:
    """The machine of the worker was not seen again."""
    return WorkerDeath(instance="", root="machine", rescued_at=datetime.now(UTC) - age, is_own=True)


def test_killed_worker__its_run_completes(
    deployment: Deployment,
) -> None:
    # Those of `test_pooled_connections.py` are the other ones.
    steps = ("collecting", "writing")
    takeovers = kill_worker_in(deployment, steps, run_undisturbed(deployment))

    assert max(takeover.shared_s for takeover in takeovers.values()) < TAKEOVER_S, takeovers


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
    slowest_s = 0.0
    for number in range(ROUNDS):
        linger_s = chance.uniform(0, 1.5)
        takeovers = kill_worker_in(
            deployment, tuple(STEPS), expected, f"{number}-", linger_s=linger_s
        )
        slowest_s = max(slowest_s, *(takeover.shared_s for takeover in takeovers.values()))
        with capsys.disabled():
            step_times = ", ".join(
                f"{step} {takeover.continued_s:.1f}/{takeover.completed_s:.1f} s"
                for step, takeover in takeovers.items()
            )
            print(f"  kill {number + 1} of {ROUNDS}: 0 lost, 0 duplicated; {step_times}")  # noqa: T201
    assert slowest_s < TAKEOVER_S


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
    worker = deployment.programs.worker()
    run_id = deployment.start("poison")
    until(deployment.programs.gate("poison").is_reached)
    # As if four workers had been killed before: the test need not kill five of them.
    deployment.database.execute(
        "UPDATE procrastinate_jobs SET args = args || %s::jsonb"
        " WHERE task_name = 'score.shard' AND status = 'doing'",
        json.dumps({DEATHS: write_deaths([PROVED_DEATH] * (MAX_ATTEMPTS - 1))}),
    )

    worker.kill()
    deployment.database.age_heartbeats()
    deployment.programs.worker()

    run = deployment.ended_run(run_id)
    assert (run["status"], run["errorCode"]) == ("FAILED", "POISON")
    assert "read their logs" in run["errorMessage"]
    deployment.completed_run(deployment.start("after"))


def store_deaths(deployment: Deployment, run_id: str, deaths: list[WorkerDeath]) -> None:
    """As if workers had died before while they ran the job of this run."""
    query = (
        "UPDATE procrastinate_jobs SET args = args || %s::jsonb"
        " WHERE status = 'doing' AND args ->> 'run_id' = %s"
    )
    deployment.database.execute(query, json.dumps({DEATHS: write_deaths(deaths)}), run_id)


def start_scheduled_run(deployment: Deployment, name: str) -> tuple[str, str]:
    """The IDs of a schedule that allows one run at a time, and of its run, which waits in a metric."""
    deployment.upload(name, tags=[f"gate:{name}"])
    schedule = deployment.service.post("/schedule-configs", EVERY_NIGHT)
    run_id = str(deployment.service.post(trigger_path(schedule["id"]))["runId"])
    until(deployment.programs.gate(name).is_reached)
    return schedule["id"], run_id


def start_task(deployment: Deployment) -> Program:
    """A worker that does one job, on a machine of its own."""
    return deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1", **{SUPERVISED: "machine 51"})


def trigger_path(schedule_id: str) -> str:
    return f"/schedule-configs/{schedule_id}/trigger"


def test_fifty_unproved_deaths__only_delay_a_healthy_run(deployment: Deployment) -> None:
    """One machine per task, and each lost its power: the run completes on the 52nd."""
    task = start_task(deployment)
    _, run_id = start_scheduled_run(deployment, "healthy")
    store_deaths(deployment, run_id, [unproved_death(timedelta())] * DELAY_AFTER_UNPROVED)
    task.kill()
    successor = deployment.programs.worker()

    until(lambda: bool(deployment.database.value(DELAYED, run_id)), what=successor.log)
    wait = deployment.database.value(DELAY, run_id)
    # A busy machine has used up some seconds of the minute.
    assert timedelta(seconds=50) < wait <= FIRST_DELAY
    assert "waits for 0:01:00" in successor.log
    assert deployment.database.status(run_id) == "RUNNING"

    deployment.programs.gate("healthy").open()
    deployment.database.execute(
        "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE status = 'todo'"
    )
    deployment.completed_run(run_id)
    assert len(deployment.database.stored_run(run_id).results) == TRACES


def test_fifty_unproved_deaths_in_twelve_hours__end_the_run_and_free_its_schedule(
    deployment: Deployment,
) -> None:
    """One machine per task, and the job ends each of them."""
    task = start_task(deployment)
    schedule_id, run_id = start_scheduled_run(deployment, "bomb")
    store_deaths(deployment, run_id, [unproved_death(GIVE_UP_AFTER)] * DELAY_AFTER_UNPROVED)
    blocked = deployment.service.send("POST", trigger_path(schedule_id))
    assert blocked.status_code == 409, blocked.text
    task.kill()
    deployment.programs.worker()

    run = deployment.ended_run(run_id)
    assert (run["status"], run["errorCode"]) == ("FAILED", "INTERRUPTED")
    assert "51 workers died" in run["errorMessage"]
    assert "retry the run on another one" in run["errorMessage"]
    deployment.programs.gate("bomb").open()
    next_run = deployment.service.post(trigger_path(schedule_id))["runId"]
    deployment.completed_run(next_run)


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

    kills = 0
    while deployment.database.status(bomb) != "FAILED":
        if not worker.is_running:
            kills += 1
            assert kills <= MAX_ATTEMPTS + 1
            worker = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="2")
        time.sleep(0.1)
    assert deployment.ended_run(bomb)["errorCode"] == "POISON"
    assert kills == MAX_ATTEMPTS

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
    # ROUGE, ACCURACY and the metric with the gate.
    assert run["metricsComputed"] == 3 * TRACES
