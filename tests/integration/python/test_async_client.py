"""`mosaico.AsyncClient`: the answers and errors of `Client`, many calls at a time, cancellation."""

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from starlette.types import Message, Receive, Scope, Send

from mosaico import AsyncClient, Client, MosaicoError
from mosaico.sdk import async_client
from tests.integration.python.conftest import NIGHTLY, answers, key_of
from tests.support.http import serving
from tests.support.processes import LIVENESS_S
from tests.support.service import Service, working

# A call of either client.
Use: TypeAlias = Callable[[Any], Any]

READS: dict[str, Callable[[str, str], Use]] = {
    "get": lambda _, run: lambda client: client.get(f"/benchmark-runs/{run}", unused=None),
    "agents": lambda *_: lambda client: client.agents(),
    "benchmarks": lambda *_: lambda client: client.benchmarks(),
    "run": lambda _, run: lambda client: client.run(run),
    "latest run": lambda *_: lambda client: client.run("latest"),
    "runs": lambda *_: lambda client: client.runs(benchmark="nightly", agent=["bot"]),
    "wait": lambda _, run: lambda client: client.wait(run, timeout_s=60),
    "results": lambda base, _: lambda client: client.results(base),
    "metrics": lambda base, _: lambda client: client.metrics(base),
    "kpis": lambda base, _: lambda client: client.kpis(base),
    "kpi_history": lambda *_: lambda client: client.kpi_history(kpi="quality"),
    "compare": lambda base, run: lambda client: client.compare(base, run, metric="ACCURACY"),
    "gate": lambda base, run: lambda client: client.gate(run, baseline=base),
    "gate by name": lambda _, run: lambda client: client.gate(run, max_drop={"accuracy": 0.5}),
}


def async_answers(url: str, key: str, *uses: Use) -> list[Any]:
    """The answers of an AsyncClient, one after the other; a list is read to its end."""

    async def use_all() -> list[Any]:
        async with AsyncClient(url, key) as client:
            return [await complete(use(client)) for use in uses]

    return asyncio.run(use_all())


async def complete(answer: AsyncIterator[Any] | Awaitable[Any]) -> Any:
    return [item async for item in answer] if isinstance(answer, AsyncIterator) else await answer


def address(service: Service) -> tuple[str, str]:
    return str(service.client.base_url), key_of(service)


