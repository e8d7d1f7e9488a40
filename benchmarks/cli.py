"""C1: wall-clock time of `mosaico --version` and `mosaico --help`."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.result_rows import BenchRow, interleave


class Call(NamedTuple):
    """A call and the wall-clock seconds that it may take on an idle machine."""

    option: str
    goal_seconds: float


CALLS = (Call("--version", 0.25), Call("--help", 0.35))


def measure() -> Iterator[BenchRow]:
    """One row per call, compared with an interpreter that does nothing."""
    for call in CALLS:
        timed = interleave(_process("-m", "mosaico.cli", call.option), _process("-c", "pass"))
        yield BenchRow(
            name=f"C1 {call.option}",
            goal=f"≤ {call.goal_seconds} s",
            ratio=timed.ours_seconds / timed.peer_seconds,
            holds=timed.ours_seconds <= call.goal_seconds,
            note=f"{timed.ours_seconds:.2f} s, an empty interpreter {timed.peer_seconds:.2f} s",
        )


def _process(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True
    )
