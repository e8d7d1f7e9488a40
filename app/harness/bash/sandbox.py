"""The sandbox that a task works in: a bash without host, network or clock to wait for."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated, Final

from bashkit import Bash, BashTool, ExecResult
from pydantic import Field

from app.harness.bash.check_registry import FileKind, UnreadableFile
from app.harness.bash.types import ToolCallResult

USER: Final = "eval"
HOST: Final = "bashkit-eval"
BASHKIT_VERSION: Final = version("bashkit")


_Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What one call of the tool may use; a call that goes beyond fails with exit code 1."""

    timeout_s: Annotated[float, Field(ge=0, le=1e9)] = 30.0
    max_commands: _Count = 10_000
    max_loop_iterations: _Count = 10_000
    max_memory: _Count = 64 * 1024 * 1024


DEFAULT_LIMITS: Final = SandboxLimits()


class Sandbox:
    """One bash for one task: directory, variables and files last from call to call.

    Calls are made one at a time.
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
        """Run commands and wait for them, as `execute` does; not inside of an event loop."""
        if timeout_ms is not None:
            return asyncio.run(self.execute(commands, timeout_ms=timeout_ms))
        return _result(commands, self._bash.execute_sync(commands))

    async def execute(self, commands: str, *, timeout_ms: int | None = None) -> ToolCallResult:
        """The same without blocking, for at most `timeout_ms` or the sandbox's own limit if less.

        A call that is cancelled ends at once; its files stay as they are then.
        """
        limit_s = self._limits.timeout_s
        if timeout_ms is not None:
            limit_s = min(1000 * limit_s, max(timeout_ms, 0)) / 1000
        try:
            async with asyncio.timeout(limit_s):
                done = await self._bash.execute(commands)
        except asyncio.CancelledError:
            self._bash.cancel()
            raise
        except TimeoutError:
            await self._stop()
            said = f"resource limit exceeded: execution timeout ({limit_s:g}s)"
            return ToolCallResult(
                commands=commands, stdout="", stderr=said, exit_code=1, timeout_ms=timeout_ms
            )
        return _result(commands, done, timeout_ms)

    async def _stop(self) -> None:
        """End what still runs: a call that was given up sleeps no longer, but may go on looping."""
        self._bash.cancel()
        await self._bash.execute(":")  # comes after the other one
        self._bash.clear_cancel()

    def kind(self, path: str) -> FileKind | None:
        """What stands at a path, links followed."""
        try:
            found = self._bash.fs().stat(path)["file_type"]
        except RuntimeError:
            return None
        return FileKind.DIRECTORY if found == FileKind.DIRECTORY else FileKind.FILE

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises UnreadableFile."""
        try:
            return self._bash.fs().read_file(path)
        except RuntimeError as error:
            raise UnreadableFile(str(error)) from None


def _result(commands: str, done: ExecResult, timeout_ms: int | None = None) -> ToolCallResult:
    return ToolCallResult(
        commands=commands,
        stdout=done.stdout,
        stderr=done.stderr,
        exit_code=done.exit_code,
        timeout_ms=timeout_ms,
    )


@cache
def sandbox_prompt() -> str:
    """What a model is told about its tool when the task itself does not."""
    return str(BashTool().system_prompt())
