"""Benchmarks that run a command of the operator over a dataset, and results that a user uploads."""

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.resources import Resources
from tests.support.service import JSON, Service, pointers, run_mosaico

AGENT = """\
import json, os, sys
question = sys.stdin.read()
answers = {"1+1?": "2", "Italy?": "Milan"}
open(os.path.join(os.path.dirname(__file__), "asked"), "a").write(question + "\\n")
print(json.dumps({"output": answers.get(question, os.environ.get("AGENT_TOKEN", "?")),
                  "costUsd": 0.25, "attributes": {"environment": ",".join(sorted(os.environ))}}))
"""
QUESTIONS = "id,question,answer\nsum,1+1?,2\ncapital,Italy?,Rome\n"


@pytest.fixture
def operator_folder(tmp_path: Path) -> Path:
    """The operator's datasets, agent and allowed commands."""
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    (tmp_path / "agent.py").write_text(AGENT)
    command = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(tmp_path / 'agent.py'))}"
    commands = {"bot": {"command": command, "answerFormat": "json", "environment": ["AGENT_TOKEN"]}}
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    return tmp_path


@pytest.fixture
def service_resources(
    service_resources: Resources, operator_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Resources:
    monkeypatch.setenv("AGENT_TOKEN", "token-of-the-agent")
    monkeypatch.setenv("MOSAICO_SECRET", "secret-of-the-service")
    options = {
        "harness_dir": str(operator_folder),
        "agent_commands": str(operator_folder / "commands.json"),
    }
    return dataclasses.replace(service_resources, options={**service_resources.options, **options})


def create(service: Service, dataset: str = "questions.csv", **harness: Any) -> None:
    service.create_agent()
    service.create_benchmark(
        source="harness",
        datasetRef=dataset,
        harness={"command": "bot", **harness},
        metrics=["ACCURACY", "COST_USD"],
    )


def means(service: Service, run: JSON) -> dict[str, float]:
    metrics = service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    return {metric["metric"]: metric["mean"] for metric in metrics}


def test_agent_run__is_a_run_like_any_other(service: Service, operator_folder: Path) -> None:
    create(service, trials=2)
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 4, "VALID"), run
    assert means(service, run) == {"ACCURACY": 0.5, "COST_USD": 0.25}
    trace = service.get(f"/benchmark-runs/{run['id']}/traces/capital%231")
    assert (trace["input"], trace["output"], trace["expectedOutput"]) == ("Italy?", "Milan", "Rome")
    kinds = [step.get("role") or step["tool"] for step in trace["transcript"]["steps"]]
    assert kinds == ["user", "command", "assistant"]
    assert len((operator_folder / "asked").read_text().splitlines()) == 4


def test_agent_run__command_gets_named_variables_only_and_its_secret_is_masked(
    service: Service, operator_folder: Path
) -> None:
    (operator_folder / "questions.csv").write_text("id,question\nx,token?\n")
    create(service)
    run = service.complete_run()
    trace = service.get(f"/benchmark-runs/{run['id']}/traces/x%230")
    assert trace["output"] == "***"
    names = trace["attributes"]["environment"].split(",")
    assert {"AGENT_TOKEN", "PATH", "MOSAICO_ITEM_ID", "MOSAICO_TRIAL"} <= {*names}
    assert "MOSAICO_SECRET" not in names
    assert "DATABASE_URL" not in names
    assert "token-of-the-agent" not in json.dumps(trace)


def test_agent_run__budget_ends_it_and_the_rest_is_an_error(service: Service) -> None:
    # An answer costs 0.25 dollars: the first one passes the limit.
    create(service, runUsd=0.2, concurrency=1)
    run = service.complete_run()
    assert run["validity"] == "INVALID"
    trace = service.get(f"/benchmark-runs/{run['id']}/traces/capital%230")
    assert (trace["outcome"], trace["error"]) == (
        "infra_error",
        "the run reached its limit of cost",
    )


def test_agent_run__items_of_an_upload(service: Service) -> None:
    service.upload(
        [{"traceId": "t", "itemId": "sum", "input": "1+1?", "expectedOutput": "2", "output": "3"}],
        name="earlier",
        run_name="r",
    )
    create(service, "earlier")
    # The agent answers 2; the recorded answer was 3.
    assert means(service, service.complete_run())["ACCURACY"] == 1


def test_agent_run__unnamed_command_is_refused(service: Service, operator_folder: Path) -> None:
    create(service)
    (operator_folder / "commands.json").write_text("{}")
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "COMMANDS_NOT_ALLOWED")
    assert "the command 'bot' is not allowed" in run["errorMessage"]


def test_benchmark__never_contains_a_command_line(service: Service) -> None:
    problem = service.expect_problem(
        422,
        "POST",
        "/benchmarks",
        json={
            "id": "b",
            "source": "harness",
            "datasetRef": "q.csv",
            "harness": {"command": "bot", "environment": ["X"]},
        },
    )
    assert pointers(problem) == ["/harness/environment"]


def test_execute__uploads_and_starts_one_run(
    service: Service, operator_folder: Path, tmp_path: Path
) -> None:
    """The second command finds everything done: nothing is uploaded or started twice."""
    service.create_agent()
    service.create_benchmark(source="local", datasetRef="questions", metrics=["ACCURACY"])
    command = json.loads((operator_folder / "commands.json").read_text())["bot"]["command"]
    words: list[str | Path] = [
        "runs", "execute", "--dataset", operator_folder / "questions.csv", "--command", command,
        "--answer-format", "json", "--save", tmp_path / "results", "--json",
        "--benchmark", "bench-001", "--agent", "agent-001",
    ]  # fmt: skip
    first = run_mosaico(service, *words)
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    address = f"{str(service.client.base_url).rstrip('/')}/runs/{summary['runId']}"
    assert f"run {summary['runId']} started → {address}; next: " in first.stderr
    again = run_mosaico(service, *words, "--resume", summary["file"])
    assert json.loads(again.stdout)["runId"] == summary["runId"]
    assert len((operator_folder / "asked").read_text().splitlines()) == 2
    service.work()
    run = service.get(f"/benchmark-runs/{summary['runId']}")
    assert (run["status"], means(service, run)) == ("COMPLETED", {"ACCURACY": 0.5})
    assert len(service.list_items("/local-datasets")) == 1


def test_execute__items_of_an_upload(
    service: Service, operator_folder: Path, tmp_path: Path
) -> None:
    # More than a page of 200 items; half of them have two traces.
    lines = [
        {
            "traceId": f"t{n}",
            "itemId": f"i{n % 300}",
            "input": f"q{n % 300}",
            "tags": ["category:x"],
        }
        for n in range(450)
    ]
    service.upload(lines, name="earlier", run_name="r")
    result = run_mosaico(
        service, "runs", "execute", "--dataset", "earlier", "--command", "true",
        "--save", tmp_path, "--concurrency", "8", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["items"] == 300
    unknown = run_mosaico(service, "runs", "execute", "--dataset", "none", "--command", "true")
    assert "no upload of that name" in unknown.stderr
