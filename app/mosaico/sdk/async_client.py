"""The client for async code: the calls of `Client`, in an event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

import anyio
import httpx
from anyio import to_thread

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.core.console.api_calls import (
    ApiCall,
    ApiRequest,
    ItemList,
    QueryValue,
    events_request,
    fetch,
    fetch_json,
    full_id,
    patch_request,
    post_request,
)
from mosaico.core.console.api_responses import (
    JSON,
    check_status,
    translate_errors,
)
from mosaico.core.console.event_stream import EventParser
from mosaico.core.http.client import own_service_async_client
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.kpis.schemas import KpiValueView
from mosaico.runs.cli.progress import RECONNECT_S, RunFollower
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.sdk import calls
from mosaico.sdk.calls import TIMEOUT_S, FilterValue, WaitDeadline
from mosaico.sdk.client import service_at
from mosaico.sdk.inputs import Results, load_metric_plugins, warn_ignored
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.sdk.uploads import open_upload
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.uploads.schemas import LocalDatasetView

P = ParamSpec("P")
T = TypeVar("T")

# A client has 100 connections. Streams last as long as a run, and must not keep requests waiting.
CONCURRENT_REQUESTS = 50
CONCURRENT_STREAMS = 50


class AsyncClient:
    """`Client` for asyncio: the same arguments, methods, answers and errors.

    The calls of several tasks run at the same time: 50 requests, and `wait` for 50 runs; further
    ones wait for their turn. A cancelled call ends its request.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._service = service_at(url, key)
        self._client = own_service_async_client(
            self._service.url, key=self._service.key, timeout_s=timeout_s
        )
        self._request_slots = anyio.Semaphore(CONCURRENT_REQUESTS)
        self._stream_slots = anyio.Semaphore(CONCURRENT_STREAMS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str, **parameters: QueryValue) -> JSON:
        return await self._perform(fetch_json(ApiRequest("GET", path, parameters)))

    async def post(self, path: str, body: JSON | None = None) -> JSON:
        return await self._perform(fetch_json(post_request(path, body)))

    async def patch(self, path: str, body: JSON) -> JSON:
        return await self._perform(fetch_json(patch_request(path, body)))

    async def delete(self, path: str) -> None:
        await self._perform(fetch(ApiRequest("DELETE", path)))

    def agents(self) -> AsyncIterator[AgentView]:
        return self._iterate(calls.agents())

    async def create_agent(self, body: Mapping[str, Any]) -> AgentView:
        return await self._perform(calls.create_agent(body))

    def benchmarks(self) -> AsyncIterator[BenchmarkView]:
        return self._iterate(calls.benchmarks())

    async def create_benchmark(self, body: Mapping[str, Any]) -> BenchmarkView:
        return await self._perform(calls.create_benchmark(body))

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
        read_options: ReadOptions | None = None,
    ) -> LocalDatasetView:
        with messages_for(UserInterface.PYTHON):
            async with _FileThread() as thread:
                upload = await thread.open(
                    open_upload(results, columns, input_format, read_options)
                )
                chunks = thread.iterate(upload.chunks)
                call = calls.upload(
                    chunks, name=name, run_name=run_name, agent=agent, replace=replace,
                    reader=upload.reader,
                )  # fmt: skip
                dataset = await self._perform(call)
        warn_ignored(upload.remarks_on(dataset))
        return dataset

    async def start_run(
        self, benchmark: str, agent: str, *, run_name: str | None = None
    ) -> RunView:
        return await self._perform(calls.start_run(benchmark, agent, run_name))

    async def run(self, run_id: str) -> RunView:
        return await self._perform(calls.run(run_id))

    def runs(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        status: FilterValue = None,
    ) -> AsyncIterator[RunView]:
        return self._iterate(calls.runs(benchmark=benchmark, agent=agent, status=status))

    async def wait(self, run_id: str, *, timeout_s: float | None = None) -> RunView:
        run_id = await self._perform(full_id(calls.RUNS, run_id))
        follower, deadline = RunFollower(), WaitDeadline(timeout_s)
        async with self._stream_slots:
            while True:
                with follower.tolerate_outage(), translate_errors(self._service.url):
                    await self._follow(calls.run_path(run_id), follower, deadline)
                if follower.ended_run is not None:
                    return follower.ended_run
                await anyio.sleep(RECONNECT_S)

    async def cancel(self, run_id: str) -> RunView:
        return await self._perform(calls.cancel(run_id))

    def results(self, run_id: str) -> AsyncIterator[TraceResultView]:
        return self._iterate(calls.results(run_id))

    async def metrics(self, run_id: str) -> list[MetricAggregateView]:
        return await self._perform(calls.metrics(run_id))

    async def kpis(self, run_id: str) -> list[KpiValueView]:
        return await self._perform(calls.kpis(run_id))

    def kpi_history(
        self,
        *,
        benchmark: FilterValue = None,
        agent: FilterValue = None,
        kpi: FilterValue = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[KpiValueView]:
        history = calls.kpi_history(
            benchmark=benchmark, agent=agent, kpi=kpi, since=since, until=until
        )
        return self._iterate(history)

    async def compare(
        self, base: str, candidate: str, *, metric: str | None = None, about: str | None = None
    ) -> ResultComparison:
        await to_thread.run_sync(load_metric_plugins)
        return await self._perform(calls.compare(base, candidate, metric, about))

    async def gate(
        self,
        run_id: str,
        *,
        baseline: str | None = None,
        max_drop: Mapping[str, float] | None = None,
        non_inferiority_margins: Mapping[str, float] | None = None,
        inconclusive_passes: bool | None = None,
        about: str | None = None,
    ) -> GateReport:
        await to_thread.run_sync(load_metric_plugins)
        call = calls.gate(
            run_id,
            baseline=baseline,
            max_drop=max_drop,
            non_inferiority_margins=non_inferiority_margins,
            inconclusive_passes=inconclusive_passes,
            about=about,
        )
        return await self._perform(call)

    async def _perform(self, call: ApiCall[T]) -> T:
        """`ApiClient.perform`."""
        try:
            request = next(call)
            while True:
                request = call.send(await self._send(request))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _iterate(self, items: ItemList[T]) -> AsyncIterator[T]:
        while items.has_more:
            for item in await self._perform(items.next_page()):
                yield item

    async def _send(self, request: ApiRequest) -> httpx.Response:
        with translate_errors(self._service.url):
            async with self._request_slots:
                response = await self._client.request(**request.arguments)
        return check_status(response, self._service.key_source)

    async def _follow(self, path: str, follower: RunFollower, deadline: WaitDeadline) -> None:
        """Follow a run over one connection, until it closes or the run has ended."""
        parser = EventParser()
        request = events_request(f"{path}/events", follower.last_id)
        async with self._client.stream(**request.arguments) as response:
            # A streamed response has no body until it is read, and the error is in the body.
            if not response.is_success:
                await response.aread()
            check_status(response, self._service.key_source)
            async for line in response.aiter_lines():
                event = parser.read_line(line)
                run = follower.read(event) if event else None
                if run is not None:
                    if run.status.is_final:
                        return
                    deadline.check(run)


class _FileThread:
    """A thread for the steps of reading a file, one after the other.

    It closes the file too: a cancelled call may leave a step behind, during which nobody else may.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "upload")
        self._files = ExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        closing = self._run(self._files.close)
        self._executor.shutdown(wait=False)
        await asyncio.shield(closing)

    async def open(self, file: AbstractContextManager[T]) -> T:
        """Enter a context, which is left with this one."""
        return await self._run(self._files.enter_context, file)

    async def iterate(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, which are not empty."""
        while chunk := await self._run(next, chunks, b""):
            yield chunk

    def _run(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> "asyncio.Future[T]":
        # The thread reads with the context of the caller, such as how messages name parameters.
        step = partial(function, *args, **kwargs)
        return asyncio.wrap_future(self._executor.submit(copy_context().run, step))
