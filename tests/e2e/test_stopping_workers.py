"""SIGTERM returns jobs to the queue, a cancelled run stops, a frozen worker writes nothing."""

import signal

from tests.support.deployment import COLLECTED_TRACES, TRACES, Deployment
from tests.support.gated_source import PAGE_TRACES
from tests.support.processes import children_of, lives, until


def test_stopping_worker__returns_its_jobs_to_the_queue(deployment: Deployment) -> None:
    deployment.upload("gate:page")
    deployment.upload("run-1", tags=["gate:metric"])
    worker = deployment.programs.worker()
    collected, scored = deployment.start("gate:page"), deployment.start("run-1")
    gates = [deployment.programs.gate("page"), deployment.programs.gate("metric")]
    until(lambda: all(gate.is_reached() for gate in gates))
    children = children_of(worker.pid)

    worker.send(signal.SIGTERM)
    gates[0].open()  # the collection continues and notices the stop; the metric keeps waiting

    assert worker.wait_for_exit() == 0, worker.log
    until(lambda: not any(map(lives, children)), what="the children of the worker exit")
    max_attempts = "SELECT max(attempts) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    # A stop is no failure: it may not use up the attempts of a job.
    assert deployment.database.value(max_attempts) == 0

    gates[1].open()
    deployment.programs.worker()
    deployment.completed_run(scored)
    deployment.completed_run(collected)
    assert deployment.database.stored_run(scored) == deployment.database.stored_run(collected)


def test_cancel_run__while_it_collects_stores_no_further_row(
    deployment: Deployment,
) -> None:
    deployment.upload("gate:page")
    deployment.programs.worker()
    run_id = deployment.start("gate:page")
    until(deployment.programs.gate("page").is_reached)
    rows = COLLECTED_TRACES
    assert deployment.database.value(rows) == PAGE_TRACES

    cancelled = deployment.service.post(f"/benchmark-runs/{run_id}/cancel")
    deployment.programs.gate("page").open()
    until(lambda: deployment.is_job_done("runs.collect", run_id))

    assert cancelled["status"] == "CANCELLED"
    assert deployment.database.value(rows) == PAGE_TRACES
    assert deployment.database.status(run_id) == "CANCELLED"


def test_frozen_worker__writes_nothing_and_finishes_no_job(
    deployment: Deployment,
) -> None:
    deployment.upload("gate:page")
    frozen = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    run_id = deployment.start("gate:page")
    gate = deployment.programs.gate("page")
    until(gate.is_reached)
    frozen.send(signal.SIGSTOP)
    deployment.database.age_heartbeats()
    other = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    token = "SELECT fencing_token FROM benchmark_runs WHERE id = %s"
    # The first worker has the token 1: from 2 on, the run belongs to the other one.
    until(lambda: deployment.database.value(token, run_id) >= 2, what=other.log)

    # The second worker is frozen at the same page: only the first, which lost its lease, continues.
    other.send(signal.SIGSTOP)
    # On a busy machine the first worker would rescue the job of the second one and store its page.
    deployment.database.prolong_heartbeats()
    gate.open()
    frozen.send(signal.SIGCONT)
    frozen.wait_for_output("belongs to another worker now")

    assert deployment.database.value(COLLECTED_TRACES) == PAGE_TRACES
    held_jobs = "SELECT status::text FROM procrastinate_jobs WHERE task_name = 'runs.collect'"
    assert deployment.database.value(held_jobs) in ("doing", "todo")
    other.kill()
    deployment.database.age_heartbeats()
    deployment.completed_run(run_id)
    assert len(deployment.database.stored_run(run_id).results) == TRACES
