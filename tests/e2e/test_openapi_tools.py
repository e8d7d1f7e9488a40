"""Other people's tools read the OpenAPI description: linters, and generators of clients.

The first run installs them into the user's cache, which takes half a minute; without a registry the
tests are skipped and say so.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.cached_tools import npm_programs, python_programs
from tests.support.described_api import api_document
from tests.support.service import Service, working

pytestmark = pytest.mark.xdist_group("openapi")
TOOLS = Path(__file__).parents[1] / "support" / "openapi_tools"
TOOL_S = 300

PYTHON_REQUESTS = """
import json, os, time

from client import AuthenticatedClient
from client.api.agents import create_agent
from client.api.benchmark_runs import get_run, start_run
from client.api.benchmarks import create_benchmark
from client.api.kp_is import list_kpi_history
from client.api.local_datasets import upload_traces
from client.models import AgentCreate, BenchmarkCreate, RunCreate
from client.models.run_status import RunStatus
from client.types import File

client = AuthenticatedClient(
    base_url=os.environ["MOSAICO_URL"], token=os.environ["KEY"], raise_on_unexpected_status=True
)
agent = {"id": "helpdesk", "name": "Help desk"}
assert create_agent.sync(client=client, body=AgentCreate.from_dict(agent)).id == "helpdesk"
benchmark = json.loads(os.environ["BENCHMARK"])
create_benchmark.sync(client=client, body=BenchmarkCreate.from_dict(benchmark))
with open("traces.jsonl", "rb") as traces:
    upload = upload_traces.sync(
        client=client, body=File(payload=traces), name="questions", run_name="monday"
    )
assert upload.trace_count == 2, upload
run = start_run.sync(
    client=client, body=RunCreate(benchmark_id="nightly", agent_id="helpdesk")
)
deadline = time.monotonic() + 60
while run.status in {RunStatus.PENDING, RunStatus.RUNNING} and time.monotonic() < deadline:
    time.sleep(0.1)
    run = get_run.sync(run.id, client=client)
assert run.status is RunStatus.COMPLETED, run
[value] = list_kpi_history.sync(client=client, benchmark_id="nightly").items
print(value.value)
"""

TYPESCRIPT_REQUESTS = """
import { readFileSync } from "node:fs";
import { createAgent, createBenchmark, getRun, listKpiHistory, startRun, uploadTraces } from "./client/sdk.gen";
import { client } from "./client/client.gen";

client.setConfig({ baseUrl: process.env.MOSAICO_URL!, auth: process.env.KEY!, throwOnError: true });

async function main(): Promise<void> {
  const options = { throwOnError: true } as const;
  await createAgent({ ...options, body: { id: "helpdesk", name: "Help desk" } });
  await createBenchmark({ ...options, body: JSON.parse(process.env.BENCHMARK!) });
  const upload = await uploadTraces({
    ...options,
    body: readFileSync("traces.jsonl", "utf8"),
    bodySerializer: null,
    query: { name: "questions", runName: "monday" },
  });
  if (upload.data.traceCount !== 2) throw new Error(JSON.stringify(upload.data));
  const body = { benchmarkId: "nightly", agentId: "helpdesk" };
  let run = (await startRun({ ...options, body })).data;
  const deadline = Date.now() + 60_000;
  while ((run.status === "PENDING" || run.status === "RUNNING") && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    run = (await getRun({ ...options, path: { runId: run.id } })).data;
  }
  if (run.status !== "COMPLETED") throw new Error(JSON.stringify(run));
  const history = await listKpiHistory({ ...options, query: { benchmarkId: ["nightly"] } });
  console.log(history.data.items[0].value);
}

main();
"""
TRACES = (
    '{"traceId": "t-1", "input": "Capital of Italy?", "expectedOutput": "Rome", "output": "Rome"}\n'
    '{"traceId": "t-2", "input": "2 + 2?", "expectedOutput": "It is four", "output": "four"}\n'
)
BENCHMARK = {
    "id": "nightly",
    "datasetRef": "questions",
    "measures": [{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, ACCURACY:0.5)"}],
}


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI description that the service serves."""
    file = tmp_path_factory.mktemp("description") / "openapi.json"
    file.write_text(json.dumps(api_document()))
    return file


def run_tool(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def client_variables(service: Service) -> dict[str, str]:
    return {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
        "BENCHMARK": json.dumps(BENCHMARK),
    }


# In `make e2e` the generator of the client in Python reads every operation and schema.
@pytest.mark.prove
def test_openapi__spectral_finds_nothing(description: Path, tmp_path: Path) -> None:
    """Its rule `oas3-schema` checks the document against the schema of its version, too."""
    assert json.loads(description.read_text())["openapi"].startswith("3.1.")
    (tmp_path / "rules.yaml").write_text('extends: ["spectral:oas"]\n')
    spectral = npm_programs(TOOLS) / "spectral"
    options = ("--ruleset", "rules.yaml", "--fail-severity", "warn")
    run_tool((spectral, "lint", *options, description), tmp_path)


# This validator follows every reference at every use.
@pytest.mark.prove
def test_openapi__is_valid_openapi_3_1(description: Path, tmp_path: Path) -> None:
    program = "import json, sys; from openapi_spec_validator import validate; validate(json.load(sys.stdin))"
    python = python_programs(TOOLS / "requirements.lock") / "python"
    command = ["sh", "-c", f"{python} -c '{program}' < {description}"]
    run_tool(command, tmp_path)


def test_python_client__sends_the_requests_of_the_readme(
    service: Service, description: Path, tmp_path: Path
) -> None:
    programs = python_programs(TOOLS / "requirements.lock")
    generator = programs / "openapi-python-client"
    options = ("--output-path", "client", "--meta", "none")
    run_tool((generator, "generate", "--path", description, *options), tmp_path)
    (tmp_path / "traces.jsonl").write_text(TRACES)
    with working(service):
        script = (programs / "python", "-c", PYTHON_REQUESTS)
        # As in the README: 0.5 times a ROUGE of 0.75 plus 0.5 times an ACCURACY of 0.5.
        assert run_tool(script, tmp_path, **client_variables(service)).split() == ["0.625"]


# In `make e2e` the client in Python sends the same requests.
@pytest.mark.prove
def test_typescript_client__sends_the_requests_of_the_readme(
    service: Service, description: Path, tmp_path: Path
) -> None:
    programs = npm_programs(TOOLS)
    (tmp_path / "traces.jsonl").write_text(TRACES)
    (tmp_path / "requests.ts").write_text(TYPESCRIPT_REQUESTS)
    (tmp_path / "node_modules").symlink_to(programs.parent)
    run_tool([programs / "openapi-ts", "-i", description, "-o", "client"], tmp_path)
    # Without the types of Node, which are another package: its names are declared here.
    (tmp_path / "node.d.ts").write_text(
        'declare module "node:fs" { export function readFileSync(path: string, as: "utf8"): string }\n'
        "declare const process: { env: Record<string, string | undefined> };\n"
    )
    options = ["--target", "es2022", "--module", "commonjs", "--moduleResolution", "node"]
    options += ["--strict", "--skipLibCheck", "--lib", "es2022,dom,dom.iterable"]
    run_tool([programs / "tsc", *options, "requests.ts", "node.d.ts"], tmp_path)
    with working(service):
        output = run_tool(["node", "requests.js"], tmp_path, **client_variables(service))
    assert output.split() == ["0.625"]
