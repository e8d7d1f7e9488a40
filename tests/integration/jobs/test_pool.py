"""Child processes that hang, die, or outlive whom they worked for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from app.jobs.pool import CallLost, CallTimeout, ChildExited, OutOfMemory, PoolClosed, ProcessPool
from tests.support.pool_calls import add, die, fill, nothing, quit_process, refuse, sleep
from tests.support.processes import LIVENESS_S, ROOT, lives, until

GENEROUS_S = 60.0

# A call that never lets another thread of its process run, in a process that is then killed.
BUSY_OWNER = """
from app.jobs import pool
from tests.support.pool_calls import nothing, spin
pool.ORPHAN_GRACE_S = -57.0  # three seconds after the call began, long before the owner gives up
if __name__ == "__main__":
    pool.ProcessPool(1, warm_up=nothing).run(spin, timeout_s=60.0)
"""


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(1, warm_up=nothing)
    yield pool
    pool.close()


def test_a_call_that_hangs_or_kills_its_process_costs_itself_only(pool: ProcessPool) -> None:
    assert pool.run(add, 1, 2, timeout_s=GENEROUS_S) == 3
    with pytest.raises(CallTimeout, match=r"0\.2 s"):
        pool.run(sleep, GENEROUS_S, timeout_s=0.2)
    with pytest.raises(ChildExited):
        pool.run(die, timeout_s=GENEROUS_S)
    assert pool.run(add, 3, 4, timeout_s=GENEROUS_S) == 7


def test_a_call_that_takes_more_memory_than_it_may_costs_itself_only() -> None:
    pool = ProcessPool(1, warm_up=nothing, memory_bytes=256 * 1024**2)
    before = pool.pids()
    assert pool.run(fill, 1024**2, timeout_s=GENEROUS_S) == 1024**2
    with pytest.raises(OutOfMemory):
        pool.run(fill, 1024**3, timeout_s=GENEROUS_S)
    assert pool.pids() != before  # what filled the first child is gone with it
    assert pool.run(add, 3, 4, timeout_s=GENEROUS_S) == 7
    pool.close()


def test_a_call_that_wants_to_end_its_process_does_not_end_the_caller(pool: ProcessPool) -> None:
    with pytest.raises(ChildExited):
        pool.run(quit_process, timeout_s=GENEROUS_S)
    assert pool.run(add, 3, 4, timeout_s=GENEROUS_S) == 7


def test_what_the_function_raises_reaches_the_caller_and_the_child_stays(
    pool: ProcessPool,
) -> None:
    before = pool.pids()

    with pytest.raises(RuntimeError, match="not today"):
        pool.run(refuse, timeout_s=GENEROUS_S)

    assert pool.pids() == before


def test_a_child_is_replaced_after_its_number_of_calls() -> None:
    pool = ProcessPool(1, warm_up=nothing, calls_per_child=2)
    first = pool.pids()
    pool.run(add, 1, 1, timeout_s=GENEROUS_S)
    assert pool.pids() == first
    pool.run(add, 1, 1, timeout_s=GENEROUS_S)
    assert pool.pids() != first
    pool.close()


def test_closing_ends_calls_that_are_under_way_and_those_that_wait(pool: ProcessPool) -> None:
    lost: list[CallLost] = []
    pool.run(add, 1, 1, timeout_s=GENEROUS_S)

    def call() -> None:
        try:
            pool.run(sleep, GENEROUS_S, timeout_s=GENEROUS_S)
        except CallLost as error:
            lost.append(error)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    until(pool._free.empty)
    pool.close()
    for caller in callers:
        caller.join(LIVENESS_S)

    assert len(lost) == 3
    with pytest.raises(PoolClosed):
        pool.run(add, 1, 1, timeout_s=GENEROUS_S)


def test_a_child_that_is_stuck_ends_although_its_parent_was_killed() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", BUSY_OWNER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        child = int(owner.stdout.readline())
    owner.kill()
    owner.wait(LIVENESS_S)

    try:
        until(lambda: not lives(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