def test_async_client__gives_the_answers_of_the_client(
    two_runs: tuple[str, str],
    client: Client,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Neither client uses the proxies of the environment.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    uses = [use_runs(*two_runs) for use_runs in READS.values()]
    expected = [
        list(answer) if isinstance(answer, Iterator) else answer
        for answer in (use(client) for use in uses)
    ]
    assert all(expected)
    answers_by_name = zip(READS, async_answers(*address(service), *uses), expected, strict=True)
    for name, answer, expected_answer in answers_by_name:
        assert answer == expected_answer, name


def test_async_client__writes(service: Service, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text("\n".join(json.dumps(row) for row in answers(10)))

    async def use() -> list[object]:
        async with AsyncClient(*address(service)) as client:
            await client.create_agent({"id": "bot", "name": "Support bot"})
            await client.create_benchmark(NIGHTLY)
            dataset = await client.upload(results, name="support", run_name="monday", agent="bot")
            run = await client.start_run("nightly", "bot", run_name="monday")
            with working(service):
                run = await client.wait(run.id)
            pending = await client.start_run("nightly", "bot")
            with pytest.raises(TimeoutError, match="is PENDING after 0 s"):
                await client.wait("latest", timeout_s=0)
            cancelled = await client.cancel(pending.id)
            renamed = await client.patch("/agents/bot", {"name": "Bot"})
            rule = await client.post("/agents", {"id": "other", "name": "Other"})
            await client.delete("/agents/other")
            remaining = [agent.name async for agent in client.agents()]
            return [
                dataset.trace_count,
                run.status,
                cancelled.status,
                renamed["name"],
                rule["id"],
                remaining,
            ]

    assert asyncio.run(use()) == [40, "COMPLETED", "CANCELLED", "Bot", "other", ["Bot"]]


@pytest.mark.parametrize(
    ("key", "use"),
    [
        (None, lambda client: client.run("no-such-run")),
        (None, lambda client: client.wait("no-such-run")),
        (None, lambda client: client.create_benchmark({"id": "x", "evaluates": 1})),
        (None, lambda client: client.gate("no-such-run", max_drop={"ACCURACY": -1.0})),
        (None, lambda client: client.upload("no-file.csv", name="n", run_name="r")),
        (None, lambda client: upload_with(client, columns={"no-such-field": "x"})),
        # The message names the parameters of Python.
        (None, lambda client: upload_with(client, columns={"output": "no-such-column"})),
        ("wrong", lambda client: client.run("x")),
    ],
)
def test_async_client__raises_the_errors_of_the_client(
    service: Service, key: str | None, use: Use
) -> None:
    url, valid_key = address(service)
    with Client(url, key or valid_key) as client:
        assert_same_error(client, use)


def test_async_client__without_a_service_raises_the_error_of_the_client() -> None:
    with Client("http://127.0.0.1:1", "key") as client:
        assert_same_error(client, lambda client: client.run("x"))
        assert_same_error(client, lambda client: client.wait("x"))


def upload_with(client: Any, **options: Any) -> Any:
    return client.upload([{"item": "q", "output": "x"}], name="n", run_name="r", **options)


def assert_same_error(client: Client, use: Use) -> None:
    with pytest.raises(MosaicoError) as expected:
        use(client)
    url, key = str(client._client.base_url), client._client.headers["Authorization"]
    with pytest.raises(MosaicoError) as raised:
        async_answers(url, key.removeprefix("Bearer "), use)
    assert facts_of(raised.value) == facts_of(expected.value)


def facts_of(error: MosaicoError) -> list[object]:
    # A request has an ID of its own, and the libraries say in their own words why they cannot connect.
    extra = {
        name: value
        for name, value in error.extra.items()
        if name not in ("instance", "requestId", "cause")
    }
    return [type(error), error.detail, error.errors, extra]


def test_async_client__has_the_methods_and_parameters_of_the_client() -> None:
    renamed = {"close": "aclose"}
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            twin = getattr(AsyncClient, renamed.get(name, name))
            parameters = inspect.signature(method).parameters
            assert inspect.signature(twin).parameters == parameters, name


class Application:
    """A service whose responses a test writes; `respond` gets the headers of each GET request."""

    def __init__(self, respond: Callable[[dict[str, str], Receive, Send], Awaitable[None]]) -> None:
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        await self._respond(headers, receive, send)


@contextmanager
def client_of(application: Application) -> Iterator[Callable[[], AsyncClient]]:
    with serving(application) as client:
        yield lambda: AsyncClient(str(client.base_url), "key")


def start(content_type: str = "application/json") -> Message:
    headers = [(b"content-type", content_type.encode())]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def body(content: bytes, *, is_last: bool = True) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": not is_last}


def test_async_client__waiting_for_many_runs_keeps_no_request_waiting() -> None:
    streams: list[str] = []
    are_50 = threading.Event()

    async def respond(headers: dict[str, str], receive: Receive, send: Send) -> None:
        if headers["accept"] != "text/event-stream":
            await send(start())
            await send(body(b"{}"))
            return
        streams.append("open")
        if len(streams) == 50:
            are_50.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def use(open_client: Callable[[], AsyncClient]) -> None:
        async with asyncio.timeout(LIVENESS_S), open_client() as client:
            waits = [asyncio.create_task(client.wait("run")) for _ in range(120)]
            assert await asyncio.to_thread(are_50.wait, LIVENESS_S)
            assert await client.get("/agents") == {}
            assert len(streams) == 50
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    with client_of(Application(respond)) as open_client:
        asyncio.run(use(open_client))


def test_async_client__cancelled_call_ends_its_request() -> None:
    started, disconnected = threading.Event(), threading.Event()

    async def respond(_headers: dict[str, str], receive: Receive, _send: Send) -> None:
        started.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    async def use(open_client: Callable[[], AsyncClient]) -> None:
        async with open_client() as client:
            call = asyncio.create_task(client.get("/agents"))
            assert await asyncio.to_thread(started.wait, LIVENESS_S)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            # The client is still open.
            assert await asyncio.to_thread(disconnected.wait, LIVENESS_S)

    with client_of(Application(respond)) as open_client:
        asyncio.run(use(open_client))


def test_async_client__wait_resumes_a_broken_stream_at_the_last_event(
    two_runs: tuple[str, str], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    completed = client.get(f"/benchmark-runs/{two_runs[0]}")
    last_ids: list[str | None] = []

    async def respond(headers: dict[str, str], _receive: Receive, send: Send) -> None:
        last_ids.append(headers.get("last-event-id"))
        document = completed if last_ids[-1] else {**completed, "status": "RUNNING"}
        event = f"id: {len(last_ids)}\ndata: {json.dumps(document)}\n\n"
        await send(start("text/event-stream"))
        # The first connection ends without its last chunk, and so breaks.
        await send(body(event.encode(), is_last=len(last_ids) > 1))

    async def use(open_client: Callable[[], AsyncClient]) -> str:
        async with open_client() as waiting:
            return (await waiting.wait(two_runs[0])).status

    monkeypatch.setattr(async_client, "RECONNECT_S", 0)
    with client_of(Application(respond)) as open_client:
        assert asyncio.run(use(open_client)) == "COMPLETED"
    assert last_ids == [None, "1"]


def test_async_client__cancelled_upload_ends_its_step_before_the_file_is_closed() -> None:
    started, may_go_on = threading.Event(), threading.Event()
    steps: list[str] = []

    @contextmanager
    def open_chunks() -> Iterator[Iterator[bytes]]:
        yield read()
        steps.append("closed")

    def read() -> Iterator[bytes]:
        started.set()
        assert may_go_on.wait(LIVENESS_S)
        steps.append("read")
        yield b"line"

    async def upload() -> None:
        async with async_client._FileThread() as thread:
            async for _ in thread.iterate(await thread.open(open_chunks())):
                raise AssertionError("the call is cancelled before")

    async def use() -> None:
        call = asyncio.create_task(upload())
        assert await asyncio.to_thread(started.wait, LIVENESS_S)
        call.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(use())
    assert steps == ["read", "closed"]
