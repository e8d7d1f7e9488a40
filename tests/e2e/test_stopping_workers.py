"""SIGTERM returns jobs to the queue, a cancelled run stops, a frozen worker writes nothing."""

import signal

from tests.support.deployment import TRACES, Deployment
from tests.support.processes import children_of, lives, until


def test_stopping_worker__returns_its_jobs_to_the_queue(deployment: Deployment) -> None:
    deployment.upload("gate:page")
    deployment.upload("night", tags=["gate:metric"])
    worker = deployment.programs.worker()
    collected, scored = deployment.start("gate:page"), deployment.start("night")
    gates = [deployment.programs.gate("page"), deployment.programs.gate("metric")]
    until(lambda: all(gate.was_reached() for gate in gates))
    children = children_of(worker.pid)

    worker.send(signal.SIGTERM)
    gates[0].open()  # collecting goes on and sees that it must stop; the metric never answers

    assert worker.ended() == 0, worker.log
    until(lambda: not any(map(lives, children)), what="its children end, too")
    burnt = "SELECT max(attempts) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    assert deployment.rows.value(burnt) == 0

    gates[1].open()
    deployment.programs.worker()
    deployment.completed_run(scored)
    deployment.completed_run(collected)
    assert deployment.rows.stored(scored) == deployment.rows.stored(collected)


def test_cancel_run__while_it_collects_stores_no_further_row(
    deployment: Deployment,
) -> None:
    deployment.upload("gate:page")
    deployment.programs.worker()
    run_id = deployment.start("gate:page")
    until(deployment.programs.gate("page").was_reached)
    rows = "SELECT count(*) FROM collected_traces"
    assert deployment.rows.value(rows) == 500

    cancelled = deployment.service.post(f"/benchmark-runs/{run_id}/cancel")
    deployment.programs.gate("page").open()
    until(lambda: deployment.is_job_done("runs.collect", run_id))

    assert cancelled["status"] == "CANCELLED"
    assert deployment.rows.value(rows) == 500
    assert deployment.rows.status(run_id) == "CANCELLED"


def test_frozen_worker__writes_nothing_and_finishes_no_job(
    deployment: Deployment,
) -> None:
    deployment.upload("gate:page")
    frozen = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    run_id = deployment.start("gate:page")
    gate = deployment.programs.gate("page")
    until(gate.was_reached)
    frozen.send(signal.SIGSTOP)
    deployment.rows.age_heartbeats()
    other = deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    taken_over = "SELECT fencing_token >= 2 FROM benchmark_runs WHERE id = %s"
    until(lambda: bool(deployment.rows.value(taken_over, run_id)), what=other.log)

    # The second is frozen before the same page, so that only the first can go on; it has lost.
    other.send(signal.SIGSTOP)
    gate.open()
    frozen.send(signal.SIGCONT)
    frozen.said("belongs to another worker now")

    assert deployment.rows.value("SELECT count(*) FROM collected_traces") == 500
    held_jobs = "SELECT status::text FROM procrastinate_jobs WHERE task_name = 'runs.collect'"
    assert deployment.rows.value(held_jobs) in ("doing", "todo")
    other.kill()
    deployment.rows.age_heartbeats()
    deployment.completed_run(run_id)
    assert len(deployment.rows.stored(run_id).results) == TRACES
