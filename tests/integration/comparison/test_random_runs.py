"""Stored runs over random data: each has its verdicts, and no route of a run is an error of the service."""

import json
import re
from string import Template
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from mosaico.api import PAGES, PREFIX, ROUTERS
from tests.support.random_benchmarks import (
    FORMULAS,
    RandomBenchmark,
    list_metrics,
    random_benchmarks,
)
from tests.support.service import JSON, Service, pair

FAILED = re.compile(r"failed: |could not be computed")
# What is read of a run, by the path of its route: the API, and the pages. Events are a stream.
RUN_ROUTES = {
    "/api/v1/benchmark-runs/{runId}": ["$api/$run"],
    "/api/v1/benchmark-runs/{runId}/attributes": ["$api/$run/attributes"],
    "/api/v1/benchmark-runs/{runId}/categories": ["$api/$run/categories"],
    "/api/v1/benchmark-runs/{runId}/results": ["$api/$run/results"],
    "/api/v1/benchmark-runs/{runId}/traces/{traceId:path}": ["$api/$run/traces/t-0-0"],
    "/api/v1/benchmark-runs/{runId}/metrics": ["$api/$run/metrics"],
    "/api/v1/benchmark-runs/{runId}/errors": ["$api/$run/errors"],
    "/api/v1/benchmark-runs/{runId}/answers": ["$api/$run/answers", "$api/$run/answers?show=wrong"],
    "/api/v1/benchmark-runs/{runId}/annotation-queue": ["$api/$run/annotation-queue"],
    "/api/v1/benchmark-runs/{runId}/costs": ["$api/$run/costs"],
    "/api/v1/benchmark-runs/{runId}/distributions": ["$api/$run/distributions"],
    "/api/v1/benchmark-runs/{runId}/nights": ["$api/$run/nights?itemId=i-0"],
    "/api/v1/benchmark-runs/{runId}/llm-usage": ["$api/$run/llm-usage"],
    "/api/v1/benchmark-runs/{runId}/kpis": ["$api/$run/kpis"],
    "/api/v1/benchmark-runs/{runId}/evaluations": ["$api/$run/evaluations"],
    "/api/v1/benchmark-runs/{runId}/report": ["$api/$run/report"],
    "/runs/{runId}": ["/runs/$run", "/runs/$run?show=all"],
    "/runs/{runId}/traces": ["/runs/$run/traces"],
    "/runs/{runId}/traces/{traceId:path}": ["/runs/$run/traces/t-0-0"],
    "/runs/{runId}/annotations": ["/runs/$run/annotations"],
    "/runs/{runId}/annotate": ["/runs/$run/annotate"],
    "/runs/{runId}/items": ["/runs/$run/items?item=i-0&base=$base"],
}  # fmt: skip
# Lists, comparisons and charts that contain the run.
OTHER_PATHS = (
    "$api?benchmarkId=$benchmark", "$api.csv?benchmarkId=$benchmark",
    "$api/compare?baseline=$base&candidate=$run",
    "$api/compare?baseline=$base&candidate=$run&metric=$score&judge=$score",
    "$api/compare/items?baseline=$base&candidate=$run",
    "$api/compare/items?baseline=$base&candidate=$run&metric=$score&sort=rise",
    "/api/v1/kpi-history?benchmarkId=$benchmark", "/api/v1/kpi-history.csv?benchmarkId=$benchmark",
    "/api/v1/kpi-history.svg?benchmarkId=$benchmark&agentId=agent-001&kpi=$kpi",
    "/api/v1/kpi-history/trend?benchmarkId=$benchmark&agentId=agent-001&kpi=$kpi",
    "/api/v1/alert-configs/$kpi", "/api/v1/alerts",
    "/", "/runs", "/compare?base=$base&run=$run", "/compare?base=$base&run=$run&layout=case",
    "/benchmarks/$benchmark", "/benchmarks/$benchmark/kpis/$kpi?agent=agent-001",
    "/benchmarks/$benchmark/power?drop=0.1", "/agents/agent-001", "/alerts/$kpi?days=90", "/inbox",
)  # fmt: skip


def test_routes_of_a_run__are_all_read_here() -> None:
    declared = {
        f"{prefix}{router.prefix}{route.path}"
        for prefix, routers in ((PREFIX, ROUTERS), ("", PAGES))
        for router in routers
        for route in router.routes
        if route.method == "GET"
    }
    of_run = {path for path in declared if "{runId}" in path and not path.endswith("/events")}
    assert of_run == {*RUN_ROUTES}


