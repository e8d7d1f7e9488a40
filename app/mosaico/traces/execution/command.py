"""Runs a command as the agent: one process per attempt, in a process group of its own."""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, NamedTuple

from mosaico.core.errors import AppError, UnusableInput
from mosaico.harness.mcp.servers.process_reaper import REAPER
from mosaico.harness.transcript import TranscriptToolCall
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.execution.answers import AgentAnswer, AnswerFormat, parse_answer
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.types import TraceOutcome

SHELL_OPERATORS: Final = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})
INPUT: Final = "{input}"
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
ERROR_CHARS: Final = 2_000
FIRST_POLL_S: Final = 0.002
SLOWEST_POLL_S: Final = 0.05


class _ProgramOutput(NamedTuple):
    """The end of a process; `exit_code` is negative for a signal."""

    stdout: str
    stderr: str
    exit_code: int


class _OutputTooLarge(Exception):
    """The program wrote more than the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommand:
    """A command line, split into words. No shell reads it, so a text of the dataset cannot be code.

    `{input}` in a word is replaced by the input of the item. A command without `{input}` reads the
    input from stdin. `environment` is complete, including PATH.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    answer_format: AnswerFormat = AnswerFormat.TEXT
    folder: Path | None = None

    async def __call__(self, attempt: ItemAttempt) -> AgentAnswer:
        """Run one attempt. A cancellation kills the process and what it has started."""
        question = attempt.item.input
        takes_argument = any(INPUT in word for word in self.words)
        words = [word.replace(INPUT, question) for word in self.words]
        environment = {
            **self.environment,
            "MOSAICO_ITEM_ID": attempt.item.id,
            "MOSAICO_TRIAL": str(attempt.trial),
        }
        try:
            ended = await _run(words, "" if takes_argument else question, environment, self.folder)
        except _OutputTooLarge:
            return AgentAnswer(
                error=f"the agent wrote more than {MAX_OUTPUT_BYTES} bytes",
                outcome=TraceOutcome.AGENT_ERROR,
            )
        except (OSError, ValueError) as error:
            return AgentAnswer(error=_start_error(words, error), outcome=TraceOutcome.INFRA_ERROR)
        return _read_answer(words, ended, self.answer_format)


def parse_command(
    text: str,
    environment: Mapping[str, str],
    answer_format: AnswerFormat = AnswerFormat.TEXT,
    folder: Path | None = None,
) -> AgentCommand:
    """The command of a text, split as a POSIX shell splits words, without any other meaning.

    Raises: `UnusableInput` for an unclosed quote, an operator of a shell, and a program that does
            not exist.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UnusableInput(f"{text!r}: {error}", hint="close the quote") from None
    if not words:
        raise UnusableInput("the command is empty", hint="write --command './agent {input}'")
    operator = next((word for word in words if word in SHELL_OPERATORS), None)
    if operator is not None:
        # The program would get it as an argument, and its answer would be wrong without an error.
        raise UnusableInput(
            f"{operator!r} is an operator of a shell, and no shell runs the command",
            hint="put the line into a script that is executable, and name the script",
        )
    program = words[0]
    is_path = os.sep in program
    path = str((folder or Path()) / program) if is_path else program
    if INPUT in program or shutil.which(path, path=environment.get("PATH")) is None:
        raise UnusableInput(
            f"{program!r} is not a program that can be run",
            hint="name an executable file by its path, such as ./my-agent, or a program of PATH",
        )
    return AgentCommand(
        # Absolute, because the process may start in another folder; a link stays what it is.
        words=(str(Path(path).absolute()) if is_path else program, *words[1:]),
        environment=environment,
        answer_format=answer_format,
        folder=folder,
    )


async def _run(
    words: Sequence[str], stdin: str, environment: Mapping[str, str], folder: Path | None
) -> _ProgramOutput:
    # Files and not pipes: a process that the agent left behind cannot keep an attempt open, and a
    # full pipe cannot block the agent.
    with TemporaryFile() as stdin_file, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin_file.write(stdin.encode())
        stdin_file.seek(0)
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - the user's command; starting is short
            words,
            stdin=stdin_file,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        REAPER.watch(process.pid)
        try:
            await _wait_for_exit(process, (stdout, stderr))
        finally:
            # Also after a regular exit: what the agent has started may still run. The process is
            # reaped after it, so that the number of its group cannot belong to another process.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            exit_code = process.wait()
            REAPER.unwatch(process.pid)
        return _ProgramOutput(_read_text(stdout), _read_text(stderr), exit_code)


async def _wait_for_exit(process: "subprocess.Popen[bytes]", outputs: Sequence[IO[bytes]]) -> None:
    poll_s = FIRST_POLL_S
    # WNOWAIT leaves the process as a zombie, which keeps its number.
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while True:
        # It does not block: WNOHANG. Before the sizes: a process that has exited writes no more.
        has_exited = os.waitid(os.P_PID, process.pid, options) is not None  # noqa: ASYNC222
        if sum(os.fstat(file.fileno()).st_size for file in outputs) > MAX_OUTPUT_BYTES:
            raise _OutputTooLarge
        if has_exited:
            return
        await asyncio.sleep(poll_s)
        poll_s = min(poll_s * 1.5, SLOWEST_POLL_S)


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _read_answer(
    words: Sequence[str], ended: _ProgramOutput, answer_format: AnswerFormat
) -> AgentAnswer:
    output = ended.stdout.removesuffix("\n").removesuffix("\r")
    step = TranscriptToolCall(
        tool="command",
        arguments={"words": list(words)},
        stdout=ended.stdout,
        stderr=ended.stderr,
        exit_code=ended.exit_code,
        is_error=ended.exit_code != 0,
    )
    if ended.exit_code != 0:
        return _failed(ended, output, step)
    if answer_format is AnswerFormat.TEXT:
        return AgentAnswer(fields={"output": output}, steps=(step,))
    try:
        return AgentAnswer(fields=parse_answer(output), steps=(step,))
    except AppError as error:
        return AgentAnswer(steps=(step,), error=error.detail, outcome=TraceOutcome.AGENT_ERROR)


def _failed(ended: _ProgramOutput, output: str, step: TranscriptToolCall) -> AgentAnswer:
    """A failure of the agent; of its environment with exit code 75 (EX_TEMPFAIL of sysexits.h)."""
    last_lines = ended.stderr.strip()[-ERROR_CHARS:]
    # The last line only: the numbers of a traceback would be read as statuses of HTTP.
    last_line = last_lines.rpartition("\n")[2]
    is_temporary = ended.exit_code == os.EX_TEMPFAIL
    return AgentAnswer(
        fields={"output": output} if output else {},
        steps=(step,),
        error=f"{_describe_exit(ended.exit_code)}{f': {last_lines}' if last_lines else ''}",
        outcome=TraceOutcome.INFRA_ERROR if is_temporary else outcome_of_error(last_line),
    )


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


def _start_error(words: Sequence[str], error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return (
        f"{words[0]!r} cannot be started: {reason}; an input that is longer than an argument may be,"
        " or that has NUL, is passed by stdin when the command has no {input}"
    )
