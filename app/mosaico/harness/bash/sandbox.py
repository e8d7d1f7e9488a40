"""The sandbox of a bash task: bashkit without access to the host or the network."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated, Final

from bashkit import Bash, BashTool, ExecResult
from pydantic import Field

from mosaico.harness.bash.check_registry import FileKind, UnreadableFile
from mosaico.harness.bash.types import ToolCallResult

USER: Final = "eval"
HOST: Final = "bashkit-eval"
BASHKIT_VERSION: Final = version("bashkit")

_Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one tool call; a call that exceeds one fails with exit code 1."""

    timeout_s: Annotated[float, Field(ge=0, le=1e9)] = 30.0
    max_commands: _Count = 10_000
    max_loop_iterations: _Count = 10_000
    max_memory: _Count = 64 * 1024 * 1024


DEFAULT_LIMITS: Final = SandboxLimits()
_JSON_SENTENCE: Final = "Returns JSON with stdout, stderr, exit_code."
_TEXT_SENTENCE: Final = (
    "Returns text: standard output, then standard error after 'STDERR: ', then 'Exit code: N' unless"
    " it is 0."
)
_TIMEOUT_WORDS: Final = (
    "resource limit exceeded: execution timeout"  # of bashkit; replays compare them
)
# The file system of bashkit 0.20.1, measured; Python has no option for it.
FILE_LIMITS: Final = "10,000,000 bytes per file, 100,000,000 bytes in total, 10,000 files"


class Sandbox:
    """One bash for one task: its directory, variables and files persist between calls.

    Only one call may run at a time.
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
            # No interpreter and no network: the tasks measure the use of bash, and the commands
            # come from a model.
            python=False,
            sqlite=False,
            network=None,
        )

    def run(self, commands: str, *, timeout_ms: int | None = None) -> ToolCallResult:
        """Like `execute`, but blocking; do not call it from an event loop."""
        return asyncio.run(self.execute(commands, timeout_ms=timeout_ms))

    async def execute(self, commands: str, *, timeout_ms: int | None = None) -> ToolCallResult:
        """Run commands for at most `timeout_ms`, or the limit of the sandbox when that is less.

        A call that exceeds it ends together with all jobs in the background. Cancellation ends the
        call at once; files keep the state of that moment.
        """
        limit_s = self._limits.timeout_s
        if timeout_ms is not None:
            limit_s = min(1000 * limit_s, max(timeout_ms, 0)) / 1000
        try:
            async with asyncio.timeout(limit_s):
                result = await self._bash.execute(commands)
        except asyncio.CancelledError:
            self._bash.cancel()
            raise
        except TimeoutError:
            await self._cancel_call()
            message = f"{_TIMEOUT_WORDS} ({limit_s:g}s)"
            return ToolCallResult(
                commands=commands, stdout="", stderr=message, exit_code=1, timeout_ms=timeout_ms
            )
        if result.stderr.startswith(_TIMEOUT_WORDS):
            await self._end_jobs()
        return _call_result(commands, result, timeout_ms)

    async def _cancel_call(self) -> None:
        """End the running call: the timeout stops waiting for it, but its loop would continue."""
        self._bash.cancel()
        await self._bash.execute(":")  # returns after the cancelled call has ended
        # The cancellation is sticky in bashkit: without this every later call would fail.
        self._bash.clear_cancel()
        await self._end_jobs()

    async def _end_jobs(self) -> None:
        """End the jobs in the background: each later call would wait for them and time out, too."""
        await self._bash.execute("kill $(jobs -p) 2>/dev/null")

    def lost_files(self, files: Mapping[str, str]) -> list[str]:
        """The paths of task files that the sandbox does not hold: bashkit drops them silently."""
        return [path for path, text in files.items() if not self._holds(path, text)]

    def _holds(self, path: str, text: str) -> bool:
        try:
            return self.read(path) == text.encode("utf-8", "surrogatepass")
        except UnreadableFile:
            return False

    def kind(self, path: str) -> FileKind | None:
        """The kind of a path, links followed; None when nothing exists there."""
        try:
            file_type = self._bash.fs().stat(path)["file_type"]
        except RuntimeError:  # bashkit has no other exception for files
            return None
        return FileKind.DIRECTORY if file_type == FileKind.DIRECTORY else FileKind.FILE

    def read(self, path: str) -> bytes:
        """The content of a file. Raises UnreadableFile."""
        try:
            return self._bash.fs().read_file(path)
        except RuntimeError as error:
            raise UnreadableFile(str(error)) from None


def _call_result(
    commands: str, result: ExecResult, timeout_ms: int | None = None
) -> ToolCallResult:
    return ToolCallResult(
        commands=commands,
        stdout=result.stdout,
        stderr=result.stderr,
        exit_code=result.exit_code,
        timeout_ms=timeout_ms,
    )


@cache
def sandbox_prompt() -> str:
    """The system prompt of tasks that have none of their own."""
    # bashkit describes its own JSON interface; the model reads the text of `agent.tool_text`.
    return str(BashTool().system_prompt()).replace(_JSON_SENTENCE, _TEXT_SENTENCE)
