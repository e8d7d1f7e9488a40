"""Runs without a result, without KPIs and with several trials; names that are not clear."""

from pathlib import Path

from tests.integration.mcp_server.conftest import run_benchmark
from tests.support.mcp_client import ToolCaller, in_process
from tests.support.service import JSON, Service, pair


def night(wrong: int, trials: int = 1) -> list[JSON]:
    return [
        pair(
            number, "yes", "no" if number < wrong else "yes",
            traceId=f"{number}-{trial}", itemId=f"i-{number}", trial=trial, input="?",
        )
        for number in range(30)
        for trial in range(trials)
    ]  # fmt: skip


def test_runs__without_result_kpis_or_a_clear_name(service: Service, tmp_path: Path) -> None:
    for agent in ("first", "second"):
        service.create_agent(agent, name="Twin")
    fields = {"source": "local", "metrics": ["EXACT_MATCH"]}
    service.create_benchmark("plain", datasetRef="plain", **fields)
    nights = {"ab12": night(1), "again": night(20)}
    first_runs = run_benchmark(service, "plain", "first", nights)
    # The same run name, by another agent.
    [second_run] = run_benchmark(service, "plain", "second", {"again": night(1)})
    measures = [{"name": "quality", "formula": "EXACT_MATCH"}]
    service.create_benchmark("trials", datasetRef="trials", measures=measures, **fields)
    run_benchmark(service, "trials", "first", {"t-1": night(1, 3), "t-2": night(20, 3)})
    service.create_benchmark("broken", datasetRef="no-such-dataset", **fields)
    failed = service.start_run(benchmarkId="broken", agentId="first")["id"]
    service.work()

    async def ask(caller: ToolCaller) -> None:
        # Nobody guesses among two of a name; the IDs to choose from are in the message.
        text = await caller.error("why", agent="Twin")
        assert "first" in text
        assert "second" in text
        text = await caller.error("why", run="again")
        assert first_runs[1] in text
        assert second_run in text
        assert (await caller.answer("why", run="again", agent="second"))["run"]["run"] == second_run
        # A run name that looks like the beginning of an ID.
        assert (await caller.answer("why", run="ab12"))["run"]["run"] == first_runs[0]

        why = await caller.answer("why", run=first_runs[1])
        assert [value["name"] for value in why["decides"]] == ["⟦EXACT_MATCH⟧"]
        assert why["run"]["verdict"] == "REGRESSED"

        why = await caller.answer("why", run=failed)
        assert "FAILED" in why["summary"]
        assert why["explanation"]
        assert "decides" not in why or not why["decides"]
        worse = await caller.answer("what_got_worse", benchmark="broken")
        assert [change["outcome"] for change in worse["changes"]] == ["FAILED"]

        # Of 3 trials, a wrong one is shown.
        trace = await caller.answer("show_trace", run="t-2", item="i-1")
        assert trace["isRight"] is False
        assert any("3 trials" in notice for notice in trace["notices"])
        # The only KPI needs no name.
        trend = await caller.answer("kpi_trend", benchmark="trials")
        assert trend["kpi"] == "⟦quality⟧"
        # By hand: 1 and 20 of 30 items are wrong in all trials.
        assert [round(point["value"], 4) for point in trend["points"]] == [0.3333, 0.9667]

    in_process(service, ask, folder=tmp_path)
