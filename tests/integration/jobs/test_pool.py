"""Process pool: children that hang, exit, exceed their memory or lose their parent."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mosaico.jobs.lost_calls import CallLost, CallTimeout, ChildExited, OutOfMemory, PoolClosed
from mosaico.jobs.process_pool import ProcessPool
from tests.support.pool_calls import add, die, fill, nothing, refuse, sleep
from tests.support.processes import LIVENESS_S, ROOT, lives, until

# A call that keeps the interpreter lock, in a child whose parent is then killed.
BUSY_PARENT = """
from mosaico.jobs import process_pool
from tests.support.pool_calls import nothing, spin
process_pool.ORPHAN_GRACE_S = -57.0  # 3 s after the start of the call, long before the parent's time limit
if __name__ == "__main__":
    process_pool.ProcessPool(1, warm_up=nothing).run(spin, timeout_s=60.0)
"""


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(1, warm_up=nothing)
    yield pool
    pool.close()


def test_pool__hanging_or_crashing_call_does_not_affect_later_calls(pool: ProcessPool) -> None:
    assert pool.run(add, 1, 2, timeout_s=LIVENESS_S) == 3
    with pytest.raises(CallTimeout, match=r"0\.2 s"):
        pool.run(sleep, LIVENESS_S, timeout_s=0.2)
    with pytest.raises(ChildExited):
        pool.run(die, timeout_s=LIVENESS_S)
    assert pool.run(add, 3, 4, timeout_s=LIVENESS_S) == 7


def test_pool__first_call_and_later_ones_collect_garbage(pool: ProcessPool) -> None:
    """Only the imports of a child are not searched for it."""
    assert [pool.run(gc.isenabled, timeout_s=LIVENESS_S) for _ in range(2)] == [True, True]


def test_pool__call_beyond_the_memory_limit_does_not_affect_later_calls() -> None:
    pool = ProcessPool(1, warm_up=nothing, memory_bytes=256 * 1024**2)
    before = pool.pids()
    assert pool.run(fill, 1024**2, timeout_s=LIVENESS_S) == 1024**2
    with pytest.raises(OutOfMemory):
        pool.run(fill, 1024**3, timeout_s=LIVENESS_S)
    assert pool.pids() != before  # the first child was replaced
    assert pool.run(add, 3, 4, timeout_s=LIVENESS_S) == 7
    pool.close()


def test_pool__exception_reaches_the_caller_and_keeps_the_child(
    pool: ProcessPool,
) -> None:
    before = pool.pids()

    with pytest.raises(RuntimeError, match="not today"):
        pool.run(refuse, timeout_s=LIVENESS_S)

    assert pool.pids() == before


def test_pool__child_that_keeps_little_memory_stays_after_calls_per_child() -> None:
    pool = ProcessPool(1, warm_up=nothing, calls_per_child=2)
    first = pool.pids()
    # Twice as many calls as allow a replacement, which costs as much as thousands of traces.
    for _ in range(5):
        pool.run(add, 1, 1, timeout_s=LIVENESS_S)
    assert pool.pids() == first
    pool.close()


def test_pool__child_that_keeps_much_memory_is_replaced_after_calls_per_child() -> None:
    # Every child keeps more than zero bytes: the number of calls alone decides.
    pool = ProcessPool(1, warm_up=nothing, calls_per_child=2, kept_bytes=0)
    first = pool.pids()
    pool.run(add, 1, 1, timeout_s=LIVENESS_S)
    assert pool.pids() == first
    pool.run(add, 1, 1, timeout_s=LIVENESS_S)
    assert pool.pids() != first
    pool.close()


def test_pool_close__ends_running_and_waiting_calls(pool: ProcessPool) -> None:
    lost_calls: list[CallLost] = []
    pool.run(add, 1, 1, timeout_s=LIVENESS_S)

    def call() -> None:
        try:
            pool.run(sleep, LIVENESS_S, timeout_s=LIVENESS_S)
        except CallLost as error:
            lost_calls.append(error)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    # The first call has the only child, which the pool tells nobody; the other two wait for it.
    until(pool._free.empty)
    pool.close()
    for caller in callers:
        caller.join(LIVENESS_S)

    # The running call raises ChildExited and the waiting ones PoolClosed; CallLost is their base.
    assert len(lost_calls) == 3
    with pytest.raises(PoolClosed):
        pool.run(add, 1, 1, timeout_s=LIVENESS_S)


def test_pool__stuck_child_exits_after_its_parent_was_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", BUSY_PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "app")},
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(LIVENESS_S)

    try:
        until(lambda: not lives(child))
    # A child that is stuck would outlive the tests.
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
