"""Runs whose processes are killed, frozen or lose their power, from the traces to the alert's message.

The other tests of kills stop a run in each of its steps; these do it at random moments, `make prove` of large runs.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaico.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES as FEW_TRACES
from tests.support.interrupted_runs import interrupted_runs, moments

ROUNDS = int(os.environ.get("MOSAICO_TEST_INTERRUPTED_ROUNDS", "10"))
TRACES = int(os.environ.get("MOSAICO_TEST_INTERRUPTED_TRACES", "5000"))
POWER_LOSSES = 3  # of each kind
VICTIMS = ("worker", "other worker", "both workers", "both workers twice", "API")

pytestmark = pytest.mark.xdist_group("interrupted runs")


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def show_line(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}")  # noqa: T201

    return show_line


def test_interrupted_run__power_loss_changes_no_value(
    tmp_path: Path, metric_pool: ProcessPool
) -> None:
    with interrupted_runs(tmp_path, metric_pool, traces=FEW_TRACES, show=str) as runs:
        runs.lose_power_at(0.5)
        runs.check_again()


@pytest.mark.prove
def test_interrupted_run__of_5000_traces_loses_and_doubles_nothing(
    tmp_path: Path, metric_pool: ProcessPool, show: Callable[[str], None]
) -> None:
    with interrupted_runs(tmp_path, metric_pool, traces=TRACES, show=show) as runs:
        runs.run_undisturbed()  # the processes are warm now: it is shorter, and equal to the first one
        for number, share in enumerate(moments(ROUNDS, seed=20_261_129)):
            runs.kill_at(share, VICTIMS[number % len(VICTIMS)])
        runs.freeze_in_shard()
        runs.freeze_in_finish()
        for share in moments(POWER_LOSSES, seed=20_261_130):
            runs.kill_at(share, "everything and Postgres")
        for share in moments(POWER_LOSSES, seed=20_261_131):
            runs.lose_power_at(share)
        runs.check_again()
