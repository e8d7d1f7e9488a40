"""The clock of one process of the service, of Postgres, or of the whole machine jumps while a run is in
progress: nothing is lost, doubled or purged, no instant of a schedule fires twice, and nobody is alerted.

`make prove` moves clocks with libfaketime, of a process with its children, and of Postgres. The test of
`make test` moves with time-machine what Python reads (`time.time`, `datetime.now`) in one process.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.jobs.process_pool import ProcessPool
from tests.support.clocks import (
    COMMANDS,
    DAY_S,
    HOUR_S,
    KEPT,
    MACHINE,
    MARKED_TRACES,
    PURGED,
    RESCUED,
    SHARED_RUNS,
    MovedClocks,
    create_once,
    moved_clocks,
    prepare_runs,
    require_complete,
)
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import until

# Beyond the seven days of a run, the day of an idempotency key and the hour of the rule below; an
# hour is what a wrong time zone makes.
JUMPS_S = {"60 days": 60 * DAY_S, "1 hour": HOUR_S, "-1 hour": -HOUR_S, "-60 days": -60 * DAY_S}

ALERTS = "SELECT state FROM alert_events"
# A worker does several steps of a run with one job, so the jobs have the names of their last steps.
MOST_STARTS = """
    SELECT max(starts) FROM (
        SELECT count(*) AS starts FROM procrastinate_events AS event
        JOIN procrastinate_jobs AS job ON job.id = event.job_id
        WHERE event.type = 'started' AND job.args ->> 'run_id' = %s GROUP BY job.id
    ) AS jobs
"""
# Instants that were left out, or that fired before their time.
WRONG_FIRES = """
    SELECT schedule_id, due_at, fired_at FROM (
        SELECT *, lag(coalesce(range_end, due_at)) OVER (PARTITION BY schedule_id ORDER BY due_at)
               AS previous
        FROM schedule_fires) AS fire
    WHERE due_at <> previous + interval '5 seconds' OR fired_at < due_at
       OR fired_at > now() + interval '1 minute'
"""


@pytest.fixture
def python_clocks(tmp_path: Path, metric_pool: ProcessPool) -> Iterator[MovedClocks]:
    with moved_clocks(tmp_path, metric_pool) as clocks:
        yield clocks


def watch_missing_runs(deployment: Deployment) -> None:
    rule = {
        "name": "missing",
        "benchmarkId": "bench-001",
        "agentId": "agent-001",
        "metric": "ROUGE",
        "condition": "LESS_THAN",
        # No value is below −1: the rule fires for missing runs only.
        "threshold": -1,
        "maxHoursWithoutRun": 1,
    }
    deployment.service.post("/alert-configs", rule)


def jump(
    clocks: MovedClocks, groups: tuple[tuple[str, ...], ...], jumps_s: tuple[float, ...]
) -> None:
    """Move the clocks of each group of processes at once, one jump after the other, and back."""
    deployment = clocks.deployment
    prepare_runs(deployment)
    # It decides: by its clock runs and fires may really be missing.
    moves_database = any("postgres" in commands for commands in groups)
    watch_missing_runs(deployment)
    deployment.upload("gate:clock")
    run_id = create_once(deployment, "gate:clock")
    gate = deployment.programs.gate("clock")
    until(gate.is_reached, what=clocks.log)
    kept_rows = deployment.database.all(KEPT)
    for commands in groups:
        for offset_s in (*jumps_s, 0):
            clocks.move(commands, offset_s)
            # An idempotency key is valid for a day, by the clock of the database.
            if not (moves_database and offset_s >= DAY_S):
                assert create_once(deployment, "gate:clock") == run_id, (commands, offset_s)
            assert deployment.database.all(KEPT) == kept_rows, (commands, offset_s)
    gate.open()
    require_complete(deployment, run_id)

    # No worker was taken for dead.
    assert RESCUED not in clocks.log
    assert deployment.database.all(SHARED_RUNS) == []
    if not moves_database:
        # Postgres measures its time limits with its clock: a statement may be ended, and repeated.
        assert deployment.database.value(MOST_STARTS, run_id) == 1
        assert deployment.database.all(WRONG_FIRES) == []
        assert deployment.database.all(ALERTS) == []
    # No clock is trusted alone: only where both were wrong, something old may be marked.
    if groups != (MACHINE,):
        assert deployment.database.all(PURGED) == []
        assert deployment.database.value(MARKED_TRACES) == TRACES
    assert deployment.database.all(KEPT) == kept_rows


# Longer than 5 s: a whole service starts, and a schedule fires after each jump.
def test_clock_jump__60_days_and_back_change_nothing(python_clocks: MovedClocks) -> None:
    jump(python_clocks, (("worker",), ("scheduler",)), (60 * DAY_S,))


@pytest.mark.prove
def test_clock_jumps__of_every_process_change_nothing(machine_clocks: MovedClocks) -> None:
    groups = tuple((command,) for command in COMMANDS)
    jump(machine_clocks, groups, tuple(JUMPS_S.values()))


@pytest.mark.prove
@pytest.mark.parametrize("commands", [("postgres",), MACHINE], ids=["postgres", "whole-machine"])
def test_clock_jumps__of_the_database_change_nothing(
    machine_clocks: MovedClocks, commands: tuple[str, ...]
) -> None:
    jump(machine_clocks, (commands,), tuple(JUMPS_S.values()))
