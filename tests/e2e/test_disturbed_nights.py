"""Nights whose processes are killed, frozen or lose their power, from the traces to the alert's message.

The other tests of kills stop a run in each of its steps; these do it at random moments of large runs.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaico.jobs.process_pool import ProcessPool
from tests.support.disturbed_nights import disturbed_nights, moments

ROUNDS = int(os.environ.get("MOSAICO_TEST_NIGHT_ROUNDS", "10"))
TRACES = int(os.environ.get("MOSAICO_TEST_NIGHT_TRACES", "5000"))
POWER_LOSSES = 3
FEW_TRACES = 420
VICTIMS = ("worker", "other worker", "both workers", "API")

pytestmark = pytest.mark.xdist_group("disturbed nights")


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def show_line(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}")  # noqa: T201

    return show_line


def test_disturbed_nights__kill_and_power_loss_change_no_value(
    tmp_path: Path, metric_pool: ProcessPool
) -> None:
    with disturbed_nights(tmp_path, metric_pool, traces=FEW_TRACES, show=str) as nights:
        nights.kill_at(0.3, "both workers")
        nights.lose_power_at(0.5)
        nights.check_again()


@pytest.mark.prove
def test_disturbed_nights__ten_kills_two_freezes_and_power_losses_of_large_runs(
    tmp_path: Path, metric_pool: ProcessPool, show: Callable[[str], None]
) -> None:
    with disturbed_nights(tmp_path, metric_pool, traces=TRACES, show=show) as nights:
        for number, share in enumerate(moments(ROUNDS, seed=20_261_129)):
            nights.kill_at(share, VICTIMS[number % len(VICTIMS)])
        nights.freeze_in_shard()
        nights.freeze_in_finish()
        for share in moments(POWER_LOSSES, seed=20_261_130):
            nights.kill_at(share, "everything and Postgres")
        for share in moments(POWER_LOSSES, seed=20_261_131):
            nights.lose_power_at(share)
        nights.check_again()
