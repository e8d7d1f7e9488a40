"""The API computes each comparison in a process of its own, which gives its memory back."""

import os
from pathlib import Path

import pytest

from mosaico.comparison import child_process
from mosaico.comparison.child_process import ComparisonFailed, run_in_child
from mosaico.jobs.process_pool import ProcessPool
from tests.support.processes import lives, until


@pytest.fixture(autouse=True)
def _processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests share a process."""
    monkeypatch.setattr(child_process, "ProcessPool", ProcessPool)


def test_run_in_child__each_call_has_a_process_that_ends() -> None:
    pids = [run_in_child(os.getpid) for _ in range(2)]
    assert len({os.getpid(), *pids}) == 3
    until(lambda: not any(map(lives, pids)), what="the processes have ended")


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
