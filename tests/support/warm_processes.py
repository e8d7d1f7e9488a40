"""Commands of the service in processes that need not import it.

`WarmProcesses` is a process that has imported the service and forks a process for each command: that
takes a twentieth of the processor time of a new interpreter, and the tests start hundreds. How a
command starts from nothing is tested with `mosaico serve` and with the installed wheel.
"""

import atexit
import contextlib
import gc
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = ("app.worker", "app.scheduler", "app.main", "app.metrics.registry")
COMMANDS = frozenset({"api", "scheduler", "worker"})
START_S = 300.0
MAX_MESSAGE = 1 << 17


@dataclass(slots=True)
class WarmProcess:
    """A forked process, with the methods of `subprocess.Popen` that the tests use."""

    pid: int
    stdin: Any
    parent: "WarmProcesses"
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.parent.exit_code(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(["mosaico"], timeout or 0.0)
            self.parent.wait_for_message(0.05)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(slots=True)
class WarmProcesses:
    """The process that forks, and the exit codes that it reported. It ends with this one."""

    connection: socket.socket
    process: "subprocess.Popen[bytes]"
    exit_codes: dict[int, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    @classmethod
    def launch(cls) -> "WarmProcesses":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        launched = cls(ours, process)
        atexit.register(launched.end)
        return launched

    def end(self) -> None:
        self.connection.close()
        self.process.wait(START_S)

    def start(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: int
    ) -> WarmProcess:
        """Start a command of the service as the leader of a session; its input ends with ours."""
        request = {"command": command, "folder": str(folder), "environment": dict(environment)}
        reading, writing = os.pipe()
        with self.lock:
            socket.send_fds(self.connection, [json.dumps(request).encode()], [reading, log])
            os.close(reading)
            pid = self._read_started()
            self.exit_codes.pop(pid, None)
        return WarmProcess(pid, os.fdopen(writing, "wb"), self)

    def exit_code(self, pid: int) -> int | None:
        with self.lock:
            while self._is_readable(0):
                self._read()
            return self.exit_codes.get(pid)

    def wait_for_message(self, timeout_s: float) -> None:
        self._is_readable(timeout_s)

    def _is_readable(self, timeout_s: float) -> bool:
        return bool(select.select([self.connection], [], [], timeout_s)[0])

    def _read_started(self) -> int:
        while True:
            assert self._is_readable(START_S), "the process that forks does not answer"
            if pid := self._read():
                return pid

    def _read(self) -> int:
        """Note the exit code of a process, or return the ID of a new one."""
        message = self.connection.recv(MAX_MESSAGE)
        assert message, "the process that forks has ended"
        report = json.loads(message)
        if "exit_code" in report:
            self.exit_codes[report["pid"]] = report["exit_code"]
            return 0
        return int(report["pid"])


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; returns the request in the new process, and None at the end."""
    read_wakeup, write_wakeup = os.pipe()
    os.set_blocking(write_wakeup, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_wakeup)
    while True:
        readable, _, _ = select.select([connection.fileno(), read_wakeup], [], [])
        if read_wakeup in readable:
            os.read(read_wakeup, 4096)
            _report_exits(connection)
        if connection.fileno() in readable:
            message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 2)
            if not message:
                return None
            ready, set_ready = os.pipe()
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                for unused in (connection.detach(), read_wakeup, write_wakeup, ready, set_ready):
                    os.close(unused)
                return {**json.loads(message), "files": files}
            os.close(set_ready)
            os.read(ready, 1)  # ends when the process leads its session
            for descriptor in (*files, ready):
                os.close(descriptor)
            connection.send(json.dumps({"pid": pid}).encode())


def _report_exits(connection: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            report = {"pid": pid, "exit_code": os.waitstatus_to_exitcode(status)}
            connection.send(json.dumps(report).encode())


def become(request: dict[str, Any]) -> None:
    """Run the command as `python -m app.cli` does."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    standard_input, log = request["files"]
    for source, target in ((standard_input, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(standard_input)
    os.close(log)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [request["folder"], *filter(None, paths)]
    sys.argv = ["mosaico", *request["command"]]
    _fork_first_pool_child()
    runpy.run_module("app.cli", run_name="__main__", alter_sys=True)


def _fork_first_pool_child() -> None:
    """Let a worker fork the child that computes, as long as it has no thread: a new interpreter takes a
    second. Those that replace it are new interpreters.
    """
    get_context = multiprocessing.get_context

    def choose(method: str | None = None) -> BaseContext:
        is_safe = method == "spawn" and threading.active_count() == 1
        return get_context("fork" if is_safe else method)

    multiprocessing.get_context = choose  # type: ignore[assignment]


if __name__ == "__main__":
    for module in IMPORTED:
        import_module(module)
    gc.collect()
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        become(request)
