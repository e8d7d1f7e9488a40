"""A client of the service's REST API with typed answers."""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeAlias, TypeVar

from pydantic import BaseModel

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.comparison.schemas import Comparison
from mosaico.core.console.api_client import MAX_PAGE_SIZE, ApiClient, QueryValue, parse_response
from mosaico.core.console.service_address import find_service
from mosaico.core.http.client import own_service_client
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.core.web.page_paths import path_of
from mosaico.gating.rules import GateTerms
from mosaico.gating.stored_gate import gate_run
from mosaico.kpis.schemas import KpiValueView
from mosaico.reporting.comparison_page import ComparedFiles
from mosaico.runs.cli.progress import follow_run
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.sdk.inputs import (
    Results,
    load_metric_plugins,
    open_reader,
    require_positive,
    source_of,
    warn_ignored,
)
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.traces.files.ignored_fields import NOT_USED
from mosaico.traces.uploads.schemas import LocalDatasetView

JSON = dict[str, Any]
FilterValue: TypeAlias = str | list[str] | None
M = TypeVar("M", bound=BaseModel)

# The comparison of two large runs takes minutes.
TIMEOUT_S = 200.0


class Client:
    """The service at a URL; without one, the service that the command line finds.

    Bodies are as in the API (camelCase), answers are typed. Iterators read page by page. `get`,
    `post`, `patch` and `delete` reach every route of `/api/v1`, and return the JSON document. One
    client may be used by several threads. `timeout_s` bounds each request.
    Raises, from every method: the error that the service reports, as `NotFound`, `Invalid` …;
    `Unavailable` when it is busy, and a `MosaicoError` when it does not respond.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        key_source = "the argument `key`"
        if url is None:
            url, found_key, key_source = find_service()
            key = key or found_key
        self._client = own_service_client(url, key=key, timeout_s=timeout_s)
        self._api = ApiClient(self._client, key_source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **parameters: QueryValue) -> JSON:
        """The document at a path such as `/alerts`."""
        return self._api.get(path, **parameters)

    def post(self, path: str, body: JSON | None = None) -> JSON:
        """The response to a POST request."""
        return self._api.post(path, body)

    def patch(self, path: str, body: JSON) -> JSON:
        """Change the fields in `body`; returns the changed document."""
        return self._api.patch(path, body)

    def delete(self, path: str) -> None:
        """Delete the resource at a path."""
        self._api.delete(path)

    def agents(self) -> Iterator[AgentView]:
        """All agents."""
        return _flatten(self._pages(AgentView, "/agents"))

    def create_agent(self, body: Mapping[str, Any]) -> AgentView:
        """Create an agent: `{"id": "bot", "name": "Support bot"}`."""
        return parse_response(AgentView, self.post("/agents", dict(body)))

    def benchmarks(self) -> Iterator[BenchmarkView]:
        """All benchmarks."""
        return _flatten(self._pages(BenchmarkView, "/benchmarks"))

    def create_benchmark(self, body: Mapping[str, Any]) -> BenchmarkView:
        """Create a benchmark, with the body of `POST /benchmarks`."""
        return parse_response(BenchmarkView, self.post("/benchmarks", dict(body)))

    @messages_for(UserInterface.PYTHON)
    def upload(
        self,
        results: Results,
        *,
        name: str,
        run_name: str,
        agent: str | None = None,
        replace: bool = False,
        columns: Mapping[str, str] | None = None,
        input_format: str | None = None,
    ) -> LocalDatasetView:
        """Upload results as a run of a dataset. Results and `columns` as for `mosaico.score`.

        With one invalid row, nothing is stored. `agent` is the ID of the agent whose results these
        are. `replace` replaces an earlier upload of the run. Columns and keys that are not used are
        warnings.
        """
        remarks: list[str] = []
        reader = open_reader(remarks, columns, input_format)
        parameters = {
            "name": name,
            "runName": run_name,
            "agentId": agent,
            "replace": "true" if replace else None,
        }
        with reader.upload_lines(source_of(results, "results")) as lines:
            document = self._api.upload("/local-datasets", lines, parameters)
        dataset = parse_response(LocalDatasetView, document)
        if dataset.ignored_keys:
            remarks.append(f"keys {NOT_USED}: {', '.join(dataset.ignored_keys)}")
        warn_ignored(remarks)
        return dataset

    def start_run(self, benchmark: str, agent: str, *, run_name: str | None = None) -> RunView:
        """Start a run; it proceeds in the background. `run_name` selects a run of the dataset."""
        body = {"benchmarkId": benchmark, "agentId": agent}
        return parse_response(
            RunView,
            self.post("/benchmark-runs", body | ({"runName": run_name} if run_name else {})),
        )

    def run(self, run_id: str) -> RunView:
        """A run by its ID."""
        return self._api.read(RunView, _run_path(run_id))

    def runs(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        status: FilterValue = None,
    ) -> Iterator[RunView]:
        """The runs, newest first. A filter is a value or a list of values."""
        filters: dict[str, QueryValue] = {
            "benchmarkId": benchmark,
            "agentId": agent,
            "status": status,
        }
        return _flatten(self._pages(RunView, "/benchmark-runs", **filters))

    def wait(self, run_id: str, *, timeout_s: float | None = None) -> RunView:
        """The run once it has ended, whatever its status is.

        The service reports at least every 15 s, and the time is checked then.
        Raises: `TimeoutError` when the run has not ended after `timeout_s`.
        """
        started_at = time.monotonic()
        for run in follow_run(self._api, _run_path(run_id)):
            if run.status.is_final:
                return run
            if timeout_s is not None and time.monotonic() - started_at > timeout_s:
                raise TimeoutError(f"run {run_id} is {run.status} after {timeout_s:g} s")
        raise AssertionError("the last run of follow_run has ended")

    def cancel(self, run_id: str) -> RunView:
        """Cancel a pending or running run."""
        return parse_response(RunView, self.post(f"{_run_path(run_id)}/cancel"))

    def results(self, run_id: str) -> Iterator[TraceResultView]:
        """The measured traces of a run, in the order of the source."""
        return _flatten(self._pages(TraceResultView, f"{_run_path(run_id)}/results"))

    def metrics(self, run_id: str) -> list[MetricAggregateView]:
        """The metrics of a completed run."""
        return self._api.read_items(MetricAggregateView, f"{_run_path(run_id)}/metrics")

    def kpis(self, run_id: str) -> list[KpiValueView]:
        """The KPIs of a completed run."""
        return self._api.read_items(KpiValueView, f"{_run_path(run_id)}/kpis")

    def kpi_history(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        kpi: FilterValue = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[KpiValueView]:
        """The KPI values of completed runs, newest first; `kpi` is an ID or a name.

        A filter is a value or a list of values; `since` and `until` limit the time at which the
        run ended.
        """
        filters: dict[str, QueryValue] = {
            "benchmarkId": benchmark,
            "agentId": agent,
            "kpi": kpi,
            "from": since.isoformat() if since else None,
            "to": until.isoformat() if until else None,
        }
        return _flatten(self._pages(KpiValueView, "/kpi-history", **filters))

    def compare(self, base: str, candidate: str, *, metric: str | None = None) -> ResultComparison:
        """The comparison of two runs; `metric` is the one whose flipped items are listed."""
        comparison = self._api.read(
            Comparison, "/benchmark-runs/compare", baseline=base, candidate=candidate, metric=metric
        )
        return ResultComparison(files=ComparedFiles(comparison=comparison, texts={}))

    def gate(
        self,
        run_id: str,
        *,
        baseline: str | None = None,
        max_drop: Mapping[str, float] | None = None,
        non_inferiority_margins: Mapping[str, float] | None = None,
        inconclusive_passes: bool | None = None,
    ) -> GateReport:
        """Return whether a run passes against another run, by default its own baseline.

        The options are those of `mosaico.gate`.
        """
        terms = GateTerms(
            max_drop=require_positive(max_drop or {}),
            non_inferiority_margins=require_positive(non_inferiority_margins or {}),
            inconclusive_passes=inconclusive_passes,
            is_chosen_baseline=baseline is not None,
        )
        load_metric_plugins()
        return GateReport(result=gate_run(self._api, run_id, baseline, terms))

    def _pages(self, model: type[M], path: str, **filters: QueryValue) -> Iterator[list[M]]:
        cursor = None
        while True:
            page = self.get(path, limit=MAX_PAGE_SIZE, cursor=cursor, **filters)
            yield [parse_response(model, item) for item in page["items"]]
            cursor = page["nextCursor"]
            if cursor is None:
                return


def _run_path(run_id: str) -> str:
    return f"/benchmark-runs{path_of(run_id)}"


def _flatten(pages: Iterator[list[M]]) -> Iterator[M]:
    return (item for page in pages for item in page)
