"""The outbound HTTP client: size limits, deadlines, redirects and checked addresses."""

import gc
import gzip
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from mosaico.core.http.client import outbound_client, redact_credentials
from mosaico.core.http.transport import OversizedResponse
from mosaico.core.network_policy import (
    PRIVATE_SERVERS,
    PUBLIC_ONLY,
    IPAddress,
    OutboundPolicy,
    RefusedAddress,
    parse_networks,
)
from tests.support.http import serving
from tests.support.waiting import LIVENESS_S

MIB = 1024 * 1024
LOOPBACK_ONLY = OutboundPolicy(allowed=parse_networks("127.0.0.0/8"))


def strangers_server() -> FastAPI:  # noqa: C901 - one small route per misbehaviour
    app = FastAPI()

    @app.get("/headers")
    def headers(request: Request) -> dict[str, str]:
        return dict(request.headers)

    @app.get("/zipped")
    def zipped() -> Response:
        body = gzip.compress(b"x" * 10_000)
        return Response(body, headers={"Content-Encoding": "gzip"}, media_type="text/plain")

    @app.get("/bomb")
    def bomb() -> Response:
        # 100 MiB of zeros are some 100 KiB with gzip (wbits 31), less than the limit.
        packer = zlib.compressobj(wbits=31)
        body = b"".join(packer.compress(b"\0" * MIB) for _ in range(100)) + packer.flush()
        return Response(body, headers={"Content-Encoding": "gzip"})

    @app.get("/cut")
    def cut() -> Response:
        return Response(gzip.compress(b"x" * 9999)[:-12], headers={"Content-Encoding": "gzip"})

    @app.get("/more")
    def more() -> Response:
        body = gzip.compress(b"x" * 9999) + b"y" * MIB
        return Response(body, headers={"Content-Encoding": "gzip"})

    @app.get("/nothing")
    def nothing() -> Response:
        return Response(status_code=204, headers={"Content-Encoding": "gzip"})

    @app.get("/strange")
    def strange() -> Response:
        return Response(b"x", headers={"Content-Encoding": "br"})

    @app.get("/large")
    def large() -> Response:
        return Response(b"x" * 2 * MIB)

    @app.get("/trickle")
    def trickle() -> StreamingResponse:
        def drops() -> Iterator[bytes]:
            for _ in range(2_000):
                yield b"x"
                time.sleep(0.05)

        return StreamingResponse(drops())

    @app.get("/away")
    def away() -> RedirectResponse:
        return RedirectResponse("http://169.254.169.254/latest/meta-data")

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(strangers_server()) as client:
        yield str(client.base_url)


@pytest.fixture
def outbound() -> Iterator[httpx.Client]:
    with outbound_client(timeout_s=LIVENESS_S, max_bytes=MIB, policy=PRIVATE_SERVERS) as client:
        yield client


def test_outbound_client__dropped_response_is_freed_at_once(
    url: str, outbound: httpx.Client
) -> None:
    # Responses are large: none may wait in a cycle for the garbage collector.
    gc.disable()
    try:
        response = weakref.ref(outbound.get(f"{url}/zipped"))
        assert response() is None
    finally:
        gc.enable()


def test_outbound_client__response_is_read_up_to_the_size_limit(
    url: str, outbound: httpx.Client
) -> None:
    with pytest.raises(OversizedResponse, match="1048576 bytes"):
        outbound.get(f"{url}/large")


def test_outbound_client__size_limit_counts_decompressed_bytes(
    url: str, outbound: httpx.Client
) -> None:
    with pytest.raises(OversizedResponse):
        outbound.get(f"{url}/bomb")


@pytest.mark.parametrize("path", ["cut", "more", "strange"])
def test_outbound_client__invalid_compression_is_an_error(
    path: str, url: str, outbound: httpx.Client
) -> None:
    with pytest.raises(httpx.DecodingError):
        outbound.get(f"{url}/{path}")


