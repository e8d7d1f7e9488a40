"""Killing workers in each step of a run, and comparing what comes of it."""

import signal
import time
from contextlib import ExitStack

from tests.support.house import TRACES, House
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
