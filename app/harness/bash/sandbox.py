"""The sandbox that a task works in: a bash without host, network or clock to wait for."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from bashkit import Bash, BashTool

from app.harness.bash.checking import FileKind, FileUnreadable
from app.harness.bash.types import ToolCallResult

USER: Final = "eval"
HOST: Final = "bashkit-eval"
BASHKIT_VERSION: Final = version("bashkit")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What one call of the tool may use; a call that goes beyond fails with exit code 1."""

    timeout_s: float = 30.0
    max_commands: int = 10_000
    max_loop_iterations: int = 10_000
    max_memory: int = 256 * 1024 * 1024


DEFAULT_LIMITS: Final = SandboxLimits()


class Sandbox:
    """One bash for one task: directory, variables and files last from call to call.

    Calls are made one at a time, from any thread; `cancel` may come from another one meanwhile.
    """

    def __init__(self, files: Mapping[str, str], limits: SandboxLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._bash = Bash(
            username=USER,
            hostname=HOST,
            files=dict(files),
            timeout_seconds=limits.timeout_s,
            max_commands=limits.max_commands,
            max_loop_iterations=limits.max_loop_iterations,
            max_memory=limits.max_memory,
            python=False,
            sqlite=False,
            network=None,
        )

    def run(self, commands: str, *, timeout_ms: int | None = None) -> ToolCallResult:
        """Run commands, for at most `timeout_ms` or the limit of the sandbox if that is less."""
        with self._no_longer_than(timeout_ms):
            done = self._bash.execute_sync(commands)
        return ToolCallResult(
            commands=commands, stdout=done.stdout, stderr=done.stderr, exit_code=done.exit_code
        )

    def cancel(self) -> None:
        """End the call that is running; the sandbox runs nothing afterwards."""
        self._bash.cancel()

    def kind(self, path: str) -> FileKind | None:
        """What stands at a path, links followed."""
        try:
            found = self._bash.fs().stat(path)["file_type"]
        except RuntimeError:
            return None
        return FileKind.DIRECTORY if found == FileKind.DIRECTORY else FileKind.FILE

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises FileUnreadable."""
        try:
            return self._bash.fs().read_file(path)
        except RuntimeError as error:
            raise FileUnreadable(str(error)) from None

    @contextmanager
    def _no_longer_than(self, timeout_ms: int | None) -> Iterator[None]:
        if timeout_ms is None or timeout_ms / 1000 >= self._limits.timeout_s:
            yield
            return
        alarm = threading.Timer(timeout_ms / 1000, self._bash.cancel)
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()
            alarm.join()
            self._bash.clear_cancel()  # a cancel lasts until somebody takes it back


def sandbox_prompt() -> str:
    """What a model is told about its tool when the task itself does not."""
    return str(BashTool().system_prompt())