def test_outbound_client__empty_body_is_empty_with_any_encoding(
    url: str, outbound: httpx.Client
) -> None:
    assert outbound.get(f"{url}/nothing").content == b""


def test_outbound_client__slow_response_ends_at_the_deadline(url: str) -> None:
    # 2,000 drops, one each 0.05 s, would take 100 s; none of them alone is late.
    with (
        outbound_client(timeout_s=0.5, max_bytes=MIB, policy=PRIVATE_SERVERS) as client,
        pytest.raises(httpx.TimeoutException),
    ):
        client.get(f"{url}/trickle")


def test_outbound_client__slow_name_resolution_ends_at_the_deadline(url: str) -> None:
    over = threading.Event()

    def stuck(_host: str, _port: int) -> list[IPAddress]:
        over.wait(LIVENESS_S)
        return []

    with outbound_client(
        timeout_s=0.2, max_bytes=MIB, policy=PRIVATE_SERVERS, resolve=stuck
    ) as client:
        with pytest.raises(httpx.ConnectTimeout, match="not resolved in time"):
            client.get(url)
        over.set()


def test_outbound_client__redirects_are_not_followed(url: str, outbound: httpx.Client) -> None:
    assert outbound.get(f"{url}/away").status_code == 307


def test_outbound_client__proxies_of_the_environment_are_ignored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with outbound_client(timeout_s=LIVENESS_S, max_bytes=MIB, policy=PRIVATE_SERVERS) as client:
        assert client.get(f"{url}/headers").status_code == 200


def test_outbound_client__refused_connection_is_a_transport_error(outbound: httpx.Client) -> None:
    with pytest.raises(httpx.ConnectError):
        outbound.get("http://127.0.0.1:1/")


def test_outbound_client__redirect_target_is_checked_too(url: str, outbound: httpx.Client) -> None:
    with pytest.raises(RefusedAddress, match="never called"):
        outbound.get(f"{url}/away", follow_redirects=True)


def test_outbound_client__connects_to_the_checked_address_despite_dns_rebinding(url: str) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.7"], ["169.254.169.254"]])

    def rebinding(host: str, port: int) -> Sequence[IPAddress]:
        return [ip_address(address) for address in next(answers)]

    port = httpx.URL(url).port
    with outbound_client(
        timeout_s=LIVENESS_S, max_bytes=MIB, policy=LOOPBACK_ONLY, resolve=rebinding
    ) as client:
        response = client.get(f"http://rebind.example:{port}/headers")
        assert response.json()["host"] == f"rebind.example:{port}"
        for _ in range(2):
            with pytest.raises(RefusedAddress):
                # A name of its own to the pool, which would reuse the first connection.
                client.get(f"http://rebind.example.:{port}/headers")


def test_outbound_client__local_server_is_refused_unless_allowed(url: str) -> None:
    with (
        outbound_client(timeout_s=LIVENESS_S, max_bytes=MIB, policy=PUBLIC_ONLY) as client,
        pytest.raises(RefusedAddress, match=r"MOSAICO_OUTBOUND_ALLOW=127\.0\.0\.1/32"),
    ):
        client.get(f"{url}/headers")


def test_redact_credentials__removes_credentials_that_a_server_repeats() -> None:
    # base64 of "me:s3cret-key"
    request = httpx.Request(
        "GET", "https://x/", headers={"Authorization": "Basic bWU6czNjcmV0LWtleQ=="}
    )
    server_text = 'no "Basic bWU6czNjcmV0LWtleQ==", me:s3cret-key, s3cret-key'
    redacted_text = redact_credentials(server_text, request)
    assert redacted_text == 'no "Basic [redacted]", [redacted], [redacted]'
    bearer = httpx.Request("GET", "https://x/", headers={"Authorization": "Bearer t0ken"})
    assert redact_credentials("your t0ken", bearer) == "your [redacted]"
    assert redact_credentials("nothing", httpx.Request("GET", "https://x/")) == "nothing"