def extreme_benchmark() -> RandomBenchmark:
    """The largest and the smallest numbers, whose sums or squares are no floats."""
    formulas = {
        **{name: FORMULAS[name] for name in ("squared", "quotient", "score percentile", "spread")},
        "score": 'SCORE["x"]',
        "cost": "COST_USD",
    }
    runs = [
        [
            pair(
                number,
                traceId=f"t-{number}-0",
                tags=[f"category:{'ab'[number % 2]}"],
                scores={"x": sign * (-1) ** number * 1.7e308, "y": 5e-324},
                costUsd=cost,
                latencyMs=1.7e308,
            )
            for number in range(8)
        ]
        for sign, cost in ((1, 1e-200), (-1, 1e200))
    ]
    return RandomBenchmark(list_metrics("macro"), formulas, *runs)


class RandomRuns:
    """Two runs over random data of a benchmark, with a rule that watches each of its KPIs."""

    def __init__(self, service: Service, number: int, benchmark: RandomBenchmark) -> None:
        self._service, self._id = service, f"bench-{number}"
        kpis = [
            {
                "id": f"{self._id}-kpi-{index}",
                "name": name,
                "formula": formula,
                # A rule about REGRESSED needs one.
                "direction": "HIGHER_IS_BETTER",
            }
            for index, (name, formula) in enumerate(benchmark.kpis.items())
        ]
        service.create_benchmark(
            self._id, datasetRef=self._id, metrics=benchmark.metrics, measures=kpis
        )
        for kpi in kpis:
            rule = {"id": kpi["id"], "kpi": kpi["id"], "benchmarkId": self._id, "name": kpi["name"]}
            service.post("/alert-configs", {**rule, "condition": "REGRESSED"})
        self._kpi_id = kpis[0]["id"]
        self._runs = [
            self._complete(name, traces)
            for name, traces in (("one", benchmark.baseline), ("two", benchmark.candidate))
        ]

    def _complete(self, name: str, traces: list[JSON]) -> JSON:
        self._service.upload(traces, name=self._id, run_name=name)
        return self._service.complete_run(benchmarkId=self._id, runName=name)

    def check_verdicts(self) -> None:
        for run in self._runs:
            assert run["status"] == "COMPLETED", run["errorMessage"]
            path = f"/benchmark-runs/{run['id']}"
            rows = [
                row
                for name in ("metrics", "kpis")
                for row in self._service.list_items(f"{path}/{name}")
            ]
            verdicts = [run["verdict"], *(row["verdict"] for row in rows)]
            assert None not in verdicts
            assert not FAILED.search(json.dumps(verdicts))

    def check_routes(self) -> None:
        baseline, candidate = self._runs
        parameters = {
            "api": "/api/v1/benchmark-runs", "run": candidate["id"], "base": baseline["id"],
            "benchmark": self._id, "kpi": self._kpi_id, "score": quote('SCORE["x"]'),
        }  # fmt: skip
        for path in (*(path for paths in RUN_ROUTES.values() for path in paths), *OTHER_PATHS):
            response = self._service.client.get(Template(path).substitute(parameters))
            # An invalid run, or one without this item, is refused.
            assert response.status_code in (200, 404, 409), f"{path}: {response.text}"
            if "json" in response.headers["content-type"]:
                response.json()
        power = self._service.send("POST", f"/benchmarks/{self._id}/power", {"drop": 0.1})
        assert power.status_code in (200, 409), power.text


def test_runs_of_extreme_numbers__keep_their_verdicts_and_no_route_is_5xx(service: Service) -> None:
    service.create_agent()
    runs = RandomRuns(service, 0, extreme_benchmark())
    runs.check_verdicts()
    runs.check_routes()


@pytest.mark.prove
def test_random_runs__keep_their_verdicts_and_no_route_is_5xx(service: Service) -> None:
    service.create_agent()
    numbers = iter(range(1000))

    # Runs of earlier examples stay, so no example can be repeated: neither shrunk nor kept.
    @settings(
        max_examples=20,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(random_benchmarks())
    def check(benchmark: RandomBenchmark) -> None:
        runs = RandomRuns(service, next(numbers), benchmark)
        runs.check_verdicts()
        runs.check_routes()

    check()
