"""Calls for the child processes of a pool; the module imports little, so that children start fast."""

import os
import re
import signal
import time


def nothing() -> None:
    """Warm nothing up."""


def add(a: int, b: int) -> int:
    return a + b


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def spin() -> None:
    """Compute for ages inside one instruction of the interpreter."""
    print(os.getpid(), flush=True)  # noqa: T201 - to the test
    # Catastrophic backtracking: about 2^60 steps in C, in which no signal handler of Python runs.
    re.match("(a+)+$", "a" * 60 + "b")


def fill(memory: int) -> int:
    return len(bytearray(memory))


def refuse() -> None:
    raise RuntimeError("not today")
