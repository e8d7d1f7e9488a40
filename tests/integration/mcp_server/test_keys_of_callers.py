"""The key of the caller decides what a tool shows and does."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.mcp_server.conftest import run_benchmark
from tests.support.mcp_client import (
    ToolCaller,
    http_app_in_process,
    in_process,
    key_of,
    over_http,
)
from tests.support.service import Service, pair

CANARY = "zanzibar"
MINE = "mine"
# The handshake of a client; which tool is called does not matter to a refused request.
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def night(wrong: int, word: str) -> list[dict[str, Any]]:
    return [
        pair(number, word, "no" if number < wrong else word, input=f"{word} {number}?")
        for number in range(40)
    ]


@pytest.fixture(scope="module")
def two_teams(service: Service) -> dict[str, list[str]]:
    """The runs of two benchmarks with the same fall; everything of the foreign one names the canary."""
    run_ids = {}
    for benchmark, word in ((MINE, "pelican"), (f"{CANARY}-bench", CANARY)):
        agent = f"{word}-agent"
        service.create_agent(agent, name=f"Agent {word}")
        service.create_benchmark(
            benchmark, datasetRef=benchmark, source="local", evaluates=[agent], metrics=["ACCURACY"],
            measures=[{"name": f"quality {word}", "formula": "ACCURACY"}],
        )  # fmt: skip
        nights = {f"{word}-1": night(2, word), f"{word}-2": night(20, word)}
        run_ids[word] = run_benchmark(service, benchmark, agent, nights)
    return run_ids


def create_key(service: Service, role: str, *only: str) -> str:
    body = {"name": f"{role} key", "role": role, **({"only": list(only)} if only else {})}
    token: str = service.post("/keys", body)["token"]
    return token


async def read_everything(caller: ToolCaller, run_ids: dict[str, list[str]]) -> list[str]:
    """Call every tool for one's own and for the foreign benchmark; returns the errors."""
    await caller.answer("what_got_worse")
    for kind in ("agents", "benchmarks", "runs"):
        await caller.answer("find", kind=kind)
        await caller.answer("find", kind=kind, text="a")
    await caller.answer("why", run=run_ids["pelican"][1])
    await caller.answer("why")
    foreign = run_ids[CANARY][1]
    mine = run_ids["pelican"][1]
    return [
        await caller.error("why", run=foreign),
        await caller.error("why", benchmark=f"{CANARY[:4]}"),
        await caller.error("compare_runs", baseline=mine, candidate=foreign),
        await caller.error("show_trace", run=foreign, item="i-1"),
        await caller.error("kpi_trend", benchmark=f"{CANARY[:4]}"),
    ]


def assert_only_mine(texts: list[str], errors: list[str]) -> None:
    assert [text for text in texts if CANARY in text.replace(f"{CANARY[:4]}⟧", "")] == []
    assert any("pelican" in text for text in texts)
    assert len(errors) == 5


def test_limited_key__sees_nothing_of_other_benchmarks(
    service: Service, two_teams: dict[str, list[str]], tmp_path: Path
) -> None:
    limited = create_key(service, "read", MINE)

    async def script(caller: ToolCaller) -> tuple[list[str], list[str]]:
        errors = await read_everything(caller, two_teams)
        return caller.texts, errors

    assert_only_mine(*in_process(service, script, folder=tmp_path, key=limited))
    # Over HTTP the server itself has the key of an admin, and never uses it for others.
    with http_app_in_process(service) as url:
        assert_only_mine(*over_http(url, script, key=limited))

        async def count_agents(caller: ToolCaller) -> int:
            return len((await caller.answer("find", kind="agents"))["agents"])

        assert over_http(url, count_agents, key=key_of(service)) == 2
        assert over_http(url, count_agents, key=limited) == 1


def test_read_key__cannot_start_a_run(
    service: Service, two_teams: dict[str, list[str]], tmp_path: Path
) -> None:
    start = {"benchmark": MINE, "agent": "Agent pelican", "run_name": "pelican-1"}

    async def refused(caller: ToolCaller) -> str:
        return await caller.error("start_run", **start)

    async def started(caller: ToolCaller) -> str:
        return str((await caller.answer("start_run", **start))["run"]["run"])

    read, run = create_key(service, "read"), create_key(service, "run")
    before = len(service.list_items("/benchmark-runs"))
    text = in_process(service, refused, folder=tmp_path, key=read, allow_runs=True)
    assert "run" in text
    assert "mosaico keys create" in text
    assert len(service.list_items("/benchmark-runs")) == before
    run_id = in_process(service, started, folder=tmp_path, key=run, allow_runs=True)
    assert service.get(f"/benchmark-runs/{run_id}")["benchmarkId"] == MINE


def test_http__request_without_key_or_for_another_host_is_refused(
    service: Service,
) -> None:
    key = {"Authorization": f"Bearer {key_of(service)}", **ACCEPT}
    with http_app_in_process(service, "mosaico.example.org") as url:

        def status(**headers: str) -> int:
            return httpx.post(url, json=PING, headers=headers, trust_env=False).status_code

        assert status(**ACCEPT) == 401
        assert status(**{**ACCEPT, "Authorization": "Basic eDp5"}) == 401
        # DNS rebinding: the page of another site reaches this machine under its own name.
        assert status(**key, Host="evil.example") == 421
        assert status(**key, Origin="https://evil.example") == 403
        own = {"Host": "mosaico.example.org", "Origin": "https://mosaico.example.org"}
        assert status(**key, **own) not in (401, 403, 421)
        assert status(**key) not in (401, 403, 421)

        async def call(caller: ToolCaller) -> str:
            names = {tool.name for tool in (await caller.client.list_tools()).tools}
            # Whoever sends requests must not read files of the server.
            assert "gate_files" not in names
            return await caller.error("find", kind="agents")

        text = over_http(url, call, key="mosaico_read_x_y_z")
    assert "Authorization" in text
    assert json.dumps(key_of(service)) not in text
