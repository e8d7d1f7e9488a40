"""Interrupted runs of `ot-bench`: what is kept, and how they are resumed."""

import signal
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mosaico.harness.mcp.agent_loop.attempt import run_attempt
from mosaico.harness.mcp.result_file import read_report, write_report
from mosaico.harness.result_file import journal_of
from tests.support.mcp_commands import ASKING, DIRECT, SERVERS, bench_file, ot_bench
from tests.support.model_server import (
    ModelServer,
)
from tests.support.processes import start_command

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_resume__makes_only_missing_attempts(model: ModelServer) -> None:
    file = bench_file(ASKING)
    arguments = ("run", file, "--base-url", model.openai_url, "--output", "r.yaml")
    assert ot_bench(*arguments).exit_code == 0
    recorded = read_report(Path("r.yaml"))
    part = [
        attempt_result
        for attempt_result in recorded.results
        if attempt_result.task == "compare:base"
    ]
    write_report(type(recorded)(timestamp="t", planned=2, results=tuple(part)), Path("part.yaml"))
    model.requests.clear()
    assert (
        ot_bench("run", file, "--base-url", model.openai_url, "--resume", "part.yaml").exit_code
        == 0
    )
    assert len(model.requests) == 1
    resumed = read_report(Path("part.yaml"))
    assert [attempt_result.task for attempt_result in resumed.results] == [
        "compare:base",
        "compare:mcp",
    ]
    # A task with another prompt is another task: nothing of the result counts.
    changed = bench_file(ASKING.replace("6 x 7", "21 x 2"))
    model.requests.clear()
    assert (
        ot_bench("run", changed, "--base-url", model.openai_url, "--resume", "r.yaml").exit_code
        == 0
    )
    assert len(model.requests) == 2


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_run__signal_leaves_result_and_reports(way: signal.Signals) -> None:
    """The second call hangs in its server when the signal comes."""
    # Only the second call hangs: the first one is an echo again.
    file = bench_file(DIRECT.replace("tool: echo", "tool: hang").replace("hang", "echo", 1))
    command = ["run", file, "--output", "r.yaml", "--junit", "j.xml", "--concurrency", "1"]
    program = start_command(
        [*map(str, command)], Path.cwd(), module="mosaico.harness.mcp.cli.ot_bench"
    )
    program.wait_for_output("2 attempts")
    program.wait_for_output("1/2 [PASS]")
    program.send(way)
    assert program.wait_for_exit() == 130, program.log
    assert "Traceback" not in program.log
    recorded = read_report(Path("r.yaml"))
    assert (recorded.interrupted, len(recorded.results)) == (True, 1)
    assert len(ET.parse("j.xml").getroot().findall("testcase")) == 1
    assert not journal_of(Path("r.yaml")).exists()


def test_resume__failed_run_continues_from_journal(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(attempt: object, *arguments: object) -> object:
        if attempt.task.name == "compare:mcp":  # type: ignore[attr-defined]
            raise RuntimeError("of the program")
        return await run_attempt(attempt, *arguments)  # type: ignore[arg-type]

    file = bench_file(ASKING)
    arguments = ("run", file, "--base-url", model.openai_url, "--concurrency", "1")
    with monkeypatch.context() as patched:
        patched.setattr("mosaico.harness.mcp.agent_loop.run.run_attempt", broken)
        done = ot_bench(*arguments, "--output", "r.yaml")
    assert done.exit_code == 1
    assert not Path("r.yaml").exists()
    assert "continue it with --resume r.yaml" in done.stderr
    journal = journal_of(Path("r.yaml"))
    before = journal.read_bytes()
    for named, request_count in (("r.yaml", 2), (journal.name, 3), ("r.yaml", 4)):
        # A result of before does not hide what was kept after it.
        journal.write_bytes(before)
        assert ot_bench(*arguments, "--resume", named).exit_code == 0
        assert len(model.requests) == request_count
        assert len(read_report(Path("r.yaml")).results) == 2
        assert not journal.exists()


def test_resume__keeps_servers_of_first_part() -> None:
    """They are started no more; what their tools take of the context is told all the same."""
    file = bench_file(DIRECT)
    assert ot_bench("run", file, "--tags", "tool", "--output", "r.yaml").exit_code == 0
    first = read_report(Path("r.yaml")).servers
    assert ot_bench("run", file, "--tags", "tool", "--resume", "r.yaml").exit_code == 0
    assert read_report(Path("r.yaml")).servers == first != ()


def test_resume__ordered_scenario_restarts_from_first_task() -> None:
    """The third task wants the count that the two before it have made."""
    tasks = "".join(
        f"      - {{name: tool:faults:{n}, type: direct, server: faults, tool: count, arguments: {{}},"
        f" evaluate: {{expected: {n}}}}}\n"
        for n in (1, 2, 3)
    )
    head = (
        "\nscenarios:\n  - name: counted\n    share_servers: true\n    in_order: true\n    tasks:\n"
    )
    file = bench_file(SERVERS + head + tasks)
    assert ot_bench("run", file, "--output", "r.yaml").exit_code == 0
    recorded = read_report(Path("r.yaml"))
    write_report(replace(recorded, results=recorded.results[:2]), Path("r.yaml"))
    done = ot_bench("run", file, "--resume", "r.yaml")
    assert done.exit_code == 0, done.output
    assert "3/3 [PASS]" in done.stderr
    results = read_report(Path("r.yaml")).results
    assert [(entry.task, entry.response) for entry in results] == [
        (f"tool:faults:{n}", str(n)) for n in (1, 2, 3)
    ]


def test_resume__selection_that_loses_attempts_is_refused() -> None:
    file = bench_file(DIRECT)
    assert (
        ot_bench("run", file, "--tags", "tool", "--trials", "2", "--output", "r.yaml").exit_code
        == 0
    )
    refused = ot_bench("run", file, "--tags", "tool", "--resume", "r.yaml")
    assert refused.exit_code == 2
    assert "r.yaml has 1 attempt that is not selected now" in refused.stderr
    assert len(read_report(Path("r.yaml")).results) == 2
    assert (
        ot_bench(
            "run", file, "--tags", "tool", "--resume", "r.yaml", "--output", "s.yaml"
        ).exit_code
        == 0
    )
