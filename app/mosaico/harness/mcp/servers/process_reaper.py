"""Kills the server processes of this process when this process itself is killed.

A process that receives SIGKILL cannot clean up. A small helper process therefore reads the running
process groups from a pipe. The pipe closes with this process; the helper then kills the groups that
are left.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

CLOSE_TIMEOUT_S: Final = 10.0
IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ProcessReaper:
    """Tells the helper process which process groups run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Kill this process group when this process ends."""
        with self._lock:
            # Kept here as well, so that a new helper process learns the groups that already run.
            self._groups.add(group)
            self._send(f"+{group}\n")

    def unwatch(self, group: int) -> None:
        """Stop watching a process group that has ended."""
        with self._lock:
            self._groups.discard(group)
            self._send(f"-{group}\n")

    def close(self) -> None:
        """End the helper process; it kills every group that is still watched."""
        with self._lock:
            if self._process is not None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait(CLOSE_TIMEOUT_S)
                self._process = None

    def _send(self, line: str) -> None:
        if self._process is None:
            self._start_process()
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
        except BrokenPipeError:  # the helper was killed: start another one
            self._process.stdin.close()
            self._process.wait(CLOSE_TIMEOUT_S)
            self._start_process()

    def _start_process(self) -> None:
        self._process = _spawn_reaper()
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"+{group}\n" for group in self._groups).encode())


def _spawn_reaper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - it runs this file
        # Isolated and without site packages: it starts fast and cannot import foreign modules.
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        # Unbuffered: a buffered line would be lost when this process is killed.
        bufsize=0,
        start_new_session=True,
    )


REAPER: Final = ProcessReaper()
atexit.register(REAPER.close)


def main() -> None:
    """Read started and ended groups from stdin until it closes, then kill the remaining groups."""
    for number in IGNORED_SIGNALS:
        # These signals may reach the helper as well, but it must outlive this process.
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line.startswith("+") else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
