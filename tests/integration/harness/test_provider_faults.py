"""A provider that is out, slow or limited, and a model that refuses: in both harnesses, by command
line and service. An outage is an error beside the rates; a refusal is a failed task.
"""

import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from mosaico.core.resources import Resources
from mosaico.harness.bash.cli import cli as bash_cli
from mosaico.harness.bash.result_file import read_report as read_bash_report
from mosaico.harness.mcp.cli.ot_bench import cli as mcp_cli
from mosaico.harness.mcp.result_file import read_report as read_mcp_report
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import Plan, RawReply, ReceivedRequest, ScriptedReply, model_server
from tests.support.service import JSON, Service

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")

TIMEOUT_S = 1.9  # of a task: less than the wait before the first retry
ANSWER = "It is blue."
REFUSAL = "I am sorry, I cannot help with that."


class Attempted(NamedTuple):
    """An attempt as the result file or the service shows it."""

    outcome: str
    passed: bool | None
    error: str


@dataclass(frozen=True, slots=True)
class Harness:
    """One of the two harnesses, with a file of two tasks whose prompts are `a` and `b`."""

    name: str
    file: str
    text: Callable[[str], str]
    settings: Callable[[str], JSON]
    run: Callable[[Path, str, Path], "CommandResult"]


class CommandResult(NamedTuple):
    exit_code: int
    output: str
    attempts: dict[str, Attempted]


def mcp_text(url: str) -> str:
    server = {"type": "stdio", "command": sys.executable, "args": ["-I", "-S", str(FAULTS)]}
    tasks = [
        {"name": f"compare:{name}", "prompt": name, "server": "faults",
         "evaluate": {"expected": "blue"}}
        for name in "ab"
    ]  # fmt: skip
    document = {
        "llm": {"base_url": url, "api_key": "key"},
        "defaults": {"model": "m", "timeout": TIMEOUT_S},
        "servers": {"faults": server},
        "scenarios": [{"name": "all", "share_servers": True, "tasks": tasks}],
    }
    return json.dumps(document)


def run_mcp(folder: Path, _: str, output: Path) -> CommandResult:
    output = output.with_suffix(".json")
    done = CliRunner().invoke(mcp_cli, ["run", str(folder / "b.yaml"), "-o", str(output)])
    attempts = {
        result.task[-1]: Attempted(result.outcome, result.passed, result.failure_reason())
        for result in read_mcp_report(output).results
    }
    return CommandResult(done.exit_code, done.output, attempts)


def bash_text(_: str) -> str:
    tasks = [
        {"id": name, "category": "c", "prompt": name,
         "expectations": [{"check": "stdout_contains:blue"}]}
        for name in "ab"
    ]  # fmt: skip
    return "\n".join(map(json.dumps, tasks))


def run_bash(folder: Path, url: str, output: Path) -> CommandResult:
    options = ["--provider", "openai", "--model", "m", "--base-url", url, "--save", str(output)]
    dataset = str(folder / "b.jsonl")
    done = CliRunner().invoke(
        bash_cli, ["run", dataset, *options, "--task-seconds", str(TIMEOUT_S)]
    )
    [file] = output.glob("eval-*.json")
    attempts = {
        result.task.id: Attempted(
            result.outcome, result.passed() if result.score else None, result.reason or ""
        )
        for result in read_bash_report(file).results
    }
    return CommandResult(done.exit_code, done.output, attempts)


def bash_settings(url: str) -> JSON:
    return {"provider": "openai", "model": "m", "baseUrl": url, "taskSeconds": TIMEOUT_S}


HARNESSES = [
    Harness("ot-bench", "b.yaml", mcp_text, lambda _: {}, run_mcp),
    Harness("bashkit-eval", "b.jsonl", bash_text, bash_settings, run_bash),
]
OUTAGES: dict[str, tuple[RawReply | None, str]] = {
    "out": (
        RawReply(status=503, body=b'{"error": {"message": "overloaded"}}'),
        "timed out after 1 × 503 within 1.9 s (last: 503: overloaded)",
    ),
    "limited": (
        RawReply(
            status=429, body=b'{"error": {"message": "later"}}', headers={"Retry-After": "99"}
        ),
        "timed out after 1 × 429 within 1.9 s (last: 429: later)",
    ),
    "slow": (None, "timed out after 1.9 s: no response to request 1 for "),
}


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.name)
def harness(request: pytest.FixtureRequest) -> Harness:
    requested_harness: Harness = request.param
    return requested_harness


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    root = tmp_path / "datasets"
    root.mkdir()
    return root


