"""A service with an agent, a benchmark with a KPI, and runs of any quality."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

RULE = {
    "id": "rule-1",
    "name": "quality falls",
    "benchmarkId": "bench-001",
    "kpi": "quality",
    "condition": "PERCENTAGE_DROP",
    "threshold": 10,
}
# Rules that compare a run with those before it.
HISTORY_RULES: list[dict[str, object]] = [
    {"condition": "REGRESSED", "threshold": None},
    {"condition": "PERCENTAGE_DROP", "threshold": 10},
    {"condition": "ANOMALY_DETECTED", "threshold": None},
]
# As many good runs as end an incident of a REGRESSED rule.
BACK = (0.91, 0.92, 0.9, 0.93, 0.91)
GOOD = (0.92, 0.9, 0.93, 0.91, 0.92)

RuleMaker = Callable[..., JSON]
RunMaker = Callable[..., JSON]


@pytest.fixture
def benchmark_service(service: Service) -> Service:
    service.create_agent()
    service.create_benchmark(
        metrics=["EXACT_MATCH"],
        measures=[{"id": "k-1", "name": "quality", "formula": "EXACT_MATCH"}],
    )
    return service


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)


@pytest.fixture
def run_with(benchmark_service: Service) -> RunMaker:
    """Complete a run of ten traces: `right` correct ones and `silent` ones without output."""
    numbers = iter(range(1, 1000))

    def make(right: int, *, silent: int = 0) -> JSON:
        name = f"run-{next(numbers)}"
        traces = [
            pair(number, "yes", None if number < silent else "yes" if number < right else "no")
            for number in range(10)
        ]
        # Equal traces would be stored once, and later runs of them would be no news.
        for trace in traces:
            trace["traceId"] += f"-{name}"
        benchmark_service.upload(traces, run_name=name)
        return benchmark_service.complete_run(runName=name)

    return make


@pytest.fixture
def create_rule(benchmark_service: Service) -> RuleMaker:
    def make(**fields: object) -> JSON:
        return benchmark_service.post("/alert-configs", {**RULE, **fields})

    return make


@pytest.fixture
def create_regressed(benchmark_service: Service) -> RuleMaker:
    def make(**fields: object) -> JSON:
        body = {**RULE, "condition": "REGRESSED", "threshold": None, "keepFiringForRuns": 0}
        return benchmark_service.post("/alert-configs", {**body, **fields})

    return make


@pytest.fixture
def complete(benchmark_service: Service) -> RunHistoryMaker:
    return RunHistoryMaker(benchmark_service)


def notified_states(service: Service) -> list[str]:
    """The states of all alerts in the order of their creation: IDs are ordered by time."""
    alerts = sorted(service.list_items("/alerts"), key=lambda alert: str(alert["id"]))
    return [alert["state"] for alert in alerts]


def open_incident(service: Service) -> JSON:
    [incident] = service.list_items("/incidents", state="OPEN")
    return incident


def holds(rows: DatabaseReader) -> list[Any]:
    return [row[0] for row in rows.all("SELECT baseline_hold FROM benchmark_runs ORDER BY seq")]
