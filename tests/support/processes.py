"""Real processes of the service: start, wait, kill and find them."""

import atexit
import base64
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mosaico.serve import SUPERVISED
from tests.support import gates
from tests.support.waiting import LIVENESS_S as LIVENESS_S  # noqa: PLC0414 for those who wait for processes
from tests.support.waiting import until as until  # noqa: PLC0414
from tests.support.warm_processes import WarmProcess, WarmProcesses, write_program

ROOT = Path(__file__).resolve().parents[2]
MASTER_KEY = base64.b64encode(bytes(range(32))).decode()
# The environment of a developer must not change the results of tests.
SERVICE_PREFIXES = ("MOSAICO_", "DATABASE_URL")


@dataclass(slots=True)
class Program:
    """A process of the service and its log."""

    process: "subprocess.Popen[bytes] | WarmProcess"
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL and wait for the exit."""
        self.process.kill()
        self.process.wait(LIVENESS_S)

    def wait_for_exit(self, within_s: float = LIVENESS_S) -> int:
        """Wait for the process to exit by itself; returns its exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the process still runs after {within_s:g} s:\n{self.log}"
            ) from None

    def wait_for_output(self, text: str) -> None:
        """Wait until the log contains the text."""

        def is_printed() -> bool:
            if text not in self.log:
                assert self.is_running, (
                    f"the process exited with {self.process.returncode}:\n{self.log}"
                )
                return False
            return True

        until(is_printed, what=f"{text!r} in\n{self.log}")


@dataclass(slots=True)
class Programs:
    """Starts commands of the service in a separate environment."""

    folder: Path
    environment: Mapping[str, str]
    processes: list[Program] = field(default_factory=list)

    def start(self, *command: str, **environment: str) -> Program:
        """Start a command of the service."""
        log_file = self.folder / f"{'-'.join(command)}-{len(self.processes)}.log"
        variables = {**self.environment, SUPERVISED: "1", **environment}
        with log_file.open("wb") as log:
            process = warm_processes().start(
                command, folder=self.folder, environment=variables, log=log.fileno()
            )
        self.processes.append(Program(process, log_file))
        return self.processes[-1]

    def worker(self, **environment: str) -> Program:
        """A worker that is ready for jobs."""
        [worker] = self.workers(1, **environment)
        return worker

    def workers(self, count: int, **environment: str) -> list[Program]:
        started = [self.start("worker", **environment) for _ in range(count)]
        for program in started:
            program.wait_for_output("worker is ready")
        return started

    def gate(self, name: str) -> gates.Gate:
        return gates.Gate(self.folder / "gates", name)

    def kill_all(self) -> None:
        """Kill the running processes and their children.

        An exited process is skipped: its process ID may belong to another process by now.
        """
        for program in self.processes:
            if program.is_running:
                # The whole session that `start_new_session` made: children
                # of a worker outlive its SIGKILL.
                os.killpg(program.pid, signal.SIGKILL)
                program.process.wait(LIVENESS_S)
            if program.process.stdin is not None:
                program.process.stdin.close()


@cache
def warm_processes() -> WarmProcesses:
    """The process of this test run that forks commands."""
    return WarmProcesses.connect()


@cache
def forked_programs() -> str:
    """A folder with a `mosaico` that is forked, for the PATH of scripts."""
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    atexit.register(shutil.rmtree, folder)
    warm_processes()
    write_program(folder / "mosaico")
    return str(folder)


def start_command(
    words: Sequence[str], folder: Path, *, module: str = "mosaico.cli", **environment: str
) -> Program:
    """Start a command of a module in a forked process."""
    handle, name = tempfile.mkstemp(".log", dir=folder)
    with os.fdopen(handle) as log:
        process = warm_processes().start(
            words,
            module=module,
            folder=folder,
            environment={**os.environ, **environment},
            log=log.fileno(),
        )
    process.stdin.close()
    return Program(process, Path(name))


@contextlib.contextmanager
def programs(folder: Path, **environment: str) -> Iterator[Programs]:
    """Commands that load the plugins of `tests.support.gates`; the end of the block kills them."""
    plugins, marks = folder / "plugins", folder / "gates"
    gates.install(plugins)
    marks.mkdir()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(SERVICE_PREFIXES)}
    settings = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "app"), str(ROOT), str(plugins)]),
        gates.FOLDER: str(marks),
        "MOSAICO_DATA_DIR": str(folder / "data"),
        "MOSAICO_METRIC_PROCESSES": "1",
    }
    programs = Programs(folder, {**inherited, **settings, **environment})
    try:
        yield programs
    finally:
        programs.kill_all()


def processes_of(text: str) -> list[int]:
    """The processes whose environment contains a text, including indirectly started processes."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (entry / "environ").read_bytes() and _lives(entry):
                pids.append(int(entry.name))
    return sorted(pids)


def children_of(pid: int) -> list[int]:
    """The living child processes of a process."""
    children = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state not in "ZX":
                children.append(int(entry.name))
    return sorted(children)


def descendants_of(pid: int) -> list[int]:
    """The living children of a process, and theirs."""
    return [pid for child in children_of(pid) for pid in (child, *descendants_of(child))]


def child_named(pid: int, command: str) -> int:
    """The child process that runs this command of the service. Raises: `AssertionError` without one."""
    children = children_named(pid, command)
    # Never 0, which is the process group of the tests where a signal is sent to it.
    assert children, f"the process {pid} has no child {command}"
    return children[0]


def children_named(pid: int, command: str) -> list[int]:
    """The child processes that run this command of the service."""
    children = []
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            # A forked process has the arguments of its parent, and its own name.
            name = Path(f"/proc/{child}/comm").read_bytes().strip()
            if command.encode() in (*words, name):
                children.append(child)
    return children


def lives(pid: int) -> bool:
    return _lives(Path(f"/proc/{pid}"))


def _lives(entry: Path) -> bool:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
