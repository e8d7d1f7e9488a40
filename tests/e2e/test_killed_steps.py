"""`mosaico runs execute` killed before and after each of its steps, and resumed: nothing is done twice."""

import json
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import killed_command
from tests.support.processes import start_command
from tests.support.service import Service

AGENT = """\
import os, sys
with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as file:
    file.write(sys.argv[1] + "\\n")
print(sys.argv[1])
"""
RECORD, API = "mosaico.traces.execution.record", "mosaico.core.console.api_client"


@pytest.mark.parametrize(
    ("module", "function", "when"),
    [
        (RECORD, "Journal.add", "after"),
        (RECORD, "write_text", "before"),
        (RECORD, "Journal.discard", "before"),
        (RECORD, "Journal.discard", "after"),
        (API, "ApiClient.upload", "after"),
        (API, "ApiClient.post", "before"),
        (API, "ApiClient.post", "after"),
    ],
)
def test_killed_step__resumed_command_does_each_thing_once(
    service: Service, tmp_path: Path, module: str, function: str, when: str
) -> None:
    service.create_agent()
    service.create_benchmark(source="local", datasetRef="questions", metrics=["ACCURACY"])
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "questions.csv").write_text("id,question,answer\na,1,1\nb,2,2\nc,3,3\n")
    agent = (
        f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(tmp_path / 'agent.py'))} {{input}}"
    )
    command = [
        "runs", "execute", "--dataset", str(tmp_path / "questions.csv"), "--command", agent,
        "--save", str(tmp_path / "results"), "--concurrency", "1", "--json",
        "--benchmark", "bench-001", "--agent", "agent-001",
    ]  # fmt: skip
    variables = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    killed = start_command(
        [module, function, when, *command], tmp_path, module=killed_command.__name__, **variables
    )
    assert killed.wait_for_exit() == killed_command.EXIT_CODE, killed.log
    [name] = {path.name.partition(".jsonl")[0] for path in (tmp_path / "results").iterdir()}
    result_file = f"{tmp_path}/results/{name}.jsonl"
    resumed = start_command([*command, "--resume", result_file], tmp_path, **variables)
    assert resumed.wait_for_exit() == 0, resumed.log
    assert Counter((tmp_path / "calls").read_text().split()) == Counter("123")
    [run] = service.list_items("/benchmark-runs")
    assert run["id"] == json.loads(resumed.log.splitlines()[-1])["runId"]
    [upload] = service.list_items("/local-datasets")
    assert upload["traceCount"] == 3
