"""Reference MCP servers, called by a scripted model behind the providers' real SDKs."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection, create_server

import pytest

from mosaico.harness.mcp.agent_loop.run import run_plan
from mosaico.harness.mcp.config import HttpServer
from mosaico.harness.mcp.plan import LlmEndpoint, McpRunPlan, PlannedServer, PlannedTask
from mosaico.harness.mcp.types import ContentKind, ErrorKind, McpReport, TaskResult
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from tests.support.mcp_bench import direct_task, harness_task, run
from tests.support.mcp_servers import http, node_programs, node_server, stdio
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
)
from tests.support.processes import until
from tests.support.texts import assert_names
from tests.support.waiting import LIVENESS_S

PROVIDERS = [Provider.ANTHROPIC, Provider.OPENAI, Provider.OPENAI_RESPONSES]
NOW = {"Retry-After": "0.001"}

# The SDKs take seconds to import: one worker does it for all.
pytestmark = pytest.mark.xdist_group("sdks of models")


def endpoint(server: ModelServer, provider: Provider) -> LlmEndpoint:
    url = server.url if provider is Provider.ANTHROPIC else server.openai_url
    return LlmEndpoint(provider=provider, base_url=url, api_key="key-of-the-tests")


def asks(tool: str, **arguments: object) -> ScriptedReply:
    use = ToolUseBlock(id="call_1", name=tool, input=arguments)
    return ScriptedReply(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=(use,)),
        stop=StopReason.TOOL_USE,
        usage=Usage(input_tokens=50, output_tokens=5),
    )


def ends(text: str) -> ScriptedReply:
    return ScriptedReply(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=text),)),
        stop=StopReason.END,
        usage=Usage(input_tokens=70, output_tokens=3),
    )


def in_turn(
    *answers: ScriptedReply | RawReply,
) -> Callable[[ReceivedRequest], ScriptedReply | RawReply]:
    """Each request gets the next answer; the last one repeats."""
    remaining_answers = list(answers)
    return lambda _: (
        remaining_answers.pop(0) if len(remaining_answers) > 1 else remaining_answers[0]
    )


def use_sum(request: ReceivedRequest) -> ScriptedReply:
    """Calls the sum tool, then repeats its result."""
    if request.turn == 0:
        return asks(name_of_sum(request), a=19, b=23)
    return ends("The sum is 42." if "42" in json.dumps(request.body) else "No idea.")


def name_of_sum(request: ReceivedRequest) -> str:
    tools: list[str] = [tool.get("function", tool)["name"] for tool in request.body["tools"]]
    return next(name for name in tools if name.endswith("get-sum"))


@contextmanager
def everything_over_http(port: int, transport: str) -> Iterator[bool]:
    """Start the server on a port; False when the port is in use."""
    program = [str(node_programs() / "mcp-server-everything"), transport]
    env = {"PATH": os.environ["PATH"], "PORT": str(port)}
    with subprocess.Popen(
        program, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: process.poll() is not None or listens(port))
        try:
            yield process.poll() is None
        finally:
            process.kill()


def listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), timeout=LIVENESS_S).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def serving_everything(transport: str) -> Iterator[str]:
    """The address of `everything` over HTTP."""
    node_programs()
    # Another process may take the port before the server does.
    for _ in range(10):
        port = free_port()
        with everything_over_http(port, transport) as started:
            if started:
                yield f"http://127.0.0.1:{port}"
                return
    pytest.fail("no port was free")


@pytest.fixture(scope="module")
def remote() -> Iterator[str]:
    """The URL of `everything` over streamable HTTP."""
    with serving_everything("streamableHttp") as address:
        yield f"{address}/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run with all servers, each started once, and the requests to the models."""

    by_task: dict[str, TaskResult]
    report: McpReport
    requests: list[ReceivedRequest]
    folder: Path

    def __getitem__(self, task: str) -> TaskResult:
        return self.by_task[task]


