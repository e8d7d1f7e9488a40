"""Faulty servers: each fault leads to the documented error, and no process stays behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.harness.mcp.agent_loop.run import run_plan
from mosaico.harness.mcp.plan import McpRunPlan
from mosaico.harness.mcp.servers.process_reaper import ProcessReaper
from mosaico.harness.mcp.servers.server import ServerEnvironment, running_servers
from mosaico.harness.mcp.servers.stdio import ServerProgram, running_program
from mosaico.harness.mcp.types import AttemptEnded, ErrorKind, Event
from mosaico.harness.results import AttemptOutcome
from tests.support.mcp_bench import Ran, direct_task, run
from tests.support.mcp_servers import FAULTS, faults, http, stdio
from tests.support.processes import lives, processes_of, until
from tests.support.texts import assert_names
from tests.support.waiting import LIVENESS_S

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def mark(request: pytest.FixtureRequest) -> Iterator[str]:
    """A variable that marks all processes of a test; the test checks that all have ended."""
    marker_variable = f"FAULTS_OF={os.getpid()}-{abs(hash(request.node.name))}"
    yield marker_variable
    until(lambda: not processes_of(marker_variable), what="all servers have ended")


def marked(mark: str) -> dict[str, str]:
    """An environment with the variable."""
    name, _, value = mark.partition("=")
    return {name: value}


def call(mark: str, tool: str, *habits: str, **arguments: object) -> Ran:
    server = faults(*habits, env=marked(mark))
    return run(direct_task(server, tool, arguments=dict(arguments)))


def error_of(ran: Ran) -> tuple[ErrorKind, str]:
    assert ran.result.error is not None
    return ran.result.error.kind, ran.result.error.detail


def test_stdio_server__environment_is_path_and_declared_variables(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    ran = call(mark, "environment")
    assert ran.result.response is not None
    environment = json.loads(ran.result.response)
    environment.pop("LC_CTYPE", None)  # the interpreter of the server sets it itself
    assert environment == {"PATH": os.environ["PATH"], **marked(mark)}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("die", {}, "it ended with exit code 3; its stderr ends with: out of luck"),
        ("garble", {}, "it wrote an invalid message"),
        ("flood_line", {}, "it wrote a line longer than 16777216 bytes"),
        ("flood_lines", {}, "it wrote more than 1048576 bytes that are not messages"),
        ("huge", {"bytes": 17_000_000}, "it wrote a line longer than 16777216 bytes"),
    ],
)
def test_stdio_server__death_or_invalid_output_is_an_infrastructure_error(
    mark: str, tool: str, arguments: dict[str, object], message: str
) -> None:
    ran = call(mark, tool, **arguments)
    assert ran.result.outcome is AttemptOutcome.INFRA_ERROR
    kind, detail = error_of(ran)
    assert kind is ErrorKind.SERVER_DIED
    assert detail.startswith("server 'faults' is gone: ")
    assert message in detail


def test_stdio_server__error_response_is_a_result(mark: str) -> None:
    """-32000 is the code of the SDK for a closed connection, and of many servers for other errors."""
    server = faults(env=marked(mark))
    tasks = [
        direct_task(server, tool, name=name, share_servers=True)
        for name, tool in (("first", "refuse"), ("second", "count"))
    ]
    first, second = run(*tasks, concurrency=1).report.results
    assert first.error is not None
    assert first.error.detail == "refuse of faults: MCP error -32000: not today"
    assert (first.outcome, second.response) == (AttemptOutcome.AGENT_ERROR, "1")


def test_server_pool__lost_shared_server_ends_before_its_successor_starts(mark: str) -> None:
    """The server closes its output but keeps running; the third task uses the third server."""
    server = faults(env=marked(mark))
    tasks = tuple(
        direct_task(server, tool, name=str(n), share_servers=True)
        for n, tool in enumerate(("leave", "leave", "count"))
    )
    running: list[int] = []

    def hear(event: Event) -> None:
        if isinstance(event, AttemptEnded):
            running.append(len(processes_of(mark)))

    report = asyncio.run(run_plan(McpRunPlan(tasks=tasks, concurrency=1), hear))
    assert report.results[-1].response == "1"
    assert max(running) == 1


@pytest.mark.parametrize("text", ["\ud800", 300 * "[" + 300 * "]"])
def test_stdio_server__unsendable_arguments_are_a_task_error(mark: str, text: str) -> None:
    arguments = json.loads(text) if text.startswith("[") else text
    ran = call(mark, "echo", text=arguments)
    assert (error_of(ran)[0], ran.result.outcome) == (ErrorKind.TOOL, AttemptOutcome.AGENT_ERROR)


def test_stdio_server__exit_at_start_reports_stderr(mark: str) -> None:
    kind, detail = error_of(call(mark, "echo", "dying"))
    assert kind is ErrorKind.SERVER_START
    assert detail.endswith(
        "it ended with exit code 1; its stderr ends with: the licence has expired"
    )


def test_stdio_server__refused_session_is_reported_in_the_words_of_the_server(mark: str) -> None:
    """-32000 is also the code of the SDK for a closed connection."""
    kind, detail = error_of(call(mark, "echo", "unlicensed"))
    assert kind is ErrorKind.SERVER_START
    assert_names(detail, "server 'faults'", "refused the session", "-32000: license expired")


def test_stdio_server__short_secret_is_masked_where_it_stands_alone() -> None:
    """Longer ones are masked everywhere."""
    program = "import sys; sys.exit('pin=471 of 4711, key tok9x/2; the tok9x9 has 9 a')"
    server = stdio("s", sys.executable, "-I", "-S", "-c", program)
    secrets = frozenset({"471", "tok9", "a"})
    ran = run(direct_task(server, "echo"), secret_values=secrets)
    assert "pin=*** of 4711, key ***x/2; the ***x9 has 9 ***" in error_of(ran)[1]


def test_stdio_server__start_has_its_own_timeout(mark: str) -> None:
    ran = run(direct_task(faults("mute", timeout=0.2, env=marked(mark)), "echo"))
    kind, detail = error_of(ran)
    assert kind is ErrorKind.SERVER_START
    assert ran.result.duration_ms >= 200
    assert detail == "server 'faults' does not start: no answer within its timeout of 0.2 s"


def test_stdio_server__missing_program_is_named() -> None:
    ran = run(direct_task(stdio("s", "no-such-program"), "echo"))
    kind, detail = error_of(ran)
    assert kind is ErrorKind.SERVER_START
    assert "'no-such-program' cannot be started: No such file or directory" in detail


def test_http_server__unreachable_server_never_passes() -> None:
    ran = run(direct_task(http("remote", "http://127.0.0.1:9/mcp"), "echo"))
    assert ran.result.outcome is AttemptOutcome.INFRA_ERROR
    assert ran.result.passed is None
    kind, detail = error_of(ran)
    assert kind is ErrorKind.SERVER_START
    assert detail.startswith("server 'remote' does not start: connection failed: ")
    assert detail.endswith("; start the server, or correct its url")


def test_stdio_server__hanging_call_ends_at_task_timeout(mark: str) -> None:
    # It ignores its end, too: the fixture waits until it is gone.
    server = faults("deaf", env=marked(mark))
    ran = run(direct_task(server, "hang", timeout_s=1.0))
    assert ran.result.outcome is AttemptOutcome.TIMEOUT
    kind, detail = error_of(ran)
    assert kind is ErrorKind.TIMEOUT
    assert detail == "not completed within its timeout of 1 s; it was waiting for hang of faults"
    [called] = ran.result.tool_calls
    assert (called.tool, called.text, called.is_error) == ("hang", "(no answer)", True)
    assert ran.result.response is None


def test_tool_error__stays_an_error_for_any_text(mark: str) -> None:
    ran = call(mark, "fail", text="no matches found")
    assert ran.result.outcome is AttemptOutcome.AGENT_ERROR
    assert error_of(ran) == (ErrorKind.TOOL, "fail of faults: no matches found")
    [called] = ran.result.tool_calls
    assert called.is_error


def test_tool_error__invalid_result_is_a_tool_error(mark: str) -> None:
    kind, detail = error_of(call(mark, "ill_formed"))
    assert kind is ErrorKind.TOOL
    assert "the tool returned an invalid result: content" in detail
    assert "Input should" not in detail


def test_stdio_server__log_lines_on_stdout_are_skipped(mark: str) -> None:
    ran = call(mark, "echo", "chatty", text="hello")
    assert (ran.result.outcome, ran.result.response) == (AttemptOutcome.SCORED, "hello")


def test_stdio_server__large_result_is_complete(mark: str) -> None:
    ran = call(mark, "huge", bytes=1_000_000)
    assert ran.result.response == "x" * 1_000_000


def test_server_info__reads_all_pages_of_tools(mark: str) -> None:
    [server] = call(mark, "echo").report.servers
    assert len(server.tools) == 16  # in two pages of ten and six
    assert (server.version, server.instructions) == ("1.2.3", "Expect the worst.")
    assert (server.prompts, server.resources) == ((), ())


def test_server_info__server_without_tools_starts(mark: str) -> None:
    ran = call(mark, "echo", "toolless")
    [server] = ran.report.servers
    assert server.tools == ()
    assert error_of(ran)[0] is ErrorKind.TOOL


def test_stdio_server__child_processes_end_with_it(mark: str) -> None:
    ran = call(mark, "family")
    assert ran.result.response is not None
    child = int(ran.result.response)
    until(lambda: not lives(child), what="the child of the server has ended")


def deaf(mark: str) -> ServerProgram:
    args = ["-I", "-S", str(FAULTS), "deaf"]
    return ServerProgram(command=sys.executable, args=args, env=marked(mark))


def test_stdio_server__ignored_sigterm_leads_to_sigkill(mark: str) -> None:
    async def start_and_leave() -> None:
        async with running_program(deaf(mark)):
            until(lambda: bool(processes_of(mark)))

    asyncio.run(start_and_leave())
    assert processes_of(mark) == []


def test_stdio_server__cancellation_kills_at_once(tmp_path: Path) -> None:
    """After a graceful stop the server would write a file."""
    env = {"PATH": os.environ["PATH"], "FILE": str(tmp_path / "said")}
    tidy = 'echo > "$FILE.begun"; read line; echo bye > "$FILE"'

    async def hold(started: asyncio.Event) -> None:
        async with running_program(ServerProgram(command="sh", args=["-c", tidy], env=env)):
            # A shell that has not begun would write nothing in any case.
            until((tmp_path / "said.begun").exists)
            started.set()
            await asyncio.sleep(3600)

    async def cancel() -> None:
        started = asyncio.Event()
        holding = asyncio.create_task(hold(started))
        await started.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding

    asyncio.run(cancel())
    assert not (tmp_path / "said").exists()


START_AND_SLEEP = """
import subprocess, sys, time
from mosaico.harness.mcp.servers.process_reaper import REAPER

