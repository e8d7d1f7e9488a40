"""The async HTTP client: same network policy and limits as the sync client, also inside an SDK."""

import asyncio
import threading
from collections.abc import Sequence
from ipaddress import ip_address

import httpx2
import pytest

from mosaico.core.http.async_client import outbound_async_client
from mosaico.core.http.transport import OversizedResponse
from mosaico.core.network_policy import (
    PRIVATE_SERVERS,
    PUBLIC_ONLY,
    IPAddress,
    OutboundPolicy,
    RefusedAddress,
    Resolver,
    resolve_name,
)
from mosaico.llm.conversation import Provider, TurnSettings, user_message
from mosaico.llm.errors import LlmError
from mosaico.llm.providers import open_llm
from tests.support.model_server import ModelServer, RawReply, model_server
from tests.support.waiting import LIVENESS_S

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")


def post_request(
    url: str,
    policy: OutboundPolicy = PRIVATE_SERVERS,
    *,
    resolve: Resolver = resolve_name,
    timeout_s: float = 10,
    max_bytes: int = 1000,
) -> httpx2.Response:
    async def post() -> httpx2.Response:
        client = outbound_async_client(
            timeout_s=timeout_s, max_bytes=max_bytes, policy=policy, resolve=resolve
        )
        async with client:
            return await client.post(url, json={"messages": [{"role": "user", "content": "?"}]})

    return asyncio.run(post())


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://[::1]:9/",
        # 127.0.0.1 as a number.
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data",
        "http://inside.example/",
        "ftp://93.184.216.34/",
        "http://user:word@93.184.216.34/",
        # A public address at a port that is not that of its scheme.
        "http://93.184.216.34:443/",
        "http://93.184.216.34:22/",
    ],
)
def test_outbound__internal_address_is_not_dialed(url: str) -> None:
    def resolve_internal(host: str, port: int) -> Sequence[IPAddress]:
        return [ip_address("10.0.0.7")] if host == "inside.example" else resolve_name(host, port)

    with pytest.raises(RefusedAddress):
        post_request(url, PUBLIC_ONLY, resolve=resolve_internal)


def test_outbound__response_is_not_read_beyond_its_limit() -> None:
    with (
        model_server(lambda _: RawReply(status=200, body=b"x" * 1001)) as server,
        pytest.raises(OversizedResponse),
    ):
        post_request(server.url)


def test_outbound__request_ends_at_its_deadline() -> None:
    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        try:
            while True:
                # Each byte comes before any limit of a single read.
                writer.write(b"x")
                await asyncio.sleep(0.02)
        finally:
            writer.transport.abort()

    async def get() -> None:
        server = await asyncio.start_server(trickle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = outbound_async_client(timeout_s=1.0, max_bytes=5000, policy=PRIVATE_SERVERS)
        async with server, client:
            await client.get(f"http://127.0.0.1:{port}/")

    with pytest.raises(httpx2.ReadTimeout):
        asyncio.run(get())


@pytest.mark.parametrize("turns", [1, 2])
def test_outbound__closes_each_connection_when_it_is_cancelled_meanwhile(turns: int) -> None:
    """A run that has its last trace cancels its requests, which may close their connections then."""
    count = 3
    closed: list[bytes] = []

    async def close() -> None:
        all_connected, all_closed = asyncio.Barrier(count), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            # No request finds an idle connection.
            await all_connected.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            closed.append(await reader.read())
            writer.close()
            if len(closed) == count:
                all_closed.set()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        client = outbound_async_client(timeout_s=LIVENESS_S, max_bytes=1000, policy=PRIVATE_SERVERS)
        async with server:
            await asyncio.gather(*(client.get(address) for _ in range(count)))
            closing = asyncio.create_task(client.aclose())
            for _ in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            async with asyncio.timeout(LIVENESS_S):
                await all_closed.wait()

    asyncio.run(close())
    assert closed == [b""] * count


def test_outbound__slow_name_resolution_ends_at_the_deadline() -> None:
    released, finished = threading.Event(), []

    def stuck(_host: str, _port: int) -> Sequence[IPAddress]:
        released.wait(LIVENESS_S)
        finished.append(True)
        return []

    with pytest.raises(httpx2.ReadTimeout):
        post_request("http://slow.example/", resolve=stuck, timeout_s=0.2)
    # Nobody waits for the thread of the resolver.
    assert not finished
    released.set()


@pytest.mark.parametrize(
    "provider", [entry for entry in Provider if entry is not Provider.SCRIPTED]
)
def test_outbound__sdk_gets_the_refused_address_without_retries(provider: Provider) -> None:
    def ask(server: ModelServer, policy: OutboundPolicy, max_bytes: int) -> LlmError:
        async def turn() -> None:
            http = outbound_async_client(timeout_s=LIVENESS_S, max_bytes=max_bytes, policy=policy)
            llm = open_llm(
                provider,
                "m",
                base_url=server.url,
                settings=TurnSettings(),
                environment={},
                http=http,
            )
            try:
                await llm.turn("system", [user_message("?")], [])
            finally:
                await llm.close()

        with pytest.raises(LlmError) as caught:
            asyncio.run(turn())
        return caught.value

    with model_server(lambda _: RawReply(status=200, body=b" " * 2000)) as server:
        failure = ask(server, PUBLIC_ONLY, 1000)
        assert failure.final
        assert "MOSAICO_OUTBOUND_ALLOW" in failure.reason
        assert server.requests == []
        failure = ask(server, PRIVATE_SERVERS, 1000)
        assert not failure.final
        assert "larger than 1000 bytes" in failure.reason
        assert len(server.requests) == 1