@pytest.fixture(scope="module")
def results(remote: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("files")
    everything = node_server("everything", "stdio", env={"DECLARED": "yes"})
    files = node_server("filesystem", str(folder))
    memory = node_server("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")})
    graph = node_server("memory", env={"MEMORY_FILE_PATH": str(folder / "graph.jsonl")})
    clock = stdio("time", sys.executable, "-m", "mcp_server_time", "--local-timezone=UTC")
    distant = http("distant", remote)

    def call(
        name: str, server: PlannedServer, tool: str, timeout_s: float = 60, **arguments: object
    ) -> PlannedTask:
        return direct_task(
            server, tool, name=name, arguments=arguments, timeout_s=timeout_s, share_servers=True
        )

    long = {"duration": 3600, "steps": 10}
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
    with model_server(use_sum) as models:
        tasks = [
            call("environment", everything, "get-env"),
            call("image", everything, "get-tiny-image"),
            call("missing tool", everything, "no-such-tool"),
            call("wrong arguments", everything, "get-sum", a="x"),
            call("too long", everything, "trigger-long-running-operation", 0.5, **long),
            call("echo from afar", distant, "echo", message="hello"),
            call("too long from afar", distant, "trigger-long-running-operation", 0.5, **long),
            call("write", files, "write_file", path=str(folder / "a.txt"), content="written"),
            call("outside", files, "read_text_file", path="/etc/hostname"),
            call("remember", memory, "create_entities", entities=[entity]),
            call(
                "convert",
                clock,
                "convert_time",
                source_timezone="Europe/Berlin",
                time="12:00",
                target_timezone="Asia/Tokyo",
            ),
            *(
                direct_task(
                    graph,
                    tool,
                    name=name,
                    scenario="graph",
                    arguments=arguments,
                    share_servers=True,
                    in_order=True,
                )
                for name, tool, arguments in [
                    ("graph: write", "create_entities", {"entities": [entity]}),
                    ("graph: read", "open_nodes", {"names": ["Ada"]}),
                    ("graph: delete", "delete_entities", {"entityNames": ["Ada"]}),
                    ("graph: read again", "open_nodes", {"names": ["Ada"]}),
                ]
            ),
            *(
                harness_task(
                    everything,
                    name=f"sum with {provider}",
                    endpoint=endpoint(models, provider),
                    share_servers=True,
                )
                for provider in PROVIDERS
            ),
            harness_task(
                everything,
                memory,
                name="sum of two servers",
                endpoint=endpoint(models, Provider.OPENAI),
                share_servers=True,
            ),
        ]
        plan = McpRunPlan(tasks=tuple(tasks), concurrency=len(tasks))
        report = asyncio.run(run_plan(plan, lambda _: None))
    by_task = {result.task: result for result in report.results}
    return Results(by_task=by_task, report=report, requests=models.requests, folder=folder)


def test_real_servers__ordered_tasks_share_state(results: Results) -> None:
    """The concurrency of the run would allow all tasks at once."""
    assert "likes engines" in (results["graph: read"].response or "")
    assert results["graph: read again"].outcome is AttemptOutcome.SCORED
    assert "Ada" not in (results["graph: read again"].response or "")


def test_real_servers__environment_is_path_and_declared_variables(results: Results) -> None:
    environment = json.loads(results["environment"].response or "")
    assert environment == {"PATH": os.environ["PATH"], "DECLARED": "yes"}


def test_real_servers__image_is_recorded_by_type_and_size(results: Results) -> None:
    [called] = results["image"].tool_calls
    [image] = [content for content in called.content if content.kind is ContentKind.IMAGE]
    assert image.mime_type == "image/png"
    assert image.size is not None
    assert f"[image, image/png, {image.size} bytes]" in called.text


@pytest.mark.parametrize("task", ["missing tool", "wrong arguments", "outside"])
def test_real_servers__rejected_arguments_are_a_task_error(results: Results, task: str) -> None:
    result = results[task]
    assert result.outcome is AttemptOutcome.AGENT_ERROR
    assert result.error is not None
    assert result.error.kind is ErrorKind.TOOL
    [called] = result.tool_calls
    assert called.is_error


@pytest.mark.parametrize("task", ["too long", "too long from afar"])
def test_real_servers__long_operation_is_cancelled(results: Results, task: str) -> None:
    assert results[task].outcome is AttemptOutcome.TIMEOUT


def test_real_servers__http_server_answers_like_stdio(results: Results) -> None:
    assert results["echo from afar"].response == "Echo: hello"
    tools = {server.name: [tool.name for tool in server.tools] for server in results.report.servers}
    assert tools["distant"] == tools["everything"]
    assert len(tools["everything"]) == 13


