"""The import of a recorded ot-bench run as traces."""

import json

import pytest

from mosaico.harness.mcp.result_file import json_report
from mosaico.harness.mcp.types import McpReport
from mosaico.traces.files.ndjson import iter_traces
from mosaico.traces.producers.harness_results import read_results
from mosaico.traces.producers.mcp_traces import traces_of
from tests.support.mcp_results import FAILED, llm_calls, mcp_report, result, tool_call
from tests.support.service import Service


def two_attempts() -> McpReport:
    return mcp_report(
        result(
            llm_calls=llm_calls(100, 160), tool_calls=(tool_call("a", "t"),), duration_ms=1500.0
        ),
        result("compare:one", evaluations=(FAILED,)),
    )


def test_import__traces_equal_recorded_run() -> None:
    report = two_attempts()
    imported = read_results(json_report(report).encode())
    assert imported.run_name == "bench-m-2026-11-22-093000"
    assert list(iter_traces(imported.lines)) == list(traces_of(report))


def test_import__recorded_run_has_metrics(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        datasetRef="mcp", metrics=["TASK_PASSED", "INPUT_TOKENS", "TOOL_CALLS"]
    )
    stored = service.send(
        "POST",
        "/local-datasets/import",
        content=json_report(two_attempts()).encode(),
        params={"name": "mcp"},
        headers={"Content-Type": "application/json"},
    )
    assert stored.status_code == 201, stored.text
    run = service.complete_run(runName=stored.json()["runName"])
    metrics = service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    assert [metric["sum"] for metric in metrics] == [1, 260, 1]


@pytest.mark.parametrize("results", [None, [{}], [{"file": "f", "scenario": "s", "tasks": [1]}]])
def test_import__invalid_mcp_file_is_refused(service: Service, results: object) -> None:
    answer = service.send(
        "POST",
        "/local-datasets/import",
        content=json.dumps({"format": "ot-bench/1", "results": results}).encode(),
        params={"name": "mcp"},
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-result-file")
