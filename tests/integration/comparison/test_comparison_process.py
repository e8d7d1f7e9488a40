"""The API computes comparisons in a process of their own, which gives its memory back."""

import os
from pathlib import Path

import pytest

from mosaico.comparison.child_process import CHILDREN, LIMITS, ComparisonFailed, run_in_child
from mosaico.jobs import child_process
from mosaico.jobs.child_process import ChildProcesses
from mosaico.jobs.process_pool import ProcessPool
from tests.support.processes import lives, until


@pytest.fixture(autouse=True)
def _processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests share a process."""
    monkeypatch.setattr(child_process, "ProcessPool", ProcessPool)


def test_run_in_child__calls_in_a_row_have_one_process() -> None:
    first, second = (run_in_child(os.getpid) for _ in range(2))
    assert first == second != os.getpid()
    CHILDREN.close()


@pytest.mark.parametrize("kept_s", [0.0, 0.2])
def test_children__end_when_nobody_calls_them(kept_s: float) -> None:
    children = ChildProcesses(1, warm_up=do_nothing, kept_s=kept_s, wait_s=60.0, waiting=1)
    pids = [children.run(LIMITS, os.getpid) for _ in range(2)]
    until(lambda: not any(map(lives, pids)), what="the processes have ended")
    # The next call has a new one.
    assert children.run(LIMITS, os.getpid) not in pids
    children.close()


def do_nothing() -> None:
    """There is nothing to warm up."""


def test_run_in_child__lost_process_is_an_error_of_the_comparison() -> None:
    with pytest.raises(ComparisonFailed, match="could not be computed"):
        run_in_child(os._exit, 1)


def exit_once(marker: Path) -> str:
    """The answer of the second call; the first one ends its process."""
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return "computed"


def test_run_in_child__lost_process_is_replaced_once(tmp_path: Path) -> None:
    assert run_in_child(exit_once, tmp_path / "marker") == "computed"