def test_real_servers__http_and_sse_server_answers_and_the_other_type_is_named() -> None:
    with serving_everything("sse") as address:
        config = HttpServer(type="sse", url=f"{address}/sse", timeout=60)
        server = PlannedServer(name="stream", config=config)
        told = run(direct_task(server, "echo", arguments={"message": "hello"})).result
        assert told.response == "Echo: hello", told.error
        refused = run(direct_task(http("stream", f"{address}/sse"), "echo")).result
    assert refused.error is not None
    assert_names(refused.error.detail, "404", "type: sse")


def test_real_servers__time_in_tokyo_is_converted(results: Results) -> None:
    """Berlin is UTC+1 or UTC+2, Tokyo UTC+9: noon in Berlin is 20:00 or 19:00 in Tokyo."""
    assert results["convert"].outcome is AttemptOutcome.SCORED
    assert any(hour in (results["convert"].response or "") for hour in ("T20:00", "T19:00"))


def test_real_servers__facts_are_recorded(results: Results) -> None:
    servers = {server.name: server for server in results.report.servers}
    assert set(servers) == {"distant", "everything", "filesystem", "memory", "time"}
    assert len(servers["everything"].prompts) == 4
    assert len(servers["everything"].resources) == 7
    assert servers["everything"].instructions
    assert (servers["filesystem"].prompts, servers["filesystem"].resources) == ((), ())
    assert all(server.tokens > 0 for server in servers.values())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_real_servers__every_provider_can_call_tools(results: Results, provider: Provider) -> None:
    result = results[f"sum with {provider}"]
    assert (result.outcome, result.ending) == (AttemptOutcome.SCORED, ConversationEnding.NATURAL)
    assert result.response == "The sum is 42."
    assert [(call.server, call.tool) for call in result.tool_calls] == [("everything", "get-sum")]
    assert [call.cumulative_input for call in result.llm_calls] == [50, 120]


def test_real_servers__two_servers_prefix_tool_names(results: Results) -> None:
    assert results["sum of two servers"].response == "The sum is 42."
    names = {
        tool["function"]["name"]
        for request in results.requests
        for tool in request.body.get("tools", ())
        if "function" in tool
    }
    assert {"everything__get-sum", "memory__read_graph", "get-sum"} <= names


def ask(
    *answers: ScriptedReply | RawReply, timeout_s: float = 60
) -> tuple[TaskResult, list[ReceivedRequest]]:
    """A task without tools, with these answers of the provider."""
    with model_server(in_turn(*answers)) as server:
        task = harness_task(endpoint=endpoint(server, Provider.OPENAI), timeout_s=timeout_s)
        report = asyncio.run(run_plan(McpRunPlan(tasks=(task,)), lambda _: None))
    return report.results[0], server.requests


def test_provider_request__omits_empty_tools() -> None:
    result, [request] = ask(ends("Hello."))
    assert result.response == "Hello."
    assert "tools" not in request.body
    assert [message["role"] for message in request.body["messages"]] == ["user"]


@pytest.mark.parametrize("status", [429, 503])
def test_provider_request__busy_provider_is_retried(status: int) -> None:
    busy = RawReply(status=status, body=b'{"error": {"message": "busy"}}', headers=NOW)
    result, requests = ask(busy, ends("Hello."))
    assert (result.outcome, len(requests)) == (AttemptOutcome.SCORED, 2)
    [call] = result.llm_calls
    assert call.retries == 1
    assert 0 < call.waited_ms <= call.latency_ms


@pytest.mark.parametrize("status", [401, 429, 500])
def test_provider_request__unavailable_provider_is_an_error(status: int) -> None:
    broken = RawReply(status=status, body=b'{"error": {"message": "broken"}}', headers=NOW)
    result, _ = ask(broken)
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROVIDER
    assert result.error.detail.startswith(f"the model did not answer: m: {status}")


def test_provider_request__retry_after_does_not_exceed_the_timeout() -> None:
    later = RawReply(
        status=429, body=b'{"error": {"message": "busy"}}', headers={"Retry-After": "100"}
    )
    result, requests = ask(later, ends("Hello."), timeout_s=3.0)
    assert result.outcome is AttemptOutcome.INFRA_ERROR
    assert result.error is not None
    assert_names(result.error.detail, "1 × 429", "3 s", "429: busy")
    assert len(requests) == 1
