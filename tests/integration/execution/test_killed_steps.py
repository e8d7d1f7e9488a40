"""`mosaico runs execute` killed before and after each of its steps, and resumed: nothing is done twice."""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.service import Service

# Calls the command line with one function that ends the process at once, as SIGKILL does.
KILLED = """\
import importlib, os, sys
module, path, when, *arguments = sys.argv[1:]
owner = importlib.import_module(module)
*parents, name = path.split(".")
for parent in parents:
    owner = getattr(owner, parent)
original = getattr(owner, name)

def kill(*args, **options):
    if when == "after":
        original(*args, **options)
    os._exit(9)

setattr(owner, name, kill)
sys.argv[1:] = arguments
from app.cli import main
main()
"""
AGENT = """\
import os, sys
with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as file:
    file.write(sys.argv[1] + "\\n")
print(sys.argv[1])
"""
RECORD, API = "app.traces.execution.record", "app.core.console.api_client"


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
    environment = os.environ | {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, module, function, when, *command],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == 9, killed.stderr
    [name] = {path.name.partition(".jsonl")[0] for path in (tmp_path / "results").iterdir()}
    resumed = subprocess.run(
        [sys.executable, "-m", "app.cli", *command, "--resume", f"{tmp_path}/results/{name}.jsonl"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert Counter((tmp_path / "calls").read_text().split()) == Counter("123")
    [run] = service.list_items("/benchmark-runs")
    assert run["id"] == json.loads(resumed.stdout)["runId"]
    [upload] = service.list_items("/local-datasets")
    assert upload["traceCount"] == 3
