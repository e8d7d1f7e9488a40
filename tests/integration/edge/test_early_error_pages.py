"""Errors that come before the routes: a browser gets a page, a program a problem document."""

import re
from html import unescape
from typing import Any, Final

import httpx
import pytest

from mosaico.core.web.response_headers import CONTENT_SECURITY_POLICY
from tests.support.service import Service

HTML: Final = {
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Sec-Fetch-Site": "same-origin",
}
PROBLEM: Final = "application/problem+json"
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
# More than a body may have, 1 MiB.
LARGE: Final = b"name=" + b"x" * 2_000_000


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    return module_service


def send(
    service: Service, method: str, path: str, headers: dict[str, str], **body: Any
) -> httpx.Response:
    # The URL is sent as it is written: the client would encode invalid bytes.
    url = httpx.URL(service.client.base_url, raw_path=path.encode())
    request = service.client.build_request(method, url, headers=headers, **body)
    request.url = url
    return service.client.send(request)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/search?text=%00", "contains NUL"),
        ("/runs?text=%ff", "not UTF-8"),
        ("/runs/%00", "contains NUL"),
        ("/runs/%ff", "not UTF-8"),
        ("/no-such-page?text=%00", "contains NUL"),
    ],
)
def test_browser__invalid_address_gets_a_page(path: str, sentence: str, service: Service) -> None:
    response = send(service, "GET", path, HTML)
    assert response.status_code == 400
    assert_is_error_page(response, sentence)
    # No link of the page has the byte that was refused.
    assert "%00" not in response.text.partition("<main")[0]


def test_browser__form_that_is_too_large_gets_a_page(service: Service) -> None:
    response = send(service, "POST", "/runs", {**HTML, **FORM}, content=LARGE)
    assert response.status_code == 413
    assert response.headers["connection"] == "close"
    assert_is_error_page(response, "larger than 1048576 bytes")


def test_browser__other_host_name_gets_a_page(service: Service) -> None:
    response = send(service, "GET", "/runs", {**HTML, "Host": "other.example"})
    assert response.status_code == 421
    assert_is_error_page(response, "'other.example' is not allowed")
    # Nothing of the service is shown under a name that is not its own.
    assert "<nav" not in response.text
    # The page has its style sheet and its scripts, which are the same for everybody.
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', response.text)
    assert {address.rpartition("/")[2] for address in addresses} >= {"base.css", "app.js"}
    for address in addresses:
        assert send(service, "GET", address, {"Host": "other.example"}).status_code == 200
    for path in ("/static/../api/v1/agents", "/static%2f..%2fapi/v1/agents", "/static"):
        assert send(service, "GET", path, {"Host": "other.example"}).status_code in {404, 421}


@pytest.mark.parametrize("host", ["[", "a b", "::1]", "other.example:x"])
def test_browser__malformed_host_name_gets_a_page(host: str, service: Service) -> None:
    response = send(service, "GET", "/runs", {**HTML, "Host": host})
    assert response.status_code == 421
    assert_is_error_page(response, "is not allowed")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/search?text=%00", {"Accept": "*/*"}, 400),
        ("GET", "/api/v1/benchmark-runs?text=%ff", HTML, 400),
        ("GET", "/api/v1/benchmark-runs/%00", HTML, 400),
        ("POST", "/api/v1/agents", HTML, 413),
        ("POST", "/runs", {"Accept": "application/json"}, 413),
        ("GET", "/api/v1/agents", {**HTML, "Host": "other.example"}, 421),
    ],
)
def test_program__gets_a_problem_document(
    method: str, path: str, headers: dict[str, str], status: int, service: Service
) -> None:
    body = {"content": LARGE} if status == 413 else {}
    response = send(service, method, path, headers, **body)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM
    assert response.json()["instance"] == response.headers["x-request-id"]


def assert_is_error_page(response: httpx.Response, sentence: str) -> None:
    """A page with its sentence and the id of the request, under the policy of all pages."""
    text = unescape(response.text)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert f"Error {response.status_code}" in text
    assert sentence in text
    assert response.headers["x-request-id"] in text
    assert "/problems/" not in text


def test_browser__address_of_a_form_says_that_it_only_receives_forms(service: Service) -> None:
    response = send(service, "GET", "/silences", HTML)
    assert response.status_code == 405
    assert_is_error_page(response, "Go back to the page that has the form.")


def test_browser__run_that_the_benchmark_does_not_evaluate_says_so(service: Service) -> None:
    service.create_agent("agent-001")
    service.create_agent("agent-002")
    service.create_benchmark(metrics=["ROUGE"], evaluates=["agent-001"])
    form = {"benchmark": "bench-001", "agent": "agent-002"}
    response = send(service, "POST", "/runs", HTML, data=form)
    assert response.status_code == 422
    assert_is_error_page(response, "does not evaluate the agent 'agent-002'")
