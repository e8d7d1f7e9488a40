"""Servers of `ot-bench` and the plan that uses them."""

import asyncio
from pathlib import Path

import pytest

from mosaico.harness.mcp.agent_loop.run import run_plan
from mosaico.harness.mcp.plan import McpRunPlan
from mosaico.harness.mcp.types import (
    AttemptBegan,
    AttemptEnded,
    ErrorKind,
    ServerSeen,
    Traced,
)
from tests.support.mcp_bench import (
    calls,
    direct_task,
    harness_task,
    run,
    says,
    scripted,
)
from tests.support.mcp_models import Asleep
from tests.support.mcp_servers import faults, stdio

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def test_server_pool__each_task_has_its_own_servers() -> None:
    tasks = [direct_task(faults(), "count", name=name) for name in ("a", "b")]
    assert [result.response for result in run(*tasks).report.results] == ["1", "1"]


def test_server_pool__scenario_shares_a_server() -> None:
    tasks = [direct_task(faults(), "count", name=n, share_servers=True) for n in ("a", "b", "c")]
    other = direct_task(faults(), "count", name="d", scenario="other", share_servers=True)
    responses = [result.response for result in run(*tasks, other).report.results]
    # The tasks run at the same time, in any order.
    assert sorted(str(response) for response in responses[:3]) == ["1", "2", "3"]
    assert responses[3] == "1"


def test_server_pool__restarts_a_dead_shared_server() -> None:
    tools = ["count", "die", "count"]
    tasks = [
        direct_task(faults(), tool, name=str(n), share_servers=True) for n, tool in enumerate(tools)
    ]
    report = run(*tasks, concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "1"]


def test_server_pool__restarts_a_hanging_shared_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process lives but ignores pings; every later task would wait for it."""
    monkeypatch.setattr("mosaico.harness.mcp.servers.server.PING_TIMEOUT_S", 0.1)
    calls_and_timeouts = [("count", 60.0), ("hang", 0.2), ("count", 60.0)]
    tasks = [
        direct_task(faults(), tool, name=str(n), share_servers=True, timeout_s=timeout_s)
        for n, (tool, timeout_s) in enumerate(calls_and_timeouts)
    ]
    report = run(*tasks, concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "1"]


def test_server_pool__keeps_shared_server_after_timeout_of_the_model() -> None:
    slow = harness_task(faults(), name="slow", share_servers=True, timeout_s=0.05)
    after, last = (direct_task(faults(), "count", name=n, share_servers=True) for n in "ab")
    report = run(after, slow, last, model=Asleep(lambda _: says("")), concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "2"]


def test_server_pool__failed_start_of_shared_server_is_not_retried(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    server = stdio("s", "sh", "-c", 'echo started >> "$FILE"', env={"FILE": str(starts)})
    tasks = [direct_task(server, "count", name=n, share_servers=True) for n in ("a", "b", "c")]
    report = run(*tasks, concurrency=1).report
    kinds = [result.error.kind for result in report.results if result.error]
    assert kinds == [ErrorKind.SERVER_START] * 3
    assert starts.read_text() == "started\n"


def test_run_plan__sends_events_in_order() -> None:
    model = scripted(calls(("echo", {"text": "x"})), says("Done."))
    ran = run(harness_task(faults()), model=model, trace=True)
    kinds = [type(event) for event in ran.events if not isinstance(event, Traced)]
    assert kinds == [AttemptBegan, ServerSeen, AttemptEnded]
    lines = [event.line for event in ran.events if isinstance(event, Traced)]
    assert lines[0] == "-> 1 messages, 16 tools"
    assert "echo {'text': 'x'} = x" in lines


def test_run_plan__reports_changed_tools_of_a_restarted_server() -> None:
    tasks = [
        direct_task(faults(*habits), "echo", name=name)
        for name, habits in (("a", ()), ("b", ()), ("c", ("toolless",)))
    ]
    ran = run(*tasks, concurrency=1)
    server_events = [event for event in ran.events if isinstance(event, ServerSeen)]
    # The second server has the tools of the first.
    assert [event.changed for event in server_events] == [False, True]


def test_run_plan__repeats_every_task_per_trial() -> None:
    report = run(harness_task(name="a"), harness_task(name="b"), trials=2).report
    assert [(result.task, result.trial) for result in report.results] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
    ]


def test_run_plan__cancellation_keeps_sent_results_and_stops_the_rest() -> None:
    lines: list[str] = []

    async def cancel() -> None:
        plan = McpRunPlan(
            tasks=(harness_task(name="a"), direct_task(faults(), "hang", name="b")), concurrency=1
        )
        began: list[AttemptBegan] = []
        second = asyncio.Event()

        def listen(event: object) -> None:
            if isinstance(event, AttemptEnded):
                lines.append(event.result.task)
            elif isinstance(event, AttemptBegan):
                began.append(event)
                if len(began) == 2:
                    second.set()

        running = asyncio.create_task(
            run_plan(plan, listen, open_llm_model=lambda *_: scripted(says("Done.")))
        )
        await second.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    assert lines == ["a"]
