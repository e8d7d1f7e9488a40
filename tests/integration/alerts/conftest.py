"""A service with an agent, a benchmark with a KPI, and runs as good or bad as a test wants them."""

from collections.abc import Callable

import pytest

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


@pytest.fixture
def ready(service: Service) -> Service:
    service.agent()
    service.benchmark(
        metrics=["EXACT_MATCH"],
        measures=[{"id": "k-1", "name": "quality", "formula": "EXACT_MATCH"}],
    )
    return service


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)


@pytest.fixture
def night(ready: Service) -> Callable[..., JSON]:
    """A run of which so many of ten traces are right, and so many have no output at all."""
    nights = iter(range(1, 1000))

    def make(right: int, *, silent: int = 0) -> JSON:
        name = f"night-{next(nights)}"
        traces = [
            pair(number, "yes", None if number < silent else "yes" if number < right else "no")
            for number in range(10)
        ]
        for trace in traces:
            trace["traceId"] += f"-{name}"
        ready.upload(traces, run_name=name)
        return ready.completed(runName=name)

    return make


@pytest.fixture
def rule(ready: Service) -> Callable[..., JSON]:
    def make(**fields: object) -> JSON:
        return ready.post("/alert-configs", {**RULE, **fields})

    return make