name, _, value = sys.argv[2].partition("=")
program = [sys.executable, "-I", "-S", sys.argv[1], "deaf"]
pipe = subprocess.PIPE
for _ in range(2):
    child = subprocess.Popen(program, env={name: value}, stdin=pipe, start_new_session=True)
    REAPER.watch(child.pid)
print("run", flush=True)
time.sleep(3600)
"""


def test_process_reaper__servers_end_with_a_killed_parent(mark: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_SLEEP, str(FAULTS), mark],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"run\n"
        until(lambda: len(processes_of(mark)) == 2)
        owner.kill()
        owner.wait(LIVENESS_S)
    until(lambda: not processes_of(mark), what="the servers have ended")


def test_stdio_server__unread_input_does_not_delay_the_end(mark: str) -> None:
    """The second call fills the pipe, which the server does not read."""

    async def call_twice() -> None:
        around = ServerEnvironment(path=os.environ["PATH"])
        async with running_servers([faults(env=marked(mark))], "bench.yaml", around) as [server]:
            for tool, arguments in (("hang", {}), ("echo", {"text": "x" * 1_000_000})):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await server.call(tool, arguments)

    asyncio.run(call_twice())


def test_process_reaper__killed_helper_is_replaced(mark: str) -> None:
    def sleeper() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-I", "-S", str(FAULTS), "deaf"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=marked(mark), stdin=pipe, start_new_session=True)

    reaper = ProcessReaper()
    with sleeper() as first, sleeper() as second:
        reaper.watch(first.pid)
        # The helper is known to nobody else; a lack of memory may end it.
        assert reaper._process is not None
        reaper._process.kill()
        reaper._process.wait(LIVENESS_S)
        reaper.watch(second.pid)
        # The new helper must know both: the first group was watched by the killed one.
        reaper.close()
        assert (first.wait(LIVENESS_S), second.wait(LIVENESS_S)) == (
            -signal.SIGKILL,
            -signal.SIGKILL,
        )
