"""Inputs that were accepted, misread or answered in the wrong order; sent to the real application."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mosaico.api import include_pages
from mosaico.core.keyset import encode_cursor
from mosaico.core.schemas import ListFilter
from mosaico.core.web.form_words import words_of
from tests.support.every_page import fill_path
from tests.support.service import JSON, Service, pair, pointers

INT64_MAX = 2**63 - 1
CRON = {"cronExpression": "0 0 3 * * *"}
SCHEDULE = {**CRON, "name": "nightly", "benchmarkId": "bench-001", "agentId": "agent-001"}
WEBHOOK = {"channel": "WEBHOOK"}
RULE = {
    "name": "low",
    "benchmarkId": "bench-001",
    "metric": "ROUGE",
    "condition": "LESS_THAN",
    "threshold": 0.5,
    "channels": ["WEBHOOK"],
}
KEY = {"name": "spare", "role": "read"}
PROBLEM = "application/problem+json"
HTML = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    """The service with one completed run, shared by the tests of this file."""
    module_service.create_agent()
    module_service.create_benchmark(metrics=["ROUGE"], evaluates=["agent-001"])
    module_service.upload([pair(1)])
    module_service.complete_run()
    module_service.post("/schedule-configs", {**SCHEDULE, "id": "nightly"})
    module_service.post("/alert-configs", {**RULE, "id": "rule-001", "channels": ["IN_APP"]})
    return module_service


@pytest.mark.parametrize("day", ["0", "1e3", "20261122", "2026-11-22T00:00", "2026-02-30"])
def test_daily_summary__date_that_is_not_iso_is_refused(day: str, service: Service) -> None:
    problem = service.expect_problem(422, "GET", f"/daily-summary?date={day}")
    assert pointers(problem) == ["date"]


@pytest.mark.parametrize("below", ["nan", "inf", "1e400"])
def test_results__limit_that_is_no_number_is_refused(below: str, service: Service) -> None:
    [run] = service.get("/benchmark-runs", status="COMPLETED")["items"]
    path = f"/benchmark-runs/{run['id']}/results?below={below}"
    assert pointers(service.expect_problem(422, "GET", path)) == ["below"]


# Positions are numbers of 32 bits in the database.
@pytest.mark.parametrize("position", [INT64_MAX, 2**31, -(2**31) - 1, -INT64_MAX])
def test_results_cursor__position_out_of_range_is_refused(position: int, service: Service) -> None:
    [run] = service.get("/benchmark-runs", status="COMPLETED")["items"]
    path = f"/benchmark-runs/{run['id']}/results?cursor={encode_cursor([position])}"
    assert pointers(service.expect_problem(422, "GET", path)) == ["cursor"]


@pytest.mark.parametrize("key", [None, "Bearer " + "x" * 40, "Basic dTpw"])
@pytest.mark.parametrize(
    ("method", "path", "request_fields"),
    [
        ("POST", "/agents", {"content": b"{not json"}),
        ("POST", "/agents", {"content": b"a,b", "headers": {"Content-Type": "text/csv"}}),
        ("POST", "/agents", {"content": b"[" * 2_000_000}),
        ("POST", "/agents", {"json": {"nmae": 1}}),
        ("GET", "/benchmark-runs?benchmarkid=x", {}),
        ("GET", "/benchmark-runs?limit=0", {}),
        ("GET", "/agents/%FF", {}),
        ("GET", "/agents/a%00b", {}),
        ("POST", "/local-datasets", {"content": b"x"}),
        ("DELETE", "/agents", {}),
        ("GET", "/nothing", {}),
    ],
)
def test_stranger__is_refused_before_anything_is_checked(
    method: str, path: str, request_fields: dict[str, Any], key: str | None, stranger: httpx.Client
) -> None:
    headers = {**request_fields.get("headers", {}), **({"Authorization": key} if key else {})}
    response = stranger.request(method, f"/api/v1{path}", **{**request_fields, "headers": headers})
    assert response.status_code == 401
    assert response.headers["content-type"] == PROBLEM
    assert response.headers["www-authenticate"] == "Bearer"


def test_query_parameters__repeated_status_lists_every_status(service: Service) -> None:
    [run] = service.get("/benchmark-runs", status="COMPLETED")["items"]
    completed, pending = run["id"], service.start_run()["id"]

    def ids(query: str) -> set[str]:
        response = service.send("GET", f"/benchmark-runs{query}")
        return {run["id"] for run in response.json()["items"]}

    assert ids("?status=COMPLETED&status=FAILED") == {completed}
    assert ids("?status=COMPLETED&status=PENDING") == {completed, pending}
    assert ids("?status=FAILED&status=RUNNING") == set()


def query_parameters(service: Service) -> Iterator[tuple[str, str, JSON]]:
    """Method, path and query parameter of every operation, from the OpenAPI document."""
    for path, operations in service.client.get("/openapi.json").json()["paths"].items():
        if not path.startswith("/api/v1/"):
            continue
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query":
                    yield method.upper(), re.sub(r"{\w+}", "x", path), parameter


def list_items_schema(parameter: JSON) -> JSON | None:
    """The schema of the items of a list parameter; None for a parameter of one value."""
    schema = parameter["schema"]
    for member in [schema, *schema.get("anyOf", [])]:
        if member.get("type") == "array":
            items: JSON = member["items"]
            return items
    return None


def test_query_parameters__repeated_parameter_of_one_value_is_refused_everywhere(
    service: Service,
) -> None:
    accepted, count = [], 0
    for method, path, parameter in query_parameters(service):
        if list_items_schema(parameter) is not None:
            continue
        count += 1
        name = parameter["name"]
        response = service.client.request(method, f"{path}?{name}=1&{name}=2")
        problem = response.json() if response.status_code == 422 else {}
        if problem.get("type") != "/problems/repeated-parameter" or pointers(problem) != [name]:
            accepted.append(f"{method} {path} {name}: {response.status_code}")
    assert accepted == []
    assert count > 100


def test_query_parameters__list_parameter_takes_every_value(service: Service) -> None:
    document = service.client.get("/openapi.json").json()["components"]["schemas"]
    paths = set()
    for method, path, parameter in query_parameters(service):
        items = list_items_schema(parameter)
        # The values of other lists are IDs and names of what must exist.
        if items is None or "$ref" not in items:
            continue
        values = document[items["$ref"].rpartition("/")[2]]["enum"]
        repeated = [(parameter["name"], value) for value in values]
        response = service.client.request(method, path, params=repeated)
        assert response.status_code == 200, f"{method} {path}: {response.text}"
        paths.add(path.removeprefix("/api/v1"))
    assert paths >= {"/benchmark-runs", "/deliveries", "/trigger-events", "/alerts", "/incidents"}


def declared_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, ListFilter):
            fields = annotation.model_fields.items()
            yield from ((name, "list" in str(info.annotation)) for name, info in fields)
        else:
            yield field.alias, "list" in str(annotation)
    # The filters of a list.
    yield from getattr(dependant.call, "query_parameters", {}).items()
    for inner in dependant.dependencies:
        yield from declared_parameters(inner)


def page_parameters() -> Iterator[tuple[str, str, bool]]:
    """Path, name and whether it is a list of every query parameter of a page; each page has one that it ignores."""
    routes = APIRouter()
    include_pages(routes)
    for route in routes.routes:
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            for name, is_list in declared_parameters(route.dependant):
                yield fill_path(route.path), name, is_list
            yield fill_path(route.path), "ignored", False


def test_pages__repeated_parameter_of_one_value_is_refused_on_every_page(service: Service) -> None:
    accepted, names = [], set()
    for path, name, is_list in page_parameters():
        if is_list:
            continue
        names.add(name)
        response = service.client.get(f"{path}?{name}=1&{name}=2", headers=HTML)
        is_refused = response.status_code == 422 and f"<li>{words_of(name)}: takes one value" in (
            response.text
        )
        if not is_refused:
            accepted.append(f"{path} {name}: {response.status_code}")
    assert accepted == []
    assert names >= {
        "acknowledged",
        "agent",
        "text",
        "sort",
        "cursor",
        "tab",
        "days",
        "next",
        "ignored",
    }


def test_pages__list_parameter_takes_every_value(service: Service) -> None:
    lists = {(path, name) for path, name, is_list in page_parameters() if is_list}
    assert lists >= {
        ("/runs", "run"),
        ("/runs", "status"),
        ("/compare", "run"),
        ("/alerts", "agent"),
    }
    for path, name in lists:
        response = service.client.get(f"{path}?{name}=1&{name}=2", headers=HTML)
        assert "takes one value" not in response.text, path


MALFORMED_URLS = [
    "https://langfuse.example\r\nX-Injected: 1",
    "https://langfuse.example\n",
    "https://lang\tfuse.example",
    "http:///x",
    "http:/x",
    "https://langfuse.example:99999",
    "https://xn--a.example",
    "https://langfuse.example:0",
    "https://langfuse.example:-1",
    "https://langfuse.example\\@evil.example",
    "https://user:password@langfuse.example",
    "https://",
    "https://[::1",
    "https://lang fuse.example",
    "https://langfuse.example/\u202e",
]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/endpoints", WEBHOOK, "recipient"),
        ("POST", "/notifications/test", WEBHOOK, "recipient"),
        ("POST", "/alert-configs", RULE, "recipients"),
        ("PATCH", "/alert-configs/rule-001", {"channels": ["WEBHOOK"]}, "recipients"),
    ],
)
def test_recipient__malformed_urls_are_refused(
    method: str, path: str, body: JSON, field: str, service: Service
) -> None:
    for url in MALFORMED_URLS:
        recipients = [url] if field == "recipients" else url
        problem = service.expect_problem(422, method, path, {**body, field: recipients})
        # A rule also names the channel that has no recipient then.
        expected = f"/{field}/0" if field == "recipients" else f"/{field}"
        assert pointers(problem)[0] == expected, url


@pytest.mark.parametrize(
    "at", ["0", "-1", "1e3", "1700000000", "2026-11-22", "2026-11-22T07:00:00"]
)
@pytest.mark.parametrize("path", ["/benchmark-runs", "/audit", "/kpi-history"])
def test_query_times__number_or_time_without_zone_is_refused(
    at: str, path: str, service: Service
) -> None:
    assert pointers(service.expect_problem(422, "GET", f"{path}?from={at}")) == ["from"]


@pytest.mark.parametrize("at", [0, "0", 4_000_000_000, True])
def test_body_times__number_is_refused(at: object, service: Service) -> None:
    problem = service.expect_problem(422, "POST", "/keys", {**KEY, "expiresAt": at})
    assert pointers(problem) == ["/expiresAt"]


def test_405__allows_the_documented_methods_of_every_path(service: Service) -> None:
    document = service.client.get("/openapi.json").json()["paths"]
    for path, operations in document.items():
        response = service.client.options(path.replace("{", "").replace("}", ""))
        allowed = set(response.headers["allow"].split(", "))
        assert allowed == {method.upper() for method in operations}, path


def test_endpoint_secret__channel_that_does_not_sign_is_refused(service: Service) -> None:
    body = {"channel": "EMAIL", "recipient": "ann@example.org"}
    endpoint = service.post("/endpoints", body)
    path = f"/endpoints/{endpoint['id']}/secret"
    problem = service.expect_problem(409, "POST", path, {})
    assert problem["type"] == "/problems/endpoint-not-signed"
    assert service.get(f"/endpoints/{endpoint['id']}")["secretSet"] is False
