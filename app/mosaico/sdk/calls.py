"""The calls of `Client` and `AsyncClient`: for each method, its requests and its typed answer."""

import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.comparison.deciders import parse_about
from mosaico.comparison.schemas import Comparison
from mosaico.core.console.api_calls import (
    ApiCall,
    ApiRequest,
    Chunks,
    ItemList,
    fetch_items,
    fetch_model,
    post_request,
    upload_request,
)
from mosaico.core.console.api_responses import parse_response
from mosaico.core.web.page_paths import path_of
from mosaico.gating.rules import GateTerms
from mosaico.gating.stored_gate import gate_run
from mosaico.kpis.schemas import KpiValueView
from mosaico.reporting.comparison_page import ComparedFiles
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.sdk.inputs import require_positive
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.traces.reader_versions import TraceReaderVersion
from mosaico.traces.uploads.schemas import LocalDatasetView

FilterValue: TypeAlias = str | list[str] | None

RUNS = "/benchmark-runs"
# The comparison of two large runs takes minutes.
TIMEOUT_S = 200.0


def agents() -> ItemList[AgentView]:
    return ItemList(partial(parse_response, AgentView), "/agents")


def create_agent(body: Mapping[str, Any]) -> ApiCall[AgentView]:
    return fetch_model(AgentView, post_request("/agents", dict(body)))


def benchmarks() -> ItemList[BenchmarkView]:
    return ItemList(partial(parse_response, BenchmarkView), "/benchmarks")


def create_benchmark(body: Mapping[str, Any]) -> ApiCall[BenchmarkView]:
    return fetch_model(BenchmarkView, post_request("/benchmarks", dict(body)))


def upload(
    chunks: Chunks,
    *,
    name: str,
    run_name: str,
    agent: str | None,
    replace: bool,
    reader: TraceReaderVersion | None,
) -> ApiCall[LocalDatasetView]:
    parameters = {
        "name": name,
        "runName": run_name,
        "agentId": agent,
        "replace": "true" if replace else None,
        "reader": reader.text if reader else None,
    }
    return fetch_model(LocalDatasetView, upload_request("/local-datasets", chunks, parameters))


def start_run(benchmark: str, agent: str, run_name: str | None) -> ApiCall[RunView]:
    body = {"benchmarkId": benchmark, "agentId": agent}
    if run_name:
        body["runName"] = run_name
    return fetch_model(RunView, post_request(RUNS, body))


def run(run_id: str) -> ApiCall[RunView]:
    return fetch_model(RunView, ApiRequest("GET", run_path(run_id)))


def runs(*, benchmark: FilterValue, agent: FilterValue, status: FilterValue) -> ItemList[RunView]:
    filters = {"benchmarkId": benchmark, "agentId": agent, "status": status}
    return ItemList(partial(parse_response, RunView), RUNS, filters)


def cancel(run_id: str) -> ApiCall[RunView]:
    return fetch_model(RunView, post_request(f"{run_path(run_id)}/cancel"))


def results(run_id: str) -> ItemList[TraceResultView]:
    return ItemList(partial(parse_response, TraceResultView), f"{run_path(run_id)}/results")


def metrics(run_id: str) -> ApiCall[list[MetricAggregateView]]:
    return fetch_items(MetricAggregateView, ApiRequest("GET", f"{run_path(run_id)}/metrics"))


def kpis(run_id: str) -> ApiCall[list[KpiValueView]]:
    return fetch_items(KpiValueView, ApiRequest("GET", f"{run_path(run_id)}/kpis"))


def kpi_history(
    *,
    benchmark: FilterValue,
    agent: FilterValue,
    kpi: FilterValue,
    since: datetime | None,
    until: datetime | None,
) -> ItemList[KpiValueView]:
    filters = {
        "benchmarkId": benchmark,
        "agentId": agent,
        "kpi": kpi,
        "from": since.isoformat() if since else None,
        "to": until.isoformat() if until else None,
    }
    return ItemList(partial(parse_response, KpiValueView), "/kpi-history", filters)


def compare(
    base: str, candidate: str, metric: str | None, about: str | None = None
) -> ApiCall[ResultComparison]:
    parameters = {
        "baseline": base,
        "candidate": candidate,
        "metric": metric,
        "about": parse_about(about),
    }
    request = ApiRequest("GET", f"{RUNS}/compare", parameters)
    comparison = yield from fetch_model(Comparison, request)
    return ResultComparison(files=ComparedFiles(comparison=comparison, texts={}))


def gate(
    run_id: str,
    *,
    baseline: str | None,
    max_drop: Mapping[str, float] | None,
    non_inferiority_margins: Mapping[str, float] | None,
    inconclusive_passes: bool | None,
    about: str | None = None,
) -> ApiCall[GateReport]:
    """The metrics must be loaded."""
    terms = GateTerms(
        max_drop=require_positive(max_drop or {}),
        non_inferiority_margins=require_positive(non_inferiority_margins or {}),
        inconclusive_passes=inconclusive_passes,
        is_chosen_baseline=baseline is not None,
        about=parse_about(about),
    )
    result = yield from gate_run(run_id, baseline, terms)
    return GateReport(result=result)


def run_path(run_id: str) -> str:
    """The path of a run in the API."""
    return f"{RUNS}{path_of(run_id)}"


class WaitDeadline:
    """The time until which `wait` waits for the end of a run."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._started_at = time.monotonic()

    def check(self, run: RunView) -> None:
        """Raise `TimeoutError` if the time is over."""
        timeout_s = self._timeout_s
        if timeout_s is not None and time.monotonic() - self._started_at > timeout_s:
            raise TimeoutError(f"run {run.id} is {run.status} after {timeout_s:g} s")
