"""SIGTERM hands work back, a cancelled run stops, a frozen worker writes nothing."""

import signal

from tests.support.house import TRACES, House
from tests.support.processes import children_of, lives, until


def test_a_worker_that_is_told_to_stop_hands_its_jobs_back(house: House) -> None:
    house.upload("gate:page")
    house.upload("night", tags=["gate:metric"])
    worker = house.programs.worker()
    collected, scored = house.start("gate:page"), house.start("night")
    gates = [house.programs.gate("page"), house.programs.gate("metric")]
    until(lambda: all(gate.was_reached() for gate in gates))
    children = children_of(worker.pid)

    worker.send(signal.SIGTERM)
    gates[0].open()  # collecting goes on and sees that it must stop; the metric never answers

    assert worker.ended() == 0, worker.log
    until(lambda: not any(map(lives, children)), what="its children end, too")
    burnt = "SELECT max(attempts) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    assert house.rows.value(burnt) == 0

    gates[1].open()
    house.programs.worker()
    house.completed(scored)
    house.completed(collected)
    assert house.rows.stored(scored) == house.rows.stored(collected)


def test_a_run_that_is_cancelled_while_it_collects_gets_no_further_row(house: House) -> None:
    house.upload("gate:page")
    house.programs.worker()
    run_id = house.start("gate:page")
    until(house.programs.gate("page").was_reached)
    rows = "SELECT count(*) FROM collected_traces"
    assert house.rows.value(rows) == 500

    cancelled = house.service.post(f"/benchmark-runs/{run_id}/cancel")
    house.programs.gate("page").open()
    until(lambda: house.job_is_done("runs.collect", run_id))

    assert cancelled["status"] == "CANCELLED"
    assert house.rows.value(rows) == 500
    assert house.rows.status(run_id) == "CANCELLED"


def test_a_worker_that_was_frozen_too_long_writes_nothing_and_ends_no_job(house: House) -> None:
    house.upload("gate:page")
    frozen = house.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    run_id = house.start("gate:page")
    gate = house.programs.gate("page")
    until(gate.was_reached)
    frozen.send(signal.SIGSTOP)
    house.rows.age_heartbeats()
    other = house.programs.worker(MOSAICO_WORKER_CONCURRENCY="1")
    taken_over = "SELECT fencing_token >= 2 FROM benchmark_runs WHERE id = %s"
    until(lambda: bool(house.rows.value(taken_over, run_id)), what=other.log)

    # The second is frozen before the same page, so that only the first can go on; it has lost.
    other.send(signal.SIGSTOP)
    gate.open()
    frozen.send(signal.SIGCONT)
    frozen.said("was taken over")

    assert house.rows.value("SELECT count(*) FROM collected_traces") == 500
    held = "SELECT status::text FROM procrastinate_jobs WHERE task_name = 'runs.collect'"
    assert house.rows.value(held) in ("doing", "todo")
    other.kill()
    house.rows.age_heartbeats()
    house.completed(run_id)
    assert len(house.rows.stored(run_id).results) == TRACES
