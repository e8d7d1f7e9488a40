"""What holds for each route that exists, and so for each that will."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, RouteContext

from mosaico.api import PREFIX
from mosaico.core.problem_documents import MEDIA_TYPE, PROBLEMS
from mosaico.core.web.problem_types import render_errors_page
from mosaico.traces.otel.router import TRACES_PATH
from tests.support.call_graph import raised_errors
from tests.support.described_api import (
    api_document,
    api_routes,
    api_without_database,
    is_signed,
    roles,
    route_id,
)
from tests.support.http import serving

pytestmark = pytest.mark.xdist_group("routes")
CHANGING = {"POST", "PUT", "PATCH", "DELETE"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(api_without_database()) as served:
        yield served


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return api_document()


def operations(document: dict[str, Any], route: RouteContext) -> list[dict[str, Any]]:
    assert route.path is not None
    # OpenAPI has no word for a parameter that may contain slashes.
    offered = document["paths"][route.path.replace(":path}", "}")]
    return [offered[method.lower()] for method in route.methods or ()]


def test_every_route__declares_its_role() -> None:
    undeclared = [
        route_id(route)
        for route in api_routes()
        if not (roles(route.dependant) or is_signed(route.dependant))
    ]
    assert undeclared == [], "add dependencies=[Depends(require(…))]"


def test_every_route__change_requires_more_than_the_read_role() -> None:
    # They answer a question that needs a body, and change nothing.
    exempt = re.compile(r"/(validate|evaluate|preview|backtest|power)$")
    changes = [
        route
        for route in api_routes()
        if CHANGING & (route.methods or set()) and not exempt.search(route.path or "")
    ]
    assert [
        route_id(route)
        for route in changes
        if not ({"run", "admin"} & set(roles(route.dependant)) or is_signed(route.dependant))
    ] == []


def calls_of(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """An endpoint, and what FastAPI calls before it."""
    assert dependant.call is not None
    yield dependant.call
    for dependency in dependant.dependencies:
        yield from calls_of(dependency)


def is_awaited(call: Callable[..., Any]) -> bool:
    function = call if inspect.isroutine(call) else type(call).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def test_every_route__answers_in_one_thread_at_most() -> None:
    """FastAPI calls each synchronous function in a thread, and then checks the answer of an endpoint in another one."""
    assert [
        (route_id(route), call.__name__)
        for route in api_routes()
        # The signature of a webhook is found in the database, before the rest of the request is read.
        if route.dependant is not None and not is_signed(route.dependant)
        for call in calls_of(route.dependant)
        if not is_awaited(call)
    ] == []


def test_every_route__missing_key_gives_401(client: httpx.Client) -> None:
    for route in api_routes():
        path = re.sub(r"\{[^}]*\}", "some-id", route.path or "")
        for method in route.methods or ():
            response = client.request(method, path, json={} if method in CHANGING else None)
            assert response.status_code == 401, route_id(route)
            assert response.headers["content-type"] == MEDIA_TYPE, route_id(route)
            expected_scheme = "Signature" if is_signed(route.dependant) else "Bearer"
            assert response.headers["www-authenticate"] == expected_scheme, route_id(route)
            assert "send" in response.json()["detail"], route_id(route)


def test_every_route__documents_the_problems_that_can_come(document: dict[str, Any]) -> None:
    for route in api_routes():
        assert isinstance(route.original_route, APIRoute)
        raised = {error.status for error in raised_errors(route.original_route.endpoint)}
        for operation in operations(document, route):
            possible = {*PROBLEMS, *({409, 412, 428} & raised)}
            if "requestBody" in operation:
                possible |= {413} if is_signed(route.dependant) else {413, 415}
            documented = {
                int(status): response
                for status, response in operation["responses"].items()
                if int(status) >= 400
            }
            assert documented.keys() == possible, f"{route_id(route)}: see its `responses=`"
            assert all(list(problem["content"]) == [MEDIA_TYPE] for problem in documented.values())


def test_export_of_spans__documents_the_problems_that_can_come(document: dict[str, Any]) -> None:
    responses = document["paths"][TRACES_PATH]["post"]["responses"]
    assert set(responses) == {"200", "400", "401", "403", "413", "421", "429", "503"}


def test_every_route__has_a_summary(document: dict[str, Any]) -> None:
    for route in api_routes():
        for operation in operations(document, route):
            assert operation["summary"], route_id(route)
            assert operation["tags"], route_id(route)
            assert re.fullmatch(r"[a-z]+([A-Z0-9][a-z0-9]*)+", operation["operationId"])
            assert operation["security"], route_id(route)


def test_every_route__has_one_spelling() -> None:
    paths = [route.path or "" for route in api_routes()]
    assert [path for path in paths if path.endswith("/") and path != PREFIX] == []


def test_openapi__operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.xdist_group("sdks of models")  # it loads every module, and those with them
def test_error_page__is_up_to_date() -> None:
    written = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
    assert written == render_errors_page(), (
        "run: python -m mosaico.core.web.problem_types > docs/errors.md"
    )
