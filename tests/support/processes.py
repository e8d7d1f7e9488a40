"""Real processes of the service, and what they leave in the database."""

import base64
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.serve import SUPERVISED
from tests.support import gates

ROOT = Path(__file__).resolve().parents[2]
LIVENESS_S = 300.0  # of a machine that others load, too
MASTER_KEY = base64.b64encode(bytes(range(32))).decode()
# What the environment of a developer may set must not change what tests see.
OURS = ("MOSAICO_", "DATABASE_URL")


def until(condition: Callable[[], bool], *, within_s: float = LIVENESS_S, what: str = "") -> float:
    """Wait for something that must come true; returns after how many seconds it did."""
    started = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - started
        assert waited_s < within_s, f"it never came true: {what}"
        # A look costs a session of the database or a walk through all processes.
        time.sleep(min(max(0.02, waited_s / 20), 0.5))
    return time.monotonic() - started


@dataclass(slots=True)
class Program:
    """A command of the service that runs, and what it says."""

    process: "subprocess.Popen[bytes]"
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(LIVENESS_S)

    def ended(self, within_s: float = LIVENESS_S) -> int:
        """Its exit code once it has ended by itself."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it still runs after {within_s:g} s:\n{self.log}") from None

    def said(self, text: str) -> None:
        """Wait until it has said that."""

        def has_said() -> bool:
            if text not in self.log:
                assert self.runs, f"it ended with {self.process.returncode}:\n{self.log}"
                return False
            return True

        until(has_said, what=f"{text!r} in\n{self.log}")


@dataclass(slots=True)
class Programs:
    """Starts commands of the service in an environment of their own."""

    folder: Path
    environment: Mapping[str, str]
    started: list[Program] = field(default_factory=list)

    def start(self, *command: str, **environment: str) -> Program:
        log_file = self.folder / f"{'-'.join(command)}-{len(self.started)}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", *command],
                cwd=self.folder,
                env={**self.environment, **environment, SUPERVISED: "1"},
                stdin=subprocess.PIPE,  # when these tests are killed, it closes and they end
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(Program(process, log_file))
        return self.started[-1]

    def worker(self, **environment: str) -> Program:
        """A worker that is ready for jobs."""
        [worker] = self.workers(1, **environment)
        return worker

    def workers(self, count: int, **environment: str) -> list[Program]:
        started = [self.start("worker", **environment) for _ in range(count)]
        for program in started:
            program.said("worker is ready")
        return started

    def gate(self, name: str) -> gates.Gate:
        return gates.Gate(self.folder / "gates", name)

    def end(self) -> None:
        """Kill what still runs, with all that it started.

        The number of one that ended may belong to a stranger by now.
        """
        for program in self.started:
            if program.runs:
                os.killpg(program.pid, signal.SIGKILL)
                program.process.wait(LIVENESS_S)
            if program.process.stdin is not None:
                program.process.stdin.close()


@contextlib.contextmanager
def programs(folder: Path, **environment: str) -> Iterator[Programs]:
    """Commands that know the plugins of `tests.support.gates`; all have ended afterwards."""
    plugins, marks = folder / "plugins", folder / "gates"
    gates.install(plugins)
    marks.mkdir()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    settings = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(plugins)]),
        gates.FOLDER: str(marks),
        "MOSAICO_DATA_DIR": str(folder / "data"),
        "MOSAICO_METRIC_PROCESSES": "1",
    }
    programs = Programs(folder, {**inherited, **settings, **environment})
    try:
        yield programs
    finally:
        programs.end()


def processes_of(text: str) -> list[int]:
    """The processes whose environment holds a text, so also what others started for us."""
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


def child_named(pid: int, command: str) -> int:
    """The child of a process that runs this command of ours; 0 when there is none."""
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if command.encode() in words:
                return child
    return 0


def lives(pid: int) -> bool:
    return _lives(Path(f"/proc/{pid}"))


def _lives(entry: Path) -> bool:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
