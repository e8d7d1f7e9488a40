"""Executed agents: the worker or the command line is killed, and no finished attempt is made again."""

import json
import os
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from mosaico.harness.result_file import journal_of
from tests.support.deployment import Deployment
from tests.support.processes import children_of, lives, start_command, until

# The agent writes down each call. It does not answer the questions of `held` while the file exists.
AGENT = """\
import os, sys, time
folder = os.path.dirname(__file__)
question = sys.argv[1]
with open(os.path.join(folder, "calls"), "a") as file:
    file.write(question + "\\n")
while question in HELD and os.path.exists(os.path.join(folder, "held")):
    time.sleep(0.02)
print(question)
"""
ITEMS = [f"q{number}" for number in range(8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The dataset, and an agent that hangs at two items while the file `held` exists."""
    rows = [f"{item},{item},{item}" for item in ITEMS]
    (tmp_path / "questions.csv").write_text("\n".join(["id,question,answer", *rows]) + "\n")
    # They hang in two of three slots; the third answers the other six questions.
    (tmp_path / "agent.py").write_text(AGENT.replace("HELD", '("q3", "q6")'))
    (tmp_path / "held").touch()
    return tmp_path


def agent_command(folder: Path) -> str:
    return f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(folder / 'agent.py'))} {{input}}"


def calls(folder: Path) -> Counter[str]:
    file = folder / "calls"
    return Counter(file.read_text().split() if file.exists() else ())


def count_lines(file: Path) -> int:
    return len(file.read_bytes().splitlines()) if file.exists() else 0


def test_killed_worker__makes_only_the_attempts_in_progress_again(
    deployment: Deployment, folder: Path
) -> None:
    commands = {"bot": {"command": agent_command(folder)}}
    (folder / "commands.json").write_text(json.dumps(commands))
    environment = {
        "MOSAICO_HARNESS_DIR": str(folder),
        "MOSAICO_AGENT_COMMANDS": str(folder / "commands.json"),
    }
    deployment.service.create_benchmark(
        "agents-nightly",
        source="harness",
        datasetRef="questions.csv",
        harness={"command": "bot", "concurrency": 3},
        metrics=["ACCURACY"],
    )
    victim = deployment.programs.worker(**environment)
    run_id = str(deployment.service.start_run(benchmarkId="agents-nightly")["id"])
    stored = "SELECT count(*) FROM collections WHERE trace_count = 6"
    until(lambda: deployment.database.value(stored) == 1, what=victim.log)
    until(lambda: calls(folder).total() == 8, what=victim.log)
    children = children_of(victim.pid)
    victim.kill()
    until(lambda: not any(map(lives, children)), what="the agents of a killed worker are killed")
    (folder / "held").unlink()
    deployment.database.age_heartbeats()
    deployment.programs.worker(**environment)
    run = deployment.completed_run(run_id)
    assert (run["tracesTotal"], run["validity"]) == (8, "VALID")
    assert calls(folder) == Counter(ITEMS) + Counter(["q3", "q6"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_command__resumes_with_the_attempts_that_had_not_ended(
    folder: Path, number: signal.Signals
) -> None:
    words = [
        "runs", "execute", "--dataset", str(folder / "questions.csv"),
        "--command", agent_command(folder), "--save", str(folder), "--concurrency", "3",
    ]  # fmt: skip
    command = start_command(words, folder)
    until(lambda: calls(folder).total() == 8)
    (journal,) = folder.glob("*.partial.jsonl")
    # The head of the journal, and the attempts that have ended.
    until(lambda: count_lines(journal) == 1 + 6)
    children = children_of(command.pid)
    command.send(number)
    # After SIGTERM it ends in order, as after Ctrl-C.
    assert command.wait_for_exit() == (130 if number == signal.SIGTERM else -signal.SIGKILL)
    until(lambda: not any(map(lives, children)), what="the agents are killed")
    (folder / "held").unlink()

    result_file = journal.with_name(journal.name.removesuffix(".partial.jsonl"))
    resumed = start_command([*words, "--resume", str(result_file)], folder)
    assert resumed.wait_for_exit() == 0, resumed.log
    assert calls(folder) == Counter(ITEMS) + Counter(["q3", "q6"])
    traces = [json.loads(line) for line in result_file.read_text().splitlines()]
    assert [trace["output"] for trace in traces] == ITEMS
    assert not os.path.lexists(journal_of(result_file))
