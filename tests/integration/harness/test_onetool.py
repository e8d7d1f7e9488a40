"""The examples with OneTool, played by a scripted agent that runs the code of each prompt."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import platformdirs
import pytest

from mosaico.harness.mcp.context_cost import context_costs
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import load_file
from mosaico.harness.mcp.plan import PlannedTask
from mosaico.harness.mcp.plan_builder import ModelKeys, PlanOverrides, TaskSelection, plan_tasks
from mosaico.harness.mcp.secrets import Secrets
from mosaico.harness.mcp.servers.server import ServerEnvironment
from mosaico.llm.conversation import MessageRole, ToolResultBlock, Turn
from tests.support.mcp_bench import Ran, Request, ScriptedModel, calls, run, says
from tests.support.mcp_servers import node_programs

pytestmark = [pytest.mark.prove, pytest.mark.usefixtures("loaded_evaluators")]

ROOT = Path(__file__).resolve().parents[3]
CODE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
NEW_PYTHONS = ("python3.12", "python3.13", "python3.14")
INSTALL_S = 600


@pytest.fixture(scope="module")
def onetool_programs() -> Path:
    """The programs of `demo/onetool/requirements.txt`, installed once into the user's cache."""
    found = next(filter(None, map(shutil.which, NEW_PYTHONS)), None)
    if found is None:
        pytest.skip("OneTool needs Python 3.12")
    folder = platformdirs.user_cache_path("mosaico-tests", ensure_exists=True) / "onetool-2.2.2"
    if not (folder / "bin" / "onetool").exists():
        requirements = ROOT / "demo" / "onetool" / "requirements.txt"
        for command in (
            [found, "-m", "venv", folder],
            [folder / "bin" / "pip", "install", "--quiet", "-r", requirements],
        ):
            done = subprocess.run(
                list(map(str, command)),
                capture_output=True,
                text=True,
                timeout=INSTALL_S,
                check=False,
            )
            if done.returncode != 0:
                shutil.rmtree(folder, ignore_errors=True)
                pytest.skip(f"OneTool cannot be installed: {done.stderr[-300:]}")
    return folder / "bin"


def planned(name: str) -> tuple[PlannedTask, ...]:
    secrets = Secrets(values={"ONETOOL_CONFIG": str(ROOT / "demo" / "onetool" / "onetool.yaml")})
    file = lint(load_file(ROOT / "demo" / "bench" / name, secrets, {}))
    return plan_tasks([file], TaskSelection(), PlanOverrides(), ModelKeys())


def run_code(request: Request) -> Turn:
    """Runs the code of the prompt with the one tool, or converts the time, and repeats the result."""
    last = request.messages[-1]
    if last.role is MessageRole.TOOL_RESULT:
        return says(
            "".join(block.content for block in last.content if isinstance(block, ToolResultBlock))
        )
    code = CODE.search(last.text())
    if code is not None:
        return calls(("run", {"command": code[1]}), tokens=(1, 1))
    converter = next((tool.name for tool in request.tools if "convert_time" in tool.name), None)
    if converter is None:
        return says("21:30")
    arguments = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}
    return calls((converter, arguments), tokens=(1, 1))


def run_benchmark(name: str, *programs: Path) -> Ran:
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    environment = ServerEnvironment(path=path)
    return run(*planned(name), model=ScriptedModel(run_code), server_environment=environment)


def test_demo_features__pass_with_onetool(onetool_programs: Path) -> None:
    report = run_benchmark("features.yaml", onetool_programs).report
    failures = {r.task: r.failure_reason() for r in report.results if r.passed is not True}
    assert failures == {}
    assert len(report.results) == 8


def test_demo_compare__one_tool_costs_less_context_than_all_servers(
    onetool_programs: Path,
) -> None:
    report = run_benchmark("compare.yaml", onetool_programs, node_programs()).report
    assert {r.task: r.failure_reason() for r in report.results if r.passed is not True} == {}
    tokens = {" ".join(cost.servers): cost.schema_tokens for cost in context_costs(report)}
    all_servers = "time memory filesystem everything"
    assert set(tokens) == {"", "time", all_servers, "onetool"}
    assert tokens["onetool"] < tokens[all_servers], tokens
