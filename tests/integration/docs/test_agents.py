"""docs/agents.md: the commands print the documented output, and the configurations are valid."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.harness.harness_config import AgentHarnessSettings, parse_harness
from mosaico.traces.execution.answers import REPORTED_KEYS, checked_fields
from mosaico.traces.producers.agent import AllowedCommand
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.processes import until
from tests.support.serve import free_port
from tests.support.service import JSON, Service

PAGE = "docs/agents.md"


@pytest.fixture
def files_of_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page; `python` is the interpreter of the tests."""
    (tmp_path / "questions.csv").write_text(blocks(PAGE, "csv")[0])
    (tmp_path / "agent.py").write_text(blocks(PAGE, "python")[0])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("files_of_page")
def test_commands__answer_as_shown() -> None:
    commands = [example for block in blocks(PAGE, "console") for example in examples(block)]
    assert len(commands) == 2
    for command, output in commands:
        words = shlex.split(command)[1:]
        globbed = [path for word in words for path in sorted(map(str, Path().glob(word))) or [word]]
        result = CliRunner().invoke(cli, globbed)
        assert result.exit_code == 0, result.output
        assert matches(result.stdout, output), f"{command}\n{result.output}"


@pytest.mark.usefixtures("files_of_page")
def test_python__prints_path_and_accuracy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Annotations name what the block imports, so it runs as a module of its own.
    module = ModuleType("experiment")
    exec(compile(blocks(PAGE, "python")[1], PAGE, "exec"), module.__dict__)
    path, accuracy = capsys.readouterr().out.split()
    assert Path(path).is_file()
    assert float(accuracy) == pytest.approx(2 / 3)


def test_configurations__are_valid() -> None:
    answer, commands, benchmark, _ = map(json.loads, blocks(PAGE, "json"))
    assert checked_fields(answer) == answer
    assert AllowedCommand.model_validate(commands["support-bot"]).folder == Path("/opt/support-bot")
    assert isinstance(parse_harness(benchmark["harness"]), AgentHarnessSettings)


MY_AGENT = """
def answer(item):
    return item.input if item.input in {known} else "I do not know."
"""


QUESTIONS = [f"question {number}" for number in range(12)]


@contextmanager
def agent_process(service: Service, folder: Path, secret: str, port: int) -> Iterator[str]:
    """The program of the page; the URL that it listens on."""
    environment = {
        **os.environ,
        "MOSAICO_WEBHOOK_SECRET": secret,
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
        "PORT": str(port),
    }
    command = [sys.executable, "server.py"]
    with subprocess.Popen(command, cwd=folder, env=environment) as program:
        try:
            until(lambda: _listens(port))
            yield f"http://127.0.0.1:{port}/run"
        finally:
            program.kill()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def judge_night(service: Service, name: str, right: int) -> None:
    traces = [
        {
            "traceId": f"{name}-{number}",
            "itemId": question,
            "input": question,
            "expectedOutput": question,
            "output": question if number < right else "no",
        }
        for number, question in enumerate(QUESTIONS)
    ]
    service.upload(traces, name="questions", run_name=name)
    service.start_run(runName=name)
    service.work()


def repetition_of(service: Service) -> JSON:
    [run] = [run for run in service.list_items("/benchmark-runs") if run["confirms"] is not None]
    return run


def has_ended(service: Service) -> bool:
    """Whether the repetition has ended after a look for its run, which is not awaited here."""
    due = "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE task_name = 'triggers.look_for_run'"
    with service.resources.db.begin() as session:
        session.execute(text(due))
    service.work()
    return str(repetition_of(service)["status"]) != "PENDING"


@pytest.mark.parametrize(("right", "known_count", "states"), [(10, 12, []), (2, 2, ["FIRING"])])
def test_repetition__program_of_the_page_makes_the_run_again(
    service: Service, tmp_path: Path, right: int, known_count: int, states: list[str]
) -> None:
    service.create_agent()
    service.create_benchmark(
        datasetRef="questions",
        source="local",
        metrics=["ACCURACY"],
        evaluates=["agent-001"],
        triggers={"datasetUpdated": True},
    )
    secret = service.post("/benchmarks/bench-001/webhook-secrets", {})["secret"]
    rule = {"id": "rule", "name": "wrong", "benchmarkId": "bench-001", "metric": "ACCURACY"}
    service.post("/alert-configs", {**rule, "condition": "REGRESSED"})
    (tmp_path / "my_agent.py").write_text(MY_AGENT.format(known=QUESTIONS[:known_count]))
    (tmp_path / "server.py").write_text(blocks(PAGE, "python")[2])
    rows = "".join(f"{question},{question},{question}\n" for question in QUESTIONS)
    (tmp_path / "questions.csv").write_text(f"id,question,answer\n{rows}")
    with agent_process(service, tmp_path, secret, free_port()) as url:
        service.patch("/agents/agent-001", {"runUrl": url})
        # Four nights are the reference of the evidence over runs.
        for night in range(4):
            judge_night(service, f"night-{night}", len(QUESTIONS))
        judge_night(service, "suspicious", right)
        assert repetition_of(service)["status"] == "PENDING"
        until(lambda: has_ended(service))
    repetition = repetition_of(service)
    # A repetition has twice the trials of its run.
    assert (repetition["status"], repetition["tracesTotal"]) == ("COMPLETED", 2 * len(QUESTIONS))
    assert [alert["state"] for alert in service.list_items("/alerts")] == states
    # The upload of the repetition is no event that starts a run of its own, as those of the nights are.
    events = service.get("/trigger-events", type="dataset-updated")["items"]
    assert len(events) == 5
    # And without a name, the newest night is read.
    newest = service.complete_run()
    assert newest["runName"] == "suspicious"


def test_page__names_every_key_of_an_answer() -> None:
    text = (ROOT / PAGE).read_text()
    assert [key for key in sorted(REPORTED_KEYS) if f"`{key}`" not in text] == []