@pytest.fixture
def service_resources(service_resources: Resources, folder: Path) -> Resources:
    options = {**service_resources.options, "harness_dir": str(folder)}
    return dataclasses.replace(service_resources, options=options)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end: a reply that waits for it comes after every timeout."""
    event = threading.Event()
    yield event
    event.set()


def answers(text: str) -> Plan:
    """Answers every prompt with the text, without a tool call."""
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=text),))
    usage = Usage(input_tokens=100, output_tokens=10)
    return lambda _: ScriptedReply(message=message, stop=StopReason.END, usage=usage)


def fails_for(prompts: str, reply: RawReply | None, released: threading.Event) -> Plan:
    """Fails for these prompts: with the reply, or without any."""

    def plan(request: ReceivedRequest) -> ScriptedReply | RawReply:
        if request.prompt not in prompts:
            return works(request)
        if reply is None:
            released.wait()
        return reply or RawReply(status=500)

    return plan


def works(request: ReceivedRequest) -> ScriptedReply | RawReply:
    """Prints `blue` in bash; in ot-bench the answer alone counts."""
    tools = request.body.get("tools") or [{}]
    if tools[0].get("function", {}).get("name") != "bash" or request.turn > 0:
        return answers(ANSWER)(request)
    use = ToolUseBlock(id="c", name="bash", input={"commands": "echo blue"})
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(use,))
    usage = Usage(input_tokens=100, output_tokens=10)
    return ScriptedReply(message=message, stop=StopReason.TOOL_USE, usage=usage)


def completed(service: Service, harness: Harness, url: str) -> JSON:
    service.create_agent()
    measures = [{"id": "k", "name": "pass rate", "formula": "TASK_PASSED"}]
    service.create_benchmark(
        source="harness", harness=harness.settings(url), datasetRef=harness.file,
        metrics=["TASK_PASSED"], measures=measures,
    )  # fmt: skip
    run: JSON = service.complete_run()
    return run


@pytest.mark.parametrize("fault", OUTAGES)
def test_outage__command_line_reports_errors_beside_the_pass_rate(
    harness: Harness, fault: str, folder: Path, tmp_path: Path, released: threading.Event
) -> None:
    """One of two tasks passes, the other gets no answer: 100 % of one attempt, and exit code 3."""
    reply, reason = OUTAGES[fault]
    with model_server(fails_for("b", reply, released)) as server:
        (folder / harness.file).write_text(harness.text(server.openai_url))
        done = harness.run(folder, server.openai_url, tmp_path / "saved")
        released.set()
    assert done.exit_code == 3, done.output
    assert done.attempts["a"][:2] == ("scored", True)
    assert done.attempts["b"][:2] == ("infra_error", None)
    assert reason in done.attempts["b"].error
    [rate] = [line for line in done.output.splitlines() if line.startswith("  Pass rate")]
    assert "100.0 %" in rate
    assert "1 of 2" in rate
    assert "1 attempt errored and is not scored" in done.output


def test_outage__service_run_is_invalid_and_its_pass_rate_is_that_of_scored_tasks(
    service: Service, harness: Harness, folder: Path, released: threading.Event
) -> None:
    reply, reason = OUTAGES["out"]
    with model_server(fails_for("b", reply, released)) as server:
        (folder / harness.file).write_text(harness.text(server.openai_url))
        run = completed(service, harness, server.openai_url)
        released.set()
    assert (run["status"], run["validity"], run["errorShare"]) == ("COMPLETED", "INVALID", 0.5)
    [kpi] = service.list_items("/kpi-history")
    # Half of the attempts say too little for a KPI; its metric shows what the other half says.
    assert kpi["value"] is None
    metrics = service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    assert {item["mean"] for item in metrics if item["metric"] == "TASK_PASSED"} == {1.0}
    results = service.list_items(f"/benchmark-runs/{run['id']}/results")
    [error] = [item for item in results if item["outcome"] == "infra_error"]
    assert reason in error["error"]


def test_outage__service_run_without_any_answer_fails(
    service: Service, harness: Harness, folder: Path, released: threading.Event
) -> None:
    """It is no run with a pass rate of 0: a retry makes the attempts again."""
    reply, reason = OUTAGES["out"]
    with model_server(fails_for("ab", reply, released)) as server:
        (folder / harness.file).write_text(harness.text(server.openai_url))
        run = completed(service, harness, server.openai_url)
        released.set()
    assert (run["status"], run["errorCode"]) == ("FAILED", "NO_MODEL_ANSWER")
    assert reason in run["errorMessage"]
    assert service.list_items("/kpi-history") == []


def test_refusal__service_run_is_valid_and_its_pass_rate_is_0(
    service: Service, harness: Harness, folder: Path
) -> None:
    with model_server(answers(REFUSAL)) as server:
        (folder / harness.file).write_text(harness.text(server.openai_url))
        run = completed(service, harness, server.openai_url)
    assert (run["status"], run["validity"], run["errorShare"]) == ("COMPLETED", "VALID", 0.0)
    [kpi] = service.list_items("/kpi-history")
    assert kpi["value"] == 0.0
