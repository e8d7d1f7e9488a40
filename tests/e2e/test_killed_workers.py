"""A worker that is killed in the middle of a step loses nothing and doubles nothing."""

import os
import signal
import time
from contextlib import ExitStack

from tests.e2e.conftest import TRACES, House
from tests.support.processes import children_of, lives, until
from tests.support.stored import Rows

STEPS = ("collecting", "scoring", "writing", "finishing")


def seq_of(rows: Rows, run_id: str) -> int:
    return int(rows.value("SELECT seq FROM benchmark_runs WHERE id = %s", run_id))


def start_all_steps(house: House, label: str, blocked: ExitStack) -> dict[str, str]:
    """Four runs, each of which stops in another step; their ids by step."""
    runs = {}
    for step in STEPS:
        name = f"gate:{label}{step}" if step == "collecting" else f"{label}{step}"
        house.upload(name, tags=[f"gate:{label}scoring"] if step == "scoring" else None)
        runs[step] = house.start(name)
        seq = seq_of(house.rows, runs[step])
        if step == "writing":
            blocked.enter_context(
                house.rows.row_in_the_way(
                    "trace_results", run_seq=seq, position=TRACES - 1, values=[0.0]
                )
            )
        if step == "finishing":
            row = {"run_seq": seq, "metric": "ROUGE", "ordinal": 0, "version": "1"}
            blocked.enter_context(
                house.rows.row_in_the_way("run_metrics", **row, expected=0, n=0, missing="{}")
            )
    return runs


def kill_in_each_step(house: House, label: str = "", *, linger_s: float = 0.0) -> dict[str, float]:
    """Kill the workers of four runs, each in another step; the seconds until each had completed."""
    victims = house.programs.workers(4, MOSAICO_WORKER_CONCURRENCY="1")
    with ExitStack() as blocked:
        runs = start_all_steps(house, label, blocked)
        gates = [house.programs.gate(f"{label}{step}") for step in ("collecting", "scoring")]

        def all_are_there() -> bool:
            return (
                all(gate.was_reached() for gate in gates)
                and house.rows.waits_for_a_lock("COPY")
                and house.rows.waits_for_a_lock("INSERT INTO run_metrics")
            )

        until(all_are_there, what="\n".join(victim.log for victim in victims))
        time.sleep(linger_s)  # moves the kill to another moment, nothing waits for it
        children = [child for victim in victims for child in children_of(victim.pid)]
        killed_at = house.rows.now()
        for victim in victims:
            victim.kill()
    assert len(children) >= len(victims)
    until(lambda: not any(map(lives, children)), what="the children of a killed worker end")
    for gate in gates:
        gate.open()
    rescuer = house.programs.worker()
    for run_id in runs.values():
        house.completed(run_id)
    seconds = {step: house.rows.seconds_to_end(runs[step], killed_at) for step in STEPS}
    assert_equal_to_an_undisturbed_run(house, runs, label)
    rescuer.send(signal.SIGTERM)
    assert rescuer.ended() == 0, rescuer.log
    return seconds


def assert_equal_to_an_undisturbed_run(house: House, runs: dict[str, str], label: str) -> None:
    house.upload(f"{label}undisturbed")
    undisturbed = house.start(f"{label}undisturbed")
    house.completed(undisturbed)
    expected = house.rows.stored(undisturbed)
    assert len({row[0] for row in expected.results}) == len(expected.results) == TRACES
    assert (len(expected.metrics), len(expected.kpis)) == (3, 1)
    for step, run_id in runs.items():
        assert house.rows.stored(run_id) == expected, step


def test_a_run_completes_whichever_step_its_worker_is_killed_in(house: House) -> None:
    seconds = kill_in_each_step(house)

    assert max(seconds.values()) < 60, seconds  # the goal is 15 s; a busy machine may take longer


def test_a_job_that_ends_its_workers_fails_its_run_and_the_queue_goes_on(house: House) -> None:
    house.upload("poison", tags=["gate:poison"])
    house.upload("after")
    worker = house.programs.worker()
    run_id = house.start("poison")
    until(house.programs.gate("poison").was_reached)
    # Four workers before this one, so that the test need not wait for their ends.
    house.rows.do(
        "UPDATE procrastinate_jobs SET attempts = 4"
        " WHERE task_name = 'runs.score' AND status = 'doing'"
    )

    worker.kill()
    house.rows.age_heartbeats()
    house.programs.worker()

    run = house.ended(run_id)
    assert (run["status"], run["errorCode"]) == ("FAILED", "POISON")
    assert "look at their logs" in run["errorMessage"]
    house.completed(house.start("after"))


def test_a_killed_process_of_a_pool_costs_no_value(house: House) -> None:
    house.upload("night", tags=["gate:pool"])
    worker = house.programs.worker()
    run_id = house.start("night")
    until(house.programs.gate("pool").was_reached)

    for child in children_of(worker.pid):
        os.kill(child, signal.SIGKILL)
    house.programs.gate("pool").open()

    run = house.completed(run_id)
    assert run["metricsComputed"] == 3 * TRACES
