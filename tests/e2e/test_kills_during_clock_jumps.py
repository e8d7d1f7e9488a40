"""A worker, Postgres or the whole service is killed while clocks have jumped, and the purge runs meanwhile:
nothing is lost, doubled or purged.

libfaketime moves the clocks: CI requires it, and elsewhere these tests are skipped without it.
"""

from collections.abc import Callable

import pytest

from tests.support.clocks import (
    DAY_S,
    HOUR_S,
    KEPT,
    MACHINE,
    MARKED_TRACES,
    PURGED,
    SHARED_RUNS,
    MovedClocks,
    create_once,
    prepare_runs,
    require_complete,
)
from tests.support.deployment import TRACES
from tests.support.processes import until
from tests.support.serve import (
    ServiceProcesses,
    kill_postmaster,
    kill_worker,
    restart_after_power_loss,
)

# 60 days are beyond several retentions, such as the week of
# trigger events; an hour is beyond every lease.
JUMPS_S = {"60 days": 60 * DAY_S, "-1 hour": -HOUR_S}
CLOCKS = {"worker": ("worker",), "postgres": ("postgres",), "whole machine": MACHINE}


def jump_and_kill(
    clocks: MovedClocks,
    commands: tuple[str, ...],
    offset_s: float,
    kills: tuple[Callable[[ServiceProcesses], None], ...],
) -> None:
    """While the clocks are moved and a run is in progress, purge and kill; the run completes meanwhile."""
    deployment, name = clocks.deployment, f"gate:{offset_s:+.0f}"
    deployment.upload(name)
    run_id = create_once(deployment, name)
    gate = deployment.programs.gate(name.removeprefix("gate:"))
    until(gate.is_reached, what=clocks.log)
    kept_rows = deployment.database.all(KEPT)

    clocks.move(commands, offset_s)
    clocks.purge(offset_s if "worker" in commands else 0.0)
    assert deployment.database.all(KEPT) == kept_rows
    for kill in kills:
        kill(clocks.service_processes)
        clocks.wait_for_progress()
        assert deployment.database.all(KEPT) == kept_rows, kill
    gate.open()
    require_complete(deployment, run_id)
    clocks.move(commands, 0)

    # An idempotency key is valid for a day, by the clock of the database, which the API reads every minute.
    if "postgres" not in commands:
        assert create_once(deployment, name) == run_id
    assert deployment.database.all(KEPT) == kept_rows
    assert deployment.database.all(SHARED_RUNS) == []
    if commands != MACHINE:
        assert deployment.database.all(PURGED) == []
        assert deployment.database.value(MARKED_TRACES) == TRACES


def test_kills_during_a_jump_of_the_database__lose_and_purge_nothing(
    machine_clocks: MovedClocks,
) -> None:
    prepare_runs(machine_clocks.deployment)
    jump_and_kill(machine_clocks, ("postgres",), 60 * DAY_S, (kill_worker, kill_postmaster))


@pytest.mark.prove
@pytest.mark.parametrize("commands", CLOCKS.values(), ids=CLOCKS.keys())
def test_kills_during_jumps__lose_and_purge_nothing(
    machine_clocks: MovedClocks, commands: tuple[str, ...]
) -> None:
    prepare_runs(machine_clocks.deployment)
    kills = (kill_worker, kill_postmaster, restart_after_power_loss)
    for offset_s in JUMPS_S.values():
        jump_and_kill(machine_clocks, commands, offset_s, kills)


@pytest.mark.prove
def test_restart_with_the_right_clock__run_that_went_on_during_a_jump_completes(
    machine_clocks: MovedClocks,
) -> None:
    """A machine starts with a wrong clock, its worker dies, and it starts again with the right clock."""
    deployment = machine_clocks.deployment
    prepare_runs(deployment)
    deployment.upload("gate:restart")
    run_id = create_once(deployment, "gate:restart")
    gate = deployment.programs.gate("restart")
    until(gate.is_reached, what=machine_clocks.log)
    machine_clocks.move(("postgres",), 60 * DAY_S)
    kill_worker(machine_clocks.service_processes)
    machine_clocks.wait_for_progress()

    machine_clocks.set(("postgres",), 0)
    kill_postmaster(machine_clocks.service_processes)
    gate.open()

    require_complete(deployment, run_id)
