"""A command as the agent: its words, its input, its answer, its failures and its end."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from mosaico.core.errors import UnusableInput
from mosaico.traces.execution import command as command_module
from mosaico.traces.execution.answers import AgentAnswer, AnswerFormat
from mosaico.traces.execution.command import parse_command
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.execution.runner import _make_attempt
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome
from tests.support.processes import lives, until

PYTHON = f"{shlex.quote(sys.executable)} -I -S"
ENVIRONMENT = {"PATH": os.environ["PATH"]}
HOSTILE_INPUT = '\'; touch owned; $(touch owned) `touch owned` "{input}" \\ && rm -rf *'


def write_agent(folder: Path, code: str) -> str:
    """The beginning of a command that runs this code."""
    (folder / "agent.py").write_text(code)
    return f"{PYTHON} {shlex.quote(str(folder / 'agent.py'))}"


def answer(
    command: str, question: str = "What?", answer_format: AnswerFormat = AnswerFormat.TEXT
) -> AgentAnswer:
    agent = parse_command(command, ENVIRONMENT, answer_format)
    return asyncio.run(agent(ItemAttempt(DatasetItem(id="i", input=question), 0)))


def trace(command: str, *, item_s: float = 60.0) -> Trace:
    agent = parse_command(command, ENVIRONMENT)
    attempt = ItemAttempt(DatasetItem(id="i", input="What?"), 0)
    return asyncio.run(_make_attempt(agent, attempt, item_s))


def test_command__input_is_one_argument_that_no_shell_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = write_agent(tmp_path, "import sys; print(sys.argv[1:], end='')")
    monkeypatch.chdir(tmp_path)
    assert answer(f"{agent} --ask={{input}} x", HOSTILE_INPUT).fields == {
        "output": repr([f"--ask={HOSTILE_INPUT}", "x"])
    }
    assert {path.name for path in tmp_path.iterdir()} == {"agent.py"}


def test_command__without_placeholder_reads_input_from_stdin(tmp_path: Path) -> None:
    agent = write_agent(tmp_path, "import sys; print(sys.stdin.read().upper())")
    assert answer(agent, "what?\nsecond line").fields == {"output": "WHAT?\nSECOND LINE"}


def test_command__agent_knows_item_and_trial(tmp_path: Path) -> None:
    agent = write_agent(
        tmp_path, "import os; print(os.environ['MOSAICO_ITEM_ID'], os.environ['MOSAICO_TRIAL'])"
    )
    assert answer(agent).fields == {"output": "i 0"}


@pytest.mark.parametrize(
    ("code", "outcome", "error"),
    [
        ("raise SystemExit(3)", TraceOutcome.AGENT_ERROR, "exit code 3"),
        ("raise KeyError('x')", TraceOutcome.AGENT_ERROR, "KeyError: 'x'"),
        # EX_TEMPFAIL of sysexits.h: the agent says that it is not to blame.
        ("raise SystemExit(75)", TraceOutcome.INFRA_ERROR, "exit code 75"),
        ("raise OSError('429 Too Many Requests')", TraceOutcome.INFRA_ERROR, "429"),
        ("import os; os.kill(os.getpid(), 9)", TraceOutcome.AGENT_ERROR, "ended by SIGKILL"),
    ],
)
def test_command__failure_has_outcome_and_reason(
    tmp_path: Path, code: str, outcome: TraceOutcome, error: str
) -> None:
    failed = answer(write_agent(tmp_path, code))
    assert failed.outcome is outcome
    assert error in (failed.error or "")


def test_command__line_number_of_traceback_is_no_status(tmp_path: Path) -> None:
    # Its traceback has "line 502", which looks like the status of a server.
    agent = write_agent(tmp_path, "\n" * 501 + "raise ValueError('no')")
    assert answer(agent).outcome is TraceOutcome.AGENT_ERROR


def test_command__json_answer_reports_usage(tmp_path: Path) -> None:
    agent = write_agent(
        tmp_path, """print('{"output": "Rome", "costUsd": 0.5, "inputTokens": 7}')"""
    )
    fields = answer(agent, answer_format=AnswerFormat.JSON).fields
    assert fields == {"output": "Rome", "costUsd": 0.5, "inputTokens": 7}


@pytest.mark.parametrize("printed", ["Rome", "[1]", '{"outputs": "Rome"}'])
def test_command__wrong_json_answer_is_failure_of_agent(tmp_path: Path, printed: str) -> None:
    failed = answer(write_agent(tmp_path, f"print({printed!r})"), answer_format=AnswerFormat.JSON)
    assert failed.outcome is TraceOutcome.AGENT_ERROR
    assert failed.error


def test_command__slow_attempt_is_timeout(tmp_path: Path) -> None:
    ended = trace(write_agent(tmp_path, "import time; time.sleep(600)"), item_s=0.05)
    assert (ended.outcome, ended.error) == (TraceOutcome.TIMEOUT, "no answer within 0.05 s")


def test_command__cancellation_kills_the_process_and_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"
    agent = write_agent(
        tmp_path,
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'draft')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        # Renamed, so that the test never reads half of it.
        f"os.rename({str(tmp_path / 'draft')!r}, {str(pid_file)!r})\n"
        "child.wait()\n",
    )

    async def run() -> None:
        command = parse_command(agent, ENVIRONMENT)
        making = asyncio.create_task(
            _make_attempt(command, ItemAttempt(DatasetItem(id="i", input="What?"), 0), 600)
        )
        await asyncio.to_thread(until, pid_file.exists)
        making.cancel()
        await asyncio.wait([making])
        assert making.cancelled()

    asyncio.run(run())
    pids = [int(pid) for pid in pid_file.read_text().split()]
    until(lambda: not any(map(lives, pids)))


def test_command__process_left_behind_does_not_hold_the_attempt(tmp_path: Path) -> None:
    agent = write_agent(
        tmp_path,
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid)\n",
    )
    ended = trace(agent)
    assert ended.outcome is TraceOutcome.SCORED
    until(lambda: not lives(int(ended.output or "")))


def test_command__too_much_output_is_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "MAX_OUTPUT_BYTES", 1000)
    failed = answer(write_agent(tmp_path, "print('x' * 1001)"))
    assert failed.error == "the agent wrote more than 1000 bytes"


def test_command__input_too_long_for_argument_names_stdin(tmp_path: Path) -> None:
    # Linux accepts 128 KiB in one argument, and about 2 MiB in all.
    failed = answer(write_agent(tmp_path, "") + " {input}", "x" * 3_000_000)
    assert failed.outcome is TraceOutcome.INFRA_ERROR
    assert "stdin" in (failed.error or "")


@pytest.mark.parametrize(
    "text",
    ["", "  ", "no-such-program {input}", "./missing", "'x", "{input}", "cat | sort", "cat > f"],
)
def test_command__that_cannot_run_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput):
        parse_command(text, ENVIRONMENT)


def test_trace__shows_question_command_and_answer(tmp_path: Path) -> None:
    ended = trace(write_agent(tmp_path, "import sys; print('Rome'); print('log', file=sys.stderr)"))
    assert ended.transcript is not None
    question, call, reply = ended.transcript.steps
    assert (getattr(question, "text", ""), getattr(reply, "text", "")) == ("What?", "Rome")
    assert (getattr(call, "stderr", ""), getattr(call, "exit_code", None)) == ("log\n", 0)
