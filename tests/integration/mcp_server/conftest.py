"""Runs that `mosaico mcp` is asked about."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from demo.tour import AGENT, BENCHMARK, DATASET, HERE, RUN_NAMES
from tests.support.service import Service


def run_benchmark(
    service: Service, benchmark: str, agent: str, nights: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[str]:
    """The IDs of runs of an agent, one for each night's traces; its dataset has the name of the benchmark."""
    run_ids = []
    for run_name, traces in nights.items():
        service.upload(traces, name=benchmark, run_name=run_name, agentId=agent)
        body = {"benchmarkId": benchmark, "agentId": agent, "runName": run_name}
        run_ids.append(service.post("/benchmark-runs", body)["id"])
        service.work()
    return run_ids


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    """One for each file: its tests read the runs that a fixture has made."""
    return module_service


@pytest.fixture(scope="module")
def demo_runs(service: Service) -> list[str]:
    """The IDs of the two runs of the demo; the second one is worse."""
    service.post("/agents", AGENT)
    service.post("/benchmarks", BENCHMARK)
    run_ids = []
    for run_name in RUN_NAMES:
        response = service.client.post(
            "/api/v1/local-datasets",
            params={"name": DATASET, "runName": run_name},
            content=(HERE / "traces" / f"{run_name}.jsonl").read_bytes(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert response.is_success, response.text
        body = {"benchmarkId": BENCHMARK["id"], "agentId": AGENT["id"], "runName": run_name}
        run_ids.append(service.post("/benchmark-runs", body)["id"])
        service.work()
    return run_ids
