"""A nightly benchmark without any other tool: a schedule starts the command of an agent, with real processes."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.processes import until
from tests.support.service import JSON

ITEMS = 60
# The agent knows the answers to the questions below the number in its file.
AGENT = """\
import os, sys
folder = os.path.dirname(__file__)
known = int(open(os.path.join(folder, "known")).read())
with open(os.path.join(folder, "calls"), "a") as file:
    file.write(sys.argv[1] + "\\n")
print(f"answer {sys.argv[1]}" if int(sys.argv[1]) < known else "unknown")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the operator: a dataset, an agent and its allowed command."""
    rows = [f"{number},{number},answer {number}" for number in range(ITEMS)]
    (tmp_path / "questions.csv").write_text("\n".join(["id,question,answer", *rows]) + "\n")
    (tmp_path / "agent.py").write_text(AGENT)
    command = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(tmp_path / 'agent.py'))}"
    (tmp_path / "commands.json").write_text(
        json.dumps({"bot": {"command": f"{command} {{input}}"}})
    )
    return tmp_path


def run_night(deployment: Deployment, folder: Path, *, known_count: int) -> JSON:
    """Let the schedule become due, and wait for the run that it starts."""
    (folder / "known").write_text(str(known_count))
    count = "SELECT count(*) FROM benchmark_runs"
    earlier_count = deployment.database.value(count)
    deployment.database.execute("UPDATE schedule_configs SET next_run_at = clock_timestamp()")
    logs = "\n".join(program.log for program in deployment.programs.processes)
    until(lambda: deployment.database.value(count) > earlier_count, what=logs)
    newest = "SELECT id FROM benchmark_runs ORDER BY created_at DESC LIMIT 1"
    return deployment.completed_run(str(deployment.database.value(newest)))


def kpi(deployment: Deployment, run: JSON) -> JSON:
    [kpi] = deployment.service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    return {**kpi}


def test_schedule__runs_the_command_and_compares_the_nights(
    deployment: Deployment, folder: Path
) -> None:
    service = deployment.service
    service.create_benchmark(
        "nightly",
        source="harness",
        datasetRef="questions.csv",
        harness={"command": "bot", "concurrency": 4},
        metrics=["ACCURACY"],
        measures=[{"name": "right answers", "formula": "ACCURACY"}],
    )
    schedule = service.post(
        "/schedule-configs",
        {"name": "nightly", "benchmarkId": "nightly", "agentId": "agent-001",
         "cronExpression": "0 0 3 * * *"},
    )  # fmt: skip
    deployment.programs.worker(
        MOSAICO_HARNESS_DIR=str(folder), MOSAICO_AGENT_COMMANDS=str(folder / "commands.json")
    )
    deployment.programs.start("scheduler")

    first = run_night(deployment, folder, known_count=54)
    assert (first["triggeredBy"], first["scheduleId"]) == ("SCHEDULED", schedule["id"])
    assert (first["tracesTotal"], first["validity"]) == (ITEMS, "VALID")
    assert (kpi(deployment, first)["value"], first["verdict"]["baseline"]) == (0.9, None)

    second = run_night(deployment, folder, known_count=30)
    assert second["verdict"]["baseline"]["runIds"] == [first["id"]]
    second_kpi = kpi(deployment, second)
    assert (second_kpi["value"], second_kpi["verdict"]["verdict"]) == (0.5, "REGRESSED")
    # Every item was asked once a night.
    calls = (folder / "calls").read_text().split()
    assert sorted(calls) == sorted([*map(str, range(ITEMS))] * 2)
