"""The client for async code: the requests of `Client`, in threads, so that the event loop goes on."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar

from anyio import to_thread

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.core.console.api_calls import MAX_PAGE_SIZE, QueryValue
from mosaico.core.console.api_responses import JSON
from mosaico.kpis.schemas import KpiValueView
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.sdk.calls import TIMEOUT_S, FilterValue
from mosaico.sdk.client import Client
from mosaico.sdk.inputs import Results
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.traces.uploads.schemas import LocalDatasetView

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """`Client` for async code: the same arguments, methods, answers and errors.

    A cancelled call returns at once; its request ends in the background.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._client = Client(url, key, timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await _in_thread(self._client.close)

    async def get(self, path: str, **parameters: QueryValue) -> JSON:
        return await _in_thread(self._client.get, path, **parameters)

    async def post(self, path: str, body: JSON | None = None) -> JSON:
        return await _in_thread(self._client.post, path, body)

    async def patch(self, path: str, body: JSON) -> JSON:
        return await _in_thread(self._client.patch, path, body)

    async def delete(self, path: str) -> None:
        await _in_thread(self._client.delete, path)

    def agents(self) -> AsyncIterator[AgentView]:
        return _iterate(self._client.agents())

    async def create_agent(self, body: Mapping[str, Any]) -> AgentView:
        return await _in_thread(self._client.create_agent, body)

    def benchmarks(self) -> AsyncIterator[BenchmarkView]:
        return _iterate(self._client.benchmarks())

    async def create_benchmark(self, body: Mapping[str, Any]) -> BenchmarkView:
        return await _in_thread(self._client.create_benchmark, body)

    async def upload(
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
        return await _in_thread(
            self._client.upload,
            results,
            name=name,
            run_name=run_name,
            agent=agent,
            replace=replace,
            columns=columns,
            input_format=input_format,
        )

    async def start_run(
        self, benchmark: str, agent: str, *, run_name: str | None = None
    ) -> RunView:
        return await _in_thread(self._client.start_run, benchmark, agent, run_name=run_name)

    async def run(self, run_id: str) -> RunView:
        return await _in_thread(self._client.run, run_id)

    def runs(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        status: FilterValue = None,
    ) -> AsyncIterator[RunView]:
        return _iterate(self._client.runs(benchmark=benchmark, agent=agent, status=status))

    async def wait(self, run_id: str, *, timeout_s: float | None = None) -> RunView:
        return await _in_thread(self._client.wait, run_id, timeout_s=timeout_s)

    async def cancel(self, run_id: str) -> RunView:
        return await _in_thread(self._client.cancel, run_id)

    def results(self, run_id: str) -> AsyncIterator[TraceResultView]:
        return _iterate(self._client.results(run_id))

    async def metrics(self, run_id: str) -> list[MetricAggregateView]:
        return await _in_thread(self._client.metrics, run_id)

    async def kpis(self, run_id: str) -> list[KpiValueView]:
        return await _in_thread(self._client.kpis, run_id)

    def kpi_history(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        kpi: FilterValue = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[KpiValueView]:
        history = self._client.kpi_history(
            benchmark=benchmark, agent=agent, kpi=kpi, since=since, until=until
        )
        return _iterate(history)

    async def compare(
        self, base: str, candidate: str, *, metric: str | None = None
    ) -> ResultComparison:
        return await _in_thread(self._client.compare, base, candidate, metric=metric)

    async def gate(
        self,
        run_id: str,
        *,
        baseline: str | None = None,
        max_drop: Mapping[str, float] | None = None,
        non_inferiority_margins: Mapping[str, float] | None = None,
        inconclusive_passes: bool | None = None,
    ) -> GateReport:
        return await _in_thread(
            self._client.gate,
            run_id,
            baseline=baseline,
            max_drop=max_drop,
            non_inferiority_margins=non_inferiority_margins,
            inconclusive_passes=inconclusive_passes,
        )


async def _in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return await to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True)


async def _iterate(items: Iterator[T]) -> AsyncIterator[T]:
    # One call of a thread for as many items as a page has.
    while batch := await _in_thread(list, islice(items, MAX_PAGE_SIZE)):
        for item in batch:
            yield item
