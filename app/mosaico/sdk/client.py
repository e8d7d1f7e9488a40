"""A client of the service's REST API with typed answers."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.core.console.api_calls import QueryValue
from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.api_responses import JSON
from mosaico.core.console.service_address import ServiceAddress, find_service
from mosaico.core.http.client import own_service_client
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.kpis.schemas import KpiValueView
from mosaico.runs.cli.progress import follow_run
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.sdk import calls
from mosaico.sdk.calls import TIMEOUT_S, FilterValue, WaitDeadline
from mosaico.sdk.inputs import Results, load_metric_plugins, warn_ignored
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.sdk.uploads import open_upload
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.uploads.schemas import LocalDatasetView


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
        service = service_at(url, key)
        self._client = own_service_client(service.url, key=service.key, timeout_s=timeout_s)
        self._api = ApiClient(self._client, service.key_source)

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
        return self._api.iterate(calls.agents())

    def create_agent(self, body: Mapping[str, Any]) -> AgentView:
        """Create an agent: `{"id": "bot", "name": "Support bot"}`."""
        return self._api.perform(calls.create_agent(body))

    def benchmarks(self) -> Iterator[BenchmarkView]:
        """All benchmarks."""
        return self._api.iterate(calls.benchmarks())

    def create_benchmark(self, body: Mapping[str, Any]) -> BenchmarkView:
        """Create a benchmark, with the body of `POST /benchmarks`."""
        return self._api.perform(calls.create_benchmark(body))

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
        read_options: ReadOptions | None = None,
    ) -> LocalDatasetView:
        """Upload results as a run of a dataset. Results and `columns` as for `mosaico.score`.

        With one invalid row, nothing is stored. `agent` is the ID of the agent whose results these
        are. `replace` replaces an earlier upload of the run. Columns and keys that are not used are
        warnings.
        """
        with open_upload(results, columns, input_format, read_options) as upload:
            call = calls.upload(
                upload.chunks, name=name, run_name=run_name, agent=agent, replace=replace,
                reader=upload.reader,
            )  # fmt: skip
            dataset = self._api.perform(call)
        warn_ignored(upload.remarks_on(dataset))
        return dataset

    def start_run(self, benchmark: str, agent: str, *, run_name: str | None = None) -> RunView:
        """Start a run; it proceeds in the background. `run_name` selects a run of the dataset."""
        return self._api.perform(calls.start_run(benchmark, agent, run_name))

    def run(self, run_id: str) -> RunView:
        """A run by its ID."""
        return self._api.perform(calls.run(run_id))

    def runs(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        status: FilterValue = None,
    ) -> Iterator[RunView]:
        """The runs, newest first. A filter is a value or a list of values."""
        return self._api.iterate(calls.runs(benchmark=benchmark, agent=agent, status=status))

    def wait(self, run_id: str, *, timeout_s: float | None = None) -> RunView:
        """The run once it has ended, whatever its status is.

        The service reports at least every 15 s, and the time is checked then.
        Raises: `TimeoutError` when the run has not ended after `timeout_s`.
        """
        # Once: `latest` may be another run a moment later.
        run_id = self._api.full_id(calls.RUNS, run_id)
        deadline = WaitDeadline(timeout_s)
        for run in follow_run(self._api, calls.run_path(run_id)):
            if run.status.is_final:
                return run
            deadline.check(run)
        raise AssertionError("the last run of follow_run has ended")

    def cancel(self, run_id: str) -> RunView:
        """Cancel a pending or running run."""
        return self._api.perform(calls.cancel(run_id))

    def results(self, run_id: str) -> Iterator[TraceResultView]:
        """The measured traces of a run, in the order of the source."""
        return self._api.iterate(calls.results(run_id))

    def metrics(self, run_id: str) -> list[MetricAggregateView]:
        """The metrics of a completed run."""
        return self._api.perform(calls.metrics(run_id))

    def kpis(self, run_id: str) -> list[KpiValueView]:
        """The KPIs of a completed run."""
        return self._api.perform(calls.kpis(run_id))

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
        history = calls.kpi_history(
            benchmark=benchmark, agent=agent, kpi=kpi, since=since, until=until
        )
        return self._api.iterate(history)

    def compare(
        self, base: str, candidate: str, *, metric: str | None = None, about: str | None = None
    ) -> ResultComparison:
        """The comparison of two runs; `metric` is the one whose flipped items are listed, `about` as for
        `mosaico.compare`.
        """
        # What shows the comparison names its metrics.
        load_metric_plugins()
        return self._api.perform(calls.compare(base, candidate, metric, about))

    def gate(
        self,
        run_id: str,
        *,
        baseline: str | None = None,
        max_drop: Mapping[str, float] | None = None,
        non_inferiority_margins: Mapping[str, float] | None = None,
        inconclusive_passes: bool | None = None,
        about: str | None = None,
    ) -> GateReport:
        """Return whether a run passes against another run, by default its own baseline.

        The options are those of `mosaico.gate`.
        """
        load_metric_plugins()
        call = calls.gate(
            run_id,
            baseline=baseline,
            max_drop=max_drop,
            non_inferiority_margins=non_inferiority_margins,
            inconclusive_passes=inconclusive_passes,
            about=about,
        )
        return self._api.perform(call)


def service_at(url: str | None, key: str | None) -> ServiceAddress:
    """The service at a URL; without one, the service that the command line finds."""
    if url is not None:
        return ServiceAddress(url.rstrip("/"), key, "the argument `key`")
    service = find_service()
    return service._replace(key=key or service.key)
