"""Problem documents of every kind of error, and the headers of all responses."""

import httpx
import pytest

from mosaico.core.web.response_headers import CONTENT_SECURITY_POLICY
from tests.integration.edge.toy_things import THINGS


def test_problems__unexpected_error_shows_only_its_request_id(client: httpx.Client) -> None:
    response = client.get(f"{THINGS}/a/broken", headers={"X-Request-Id": "my-own-id"})
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["instance"] == "my-own-id"
    assert set(problem) == {"type", "title", "status", "detail", "instance"}
    assert "hunter2" not in response.text
    assert "RuntimeError" not in response.text


def test_problems__document_and_headers_contain_the_details_of_the_error(
    client: httpx.Client,
) -> None:
    response = client.get(f"{THINGS}/a/conflict")
    assert response.status_code == 409
    assert response.headers["x-why"] == "use"
    problem = response.json()
    assert problem["type"] == "/problems/conflict"
    assert problem["usedBy"] == ["run-1"]
    assert "headers" not in problem


def test_problems__position_in_a_text_is_a_span(client: httpx.Client) -> None:
    problem = client.get(f"{THINGS}/a/formula").json()
    assert problem["errors"] == [{"pointer": "/formula", "detail": "ends here", "span": [3, 5]}]


def test_problems__missing_database_has_retry_after(client: httpx.Client) -> None:
    response = client.get(f"{THINGS}/a/away")
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["type"] == "/problems/database-unavailable"


@pytest.mark.parametrize("path", ["/api/v1/nothing", f"{THINGS}/", "/nothing", "/static/nothing"])
def test_problems__unknown_path_is_a_problem_document(path: str, client: httpx.Client) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_problems__each_invalid_field_has_a_pointer(client: httpx.Client) -> None:
    body = {"parts": [{"partCount": 1}, {"partCount": "x"}], "nmae": "a"}
    problem = client.post(THINGS, json=body).json()
    assert {item["pointer"]: item["detail"] for item in problem["errors"]} == {
        "/name": "is missing; send it",
        "/nmae": "is not a known field; remove it or correct its name",
        "/parts/1/partCount": "should be a valid integer",
    }


def test_problems__invalid_parameter_is_named(client: httpx.Client) -> None:
    problem = client.get(THINGS, params={"limit": "0"}).json()
    assert [item["pointer"] for item in problem["errors"]] == ["limit"]
    problem = client.get(THINGS, params={"states": ["on", "broken"]}).json()
    assert [item["pointer"] for item in problem["errors"]] == ["states"]


def test_problems__invalid_value_is_not_repeated(client: httpx.Client) -> None:
    response = client.post(THINGS, json={"name": "a", "share": "hunter2hunter2"})
    assert response.status_code == 422
    assert "hunter2" not in response.text


@pytest.mark.parametrize("offered", ["", "a b", "<script>", "x" * 65])
def test_request_id__invalid_id_is_replaced(offered: str, client: httpx.Client) -> None:
    response = client.get("/healthz", headers={"X-Request-Id": offered})
    assert response.headers["x-request-id"] not in ("", offered)


@pytest.mark.parametrize("path", ["/healthz", "/docs", f"{THINGS}/a/broken", "/nothing", THINGS])
def test_responses__have_the_security_headers(path: str, client: httpx.Client) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert ("no-store" in headers.get("cache-control", "")) is path.startswith("/api/")


def test_problem_page__describes_a_problem_type(client: httpx.Client) -> None:
    problem_type = client.get("/problems/database-unavailable").json()
    assert problem_type["status"] == 503
    assert "try again" in problem_type["description"]
    near = client.get("/problems/databse-unavailable")
    assert near.status_code == 404
    assert "database-unavailable" in near.json()["detail"]
