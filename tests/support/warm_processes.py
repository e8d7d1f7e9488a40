"""Commands of the service in processes that need not import it.

One process of a test run has imported the service and forks a process for each command: that takes a
twentieth of the processor time of a new interpreter, and the tests start hundreds. The children of a
forked `mosaico serve` are forked, too. How they start from nothing is tested with the installed
wheel.
"""

import atexit
import contextlib
import gc
import json
import os
import pkgutil
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
from pathlib import Path
from typing import Any

from tests.support.forked_commands import become

ROOT = Path(__file__).resolve().parents[2]
# The process of this test run. The name belongs to no file: nobody has to remove it.
ADDRESS = f"\0warm processes of {os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
IMPORTED = (
    *(
        "mosaico.worker",
        "mosaico.scheduler",
        "mosaico.main",
        "mosaico.metrics.registry",
        "mosaico.gating.cli",
    ),
    *("mosaico.harness.bash.cli", "mosaico.harness.mcp.cli.ot_bench", "mosaico.runs.cli.execute"),
    # With the SDK of MCP: its servers, and what calls them.
    *("mosaico.mcp_server.stdio_transport", "mosaico.mcp_server.http_transport"),
    "mosaico.harness.mcp.agent_loop.run",
    # With numpy, scipy and pandas: what computes in forked processes.
    "mosaico.comparison.child_computation",
    # For new databases, and for formulas.
    *("alembic.command", "mosaico.formula.parser"),
)
# A process that loads its plugins finds these modules imported.
PLUGINS = (
    *("mosaico.metrics.providers", "mosaico.traces.sources", "mosaico.traces.importers"),
    *(
        "mosaico.harness.bash.checks",
        "mosaico.harness.mcp.evaluators",
        "mosaico.notifications.channels",
    ),
)
START_S = 300.0
PROGRAM = """\
#!{interpreter} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({address!r})
request = {{
    "module": "mosaico.cli", "command": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)
}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
connection.recv(4096)
sys.exit(json.loads(connection.recv(4096))["exit_code"])
"""
# One packet holds a whole environment; what does not fit into the buffer of `recv` is lost.
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
    """A connection to the process that forks, and the exit codes that it reported.

    The process serves every test process of a run, and ends with the last of them.
    """

    connection: socket.socket
    exit_codes: dict[int, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    @classmethod
    def connect(cls) -> "WarmProcesses":
        """Connect to the process of this test run; the first test process that asks starts it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with listener, contextlib.suppress(OSError):  # another test process has started it
            listener.bind(ADDRESS)
            listener.listen()
            _start_forking(listener)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        deadline = time.monotonic() + START_S
        while connection.connect_ex(ADDRESS):
            assert time.monotonic() < deadline, "the process that forks does not listen"
            time.sleep(0.01)
        atexit.register(connection.close)
        return cls(connection)

    def start(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        log: int,
        module: str = "mosaico.cli",
    ) -> WarmProcess:
        """Start a command of a module as the leader of a session; its input ends with ours."""
        request = {
            "module": module,
            "command": command,
            "folder": str(folder),
            "environment": dict(environment),
        }
        reading, writing = os.pipe()
        with self.lock:
            files = [reading, log, log]
            socket.send_fds(self.connection, [json.dumps(request).encode()], files)
            os.close(reading)
            pid = self._read_started()
            # The number may have belonged to an earlier process, whose exit code is still noted.
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


def write_program(file: Path) -> None:
    """Write a program `mosaico` that has the process of this test run fork what it runs: scripts start it
    as they start the installed one. `connect` has to be called before.
    """
    file.write_text(PROGRAM.format(interpreter=sys.executable, address=ADDRESS))
    file.chmod(0o755)


def _start_forking(listener: socket.socket) -> None:
    """Start the process that forks; what is waited for here has started it and ends at once."""
    subprocess.run(
        [sys.executable, "-m", __name__, str(listener.fileno())],
        check=True,
        cwd=ROOT,
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


@dataclass(slots=True)
class ForkServer:
    """The process that forks: its listener, the test processes, and the children of each of them."""

    listener: socket.socket
    wakeup: int
    clients: list[socket.socket] = field(default_factory=list)
    parents: dict[int, socket.socket] = field(default_factory=dict)

    def serve(self) -> dict[str, Any] | None:
        """Fork for each request; returns the request in the new process, and None at the end."""
        while True:
            clients = {client.fileno(): client for client in self.clients}
            sources = [self.listener.fileno(), self.wakeup, *clients]
            for readable in select.select(sources, [], [])[0]:
                if readable == self.wakeup:
                    os.read(self.wakeup, 4096)
                    self._report_exits()
                elif readable in clients:
                    if request := self._answer(clients[readable]):
                        return request
                else:
                    self.clients.append(self.listener.accept()[0])
            if not self.clients:
                return None

    def _answer(self, client: socket.socket) -> dict[str, Any] | None:
        try:
            message, files, _, _ = socket.recv_fds(client, MAX_MESSAGE, 3)
        except ConnectionError:
            message, files = b"", []
        if not message:
            self.clients.remove(client)
            client.close()
            return None
        ready, set_ready = os.pipe()
        pid = os.fork()
        if pid == 0:
            # The pipe belongs to the parent: a signal to the child would wake the parent's loop.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            # Detached: the objects would otherwise close, when they are collected, files with the
            # same numbers that the command has opened since.
            inherited = [connection.detach() for connection in (self.listener, *self.clients)]
            for unused in (*inherited, self.wakeup, ready, set_ready):
                os.close(unused)
            return {**json.loads(message), "files": files}
        os.close(set_ready)
        os.read(ready, 1)  # ends when the process leads its session
        for descriptor in (*files, ready):
            os.close(descriptor)
        self.parents[pid] = client
        client.send(json.dumps({"pid": pid}).encode())
        return None

    def _report_exits(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                report = {"pid": pid, "exit_code": os.waitstatus_to_exitcode(status)}
                with contextlib.suppress(OSError):  # the test process has ended
                    self.parents.pop(pid).send(json.dumps(report).encode())


def load_service() -> None:
    """Do once what every command or every API does before its first job or request."""
    for name in IMPORTED:
        import_module(name)
    for package in PLUGINS:
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    api: Any = import_module("mosaico.main")
    api._routes()


def main() -> None:
    # It serves other test processes, too, and ends with the last of them: no child of the one that started it.
    if os.fork():
        return
    load_service()
    gc.collect()
    # The collector of a child would write to every object, and so copy the pages that all share.
    gc.freeze()
    wakeup, write_wakeup = os.pipe()
    os.set_blocking(write_wakeup, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_wakeup)
    request = ForkServer(socket.socket(fileno=int(sys.argv[1])), wakeup).serve()
    if request is not None:
        os.close(write_wakeup)
        become(request)


if __name__ == "__main__":
    main()
