"""What is sent compressed: static files and pages without secrets, to clients that accept it."""

import gzip
from typing import Final

import httpx
import pytest
from starlette.datastructures import Headers

from mosaico.core.web.compression import accepts_gzip
from mosaico.core.web.static_files import asset_url, read_asset
from tests.support.every_page import write_every_page
from tests.support.service import Service

PAGE: Final = {
    "Accept": "text/html",
    "Accept-Encoding": "gzip, deflate, br",
    "Sec-Fetch-Site": "same-origin",
}
PLAIN: Final = {**PAGE, "Accept-Encoding": "identity"}
SWAGGER: Final = "/swagger-files/swagger-ui-bundle.js"


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    return module_service


def fetch_raw(service: Service, path: str, headers: dict[str, str]) -> tuple[httpx.Response, bytes]:
    """A response and its body as it was sent."""
    with service.client.stream("GET", path, headers=headers) as response:
        return response, b"".join(response.iter_raw())


@pytest.mark.parametrize("name", ["app.css", "app.js", "theme.js", "icon.svg"])
def test_asset__is_sent_compressed_and_kept_forever(name: str, service: Service) -> None:
    response, body = fetch_raw(service, asset_url(name), PAGE)
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["vary"] == "Accept-Encoding"
    assert "immutable" in response.headers["cache-control"]
    assert gzip.decompress(body) == read_asset(name)
    response, body = fetch_raw(service, asset_url(name), PLAIN)
    assert "content-encoding" not in response.headers
    assert response.headers["vary"] == "Accept-Encoding"
    assert body == read_asset(name)


def test_swagger_files__are_sent_compressed(service: Service) -> None:
    response, body = fetch_raw(service, SWAGGER, PAGE)
    _, plain = fetch_raw(service, SWAGGER, PLAIN)
    assert response.headers["content-encoding"] == "gzip"
    assert len(body) < 0.4 * len(plain)
    assert gzip.decompress(body) == plain
    again = {**PAGE, "If-None-Match": response.headers["etag"]}
    assert service.client.get(SWAGGER, headers=again).status_code == 304
    part, _ = fetch_raw(service, SWAGGER, {**PAGE, "Range": "bytes=0-9"})
    assert (part.status_code, part.headers.get("content-encoding")) == (206, None)


@pytest.mark.parametrize("path", ["/inbox", "/runs", "/runs/run-failed", "/benchmarks/support"])
def test_page__is_sent_compressed(path: str, service: Service) -> None:
    response, body = fetch_raw(service, path, PAGE)
    plain_response, plain = fetch_raw(service, path, PLAIN)
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) == len(body) < 0.4 * len(plain)
    assert "content-encoding" not in plain_response.headers
    assert response.headers["vary"] == plain_response.headers["vary"] == "Cookie, Accept-Encoding"
    again = service.client.get(path, headers={**PAGE, "If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_page__with_a_secret_or_an_error_is_not_compressed(service: Service) -> None:
    key = {"name": "a script", "role": "read"}
    headers = {**PAGE, "Origin": str(service.client.base_url).rstrip("/")}
    created = service.client.post("/keys", data=key, headers=headers, follow_redirects=True)
    assert "shown only now" in created.text
    for response in (created, service.client.get("/no-such-page", headers=PAGE)):
        assert response.headers["cache-control"] == "no-store"
        assert "content-encoding" not in response.headers


@pytest.mark.parametrize(
    "path", ["/api/v1/benchmark-runs", "/api/v1/benchmark-runs.csv", "/api/v1/overview/events", "/openapi.json"]
)  # fmt: skip
def test_api_download_and_stream__are_sent_as_they_are(path: str, service: Service) -> None:
    with service.client.stream("GET", path, headers=PAGE) as response:
        assert response.status_code == 200
        assert "content-encoding" not in response.headers
        assert next(response.iter_raw())


@pytest.mark.parametrize(
    ("header", "accepts"),
    [
        ("gzip", True), ("GZIP;q=0.5", True), ("br, gzip;q=1.0, *;q=0", True), ("deflate,gzip", True),
        ("", False), ("identity", False), ("gzip;q=0", False), ("gzip; q=0.000", False), ("*", False), ("xgzip", False),
    ],
)  # fmt: skip
def test_accepts_gzip__reads_names_and_weights(header: str, accepts: bool) -> None:
    assert accepts_gzip(Headers({"Accept-Encoding": header})) is accepts
    assert not accepts_gzip(Headers({}))
