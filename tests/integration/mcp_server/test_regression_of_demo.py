"""A scripted agent finds the cause of the demo's regression; it reads nothing but the answers of the tools."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.mcp_client import (
    Mode,
    ToolCaller,
    http_server,
    in_process,
    key_of,
    over_http,
    over_stdio,
)
from tests.support.service import Service

MAX_CALLS = 5


class Finding(NamedTuple):
    """What the agent says in the end."""

    cause: str
    section: str
    calls: list[str]


async def investigate(caller: ToolCaller) -> Finding:
    """The fixed policy: the worst change, its difference that goes with the drop, and an item that shows it."""
    worst = (await caller.answer("what_got_worse"))["changes"][0]
    why = await caller.answer("why", run=worst["run"])
    # The strongest difference comes first.
    cause = next(
        difference["difference"]
        for difference in why["whatChanged"]
        if difference["proof"].startswith("more frequent in fallen items")
    )
    item = next(item for item in why["items"] if "⟦tool read failed⟧" in item["wentWrong"])
    trace = await caller.answer("show_trace", run=worst["run"], item=item["item"])
    failed = [tool for tool in trace["tools"] if tool.get("ok") is False]
    section = re.search(r'"section": "([^"#]+)#', failed[0]["arguments"])
    assert section is not None
    return Finding(cause, section[1], caller.calls)


def assert_found(finding: Finding) -> None:
    # demo/README.md: `trouble.md` was moved after the index was built, so that reading its sections fails.
    assert finding.cause == "⟦tool read failed, not before⟧"
    assert finding.section == "trouble"
    assert len(finding.calls) <= MAX_CALLS


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_agent__finds_the_cause_over_stdio(
    service: Service, demo_runs: list[str], tmp_path: Path, mode: Mode
) -> None:
    assert_found(over_stdio(service, investigate, folder=tmp_path, mode=mode))


def test_agent__finds_the_cause_over_http(
    service: Service, demo_runs: list[str], tmp_path: Path
) -> None:
    with http_server(service, tmp_path) as url:
        modes: tuple[Mode, ...] = ("auto", "legacy")
        for mode in modes:
            assert_found(over_http(url, investigate, key=key_of(service), mode=mode))


def test_tools__answer_with_names_in_place_of_ids_and_with_links(
    service: Service, demo_runs: list[str], tmp_path: Path
) -> None:
    first, second = demo_runs

    async def ask(caller: ToolCaller) -> dict[str, Any]:
        names = {"agent": "Pelican handbook agent", "benchmark": "⟦Handbook questions⟧"}
        comparison = {"baseline": "run-1", "candidate": "run-2"}
        return {
            "why": await caller.answer("why", **names),
            "compare": await caller.answer("compare_runs", **comparison),
            "trend": await caller.answer("kpi_trend", benchmark="handbook", kpi="answer quality"),
            "short": await caller.answer("why", run=second[:13], items=1),
            "benchmarks": await caller.answer("find", kind="benchmarks", text="handbook"),
            "runs": await caller.answer("find", kind="runs", **names, limit=1),
            "none": await caller.answer("what_got_worse", agent="demo-agent", hours=1),
        }

    answers = in_process(service, ask, folder=tmp_path)
    base = str(service.client.base_url).rstrip("/")
    assert answers["why"]["run"]["run"] == second
    assert answers["why"]["page"] == f"{base}/runs/{second}"
    assert answers["why"]["baselineRun"] == first
    assert (answers["compare"]["baselineRun"], answers["compare"]["candidateRun"]) == (
        first,
        second,
    )
    assert answers["compare"]["verdict"] == "REGRESSED"
    assert [point["run"] for point in answers["trend"]["points"]] == [second, first]
    assert answers["trend"]["points"][0]["value"] == pytest.approx(0.416, abs=0.001)
    # 63 items fell; the answer says how many it leaves out, and how to get more.
    assert len(answers["short"]["items"]) == 1
    assert any(re.match(r"\d+ more items fell", note) for note in answers["short"]["notices"])
    assert "⟦answer quality⟧" in answers["benchmarks"]["benchmarks"][0]["kpis"]
    assert [run["run"] for run in answers["runs"]["runs"]] == [second]
    assert any("older runs" in note for note in answers["runs"]["notices"])
    assert {change["run"] for change in answers["none"]["changes"]} == {second}
    for page in (answers["compare"]["page"], answers["trend"]["page"], answers["why"]["page"]):
        shown = service.client.get(page, headers={"Accept": "text/html"})
        assert shown.status_code == 200, page


def test_tools__say_what_to_pass(service: Service, demo_runs: list[str], tmp_path: Path) -> None:
    async def ask(caller: ToolCaller) -> None:
        assert "`find`" in await caller.error("why", agent="nobody")
        assert "`find`" in await caller.error("why", run="run-9")
        assert "⟦answer quality⟧" in await caller.error("kpi_trend", benchmark="demo-benchmark")
        assert "⟦answer quality⟧" in await caller.error(
            "kpi_trend", benchmark="demo-benchmark", kpi="typo"
        )
        assert "It takes run," in await caller.error("why", runs="latest")
        assert "`item` or `trace`" in await caller.error("show_trace")
        assert "`why`" in await caller.error("show_trace", item="q-999999")
        assert "what_got_worse" in await caller.error("no_such_tool")
        # Without --allow-runs there is no such tool.
        assert "no tool" in await caller.error("start_run", benchmark="b", agent="a")

    in_process(service, ask, folder=tmp_path)
