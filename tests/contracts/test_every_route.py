"""What holds for each route that exists, and so for each that will."""

import re
import warnings
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts

from app.access.deps import RoleRequirement
from app.access.idempotency import IdempotencyKeyInFlight
from app.agents.router import create_agent, delete_agent, list_agents
from app.api import PREFIX
from app.comparison.stored_run_comparison import RunNotComparable
from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.errors import Conflict
from app.core.problem_documents import MEDIA_TYPE, PROBLEMS, UnsupportedMediaType
from app.core.resources import Resources
from app.core.web.etag import PreconditionFailed
from app.core.web.problem_pages import render_errors_page
from app.main import create_app
from app.runs.router import compare_runs
from app.traces.otel.router import TRACES_PATH
from app.traces.router import upload_traces
from app.triggers.signatures import verify_langfuse_signature, verify_standard_signature
from tests.support.call_graph import raised_errors
from tests.support.http import serving

pytestmark = pytest.mark.xdist_group("routes")
CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
APP = create_app(
    Resources(
        db=Database("postgresql://nobody@127.0.0.1:1/none"),
        secrets=SecretBox.from_keys([b64encode(bytes(range(32))).decode()]),
        data_dir=Path("/nonexistent"),
    )
)


def route_id(route: RouteContext) -> str:
    return f"{'|'.join(sorted(route.methods or ()))} {route.path}"


ROUTES = [
    route
    for route in iter_route_contexts(APP.routes)
    if isinstance(route.original_route, APIRoute) and (route.path or "").startswith(PREFIX)
]
every_route = pytest.mark.parametrize("route", ROUTES, ids=route_id)


def roles(dependant: Any) -> list[str]:
    """The roles that a route asks for, in its own and its routers' dependencies."""
    own_roles = [dependant.call.role] if isinstance(dependant.call, RoleRequirement) else []
    return own_roles + [role for inner in dependant.dependencies for role in roles(inner)]


def is_signed(dependant: Any) -> bool:
    """Whether a route checks a signature, byte by byte, in the place of an API key."""
    signature = dependant.call in (verify_langfuse_signature, verify_standard_signature)
    return signature or any(is_signed(inner) for inner in dependant.dependencies)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(APP) as served:
        yield served


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    with warnings.catch_warnings():
        # Two operations of one name have a test of their own below.
        warnings.simplefilter("ignore", UserWarning)
        return APP.openapi()


def operations(document: dict[str, Any], route: RouteContext) -> list[dict[str, Any]]:
    assert route.path is not None
    # OpenAPI has no word for a parameter that may contain slashes.
    offered = document["paths"][route.path.replace(":path}", "}")]
    return [offered[method.lower()] for method in route.methods or ()]


def test_routes__exist() -> None:
    assert ROUTES


@every_route
def test_route__declares_its_role(route: RouteContext) -> None:
    declared = roles(route.dependant) or is_signed(route.dependant)
    assert declared, "add dependencies=[Depends(require(…))]"


@every_route
def test_route__change_requires_more_than_the_read_role(route: RouteContext) -> None:
    exempt = re.search(r"/(validate|evaluate|preview|backtest|power)$", route.path or "")
    if CHANGING & (route.methods or set()) and not exempt:
        assert {"run", "admin"} & set(roles(route.dependant)) or is_signed(route.dependant)


@every_route
def test_route__missing_key_gives_401(route: RouteContext, client: httpx.Client) -> None:
    path = re.sub(r"\{[^}]*\}", "some-id", route.path or "")
    for method in route.methods or ():
        response = client.request(method, path, json={} if method in CHANGING else None)
        assert response.status_code == 401
        assert response.headers["content-type"] == MEDIA_TYPE
        expected_scheme = "Signature" if is_signed(route.dependant) else "Bearer"
        assert response.headers["www-authenticate"] == expected_scheme
        assert "send" in response.json()["detail"]


@every_route
def test_route__documents_the_problems_that_can_come(
    route: RouteContext, document: dict[str, Any]
) -> None:
    assert isinstance(route.original_route, APIRoute)
    raised = {error.status for error in raised_errors(route.original_route.endpoint)}
    for operation in operations(document, route):
        possible = {*PROBLEMS, *({409, 412, 428} & raised)}
        if "requestBody" in operation:
            possible |= {408, 413} if is_signed(route.dependant) else {408, 413, 415}
        documented = {
            int(status): response
            for status, response in operation["responses"].items()
            if int(status) >= 400
        }
        assert documented.keys() == possible, "see `responses=` of the route"
        assert all(list(problem["content"]) == [MEDIA_TYPE] for problem in documented.values())


def test_raised_errors__follow_services_dependencies_and_classes() -> None:
    assert IdempotencyKeyInFlight in raised_errors(create_agent)
    assert PreconditionFailed in raised_errors(delete_agent)
    assert RunNotComparable in raised_errors(compare_runs)
    assert UnsupportedMediaType in raised_errors(upload_traces)
    assert Conflict not in raised_errors(list_agents)


def test_export_of_spans__documents_the_problems_that_can_come(document: dict[str, Any]) -> None:
    responses = document["paths"][TRACES_PATH]["post"]["responses"]
    assert set(responses) == {"200", "400", "401", "403", "413", "421", "429", "503"}


@every_route
def test_route__has_a_summary(route: RouteContext, document: dict[str, Any]) -> None:
    for operation in operations(document, route):
        assert operation["summary"]
        assert operation["tags"]
        assert re.fullmatch(r"[a-z]+([A-Z0-9][a-z0-9]*)+", operation["operationId"])
        assert operation["security"]


@every_route
def test_route__has_one_spelling(route: RouteContext) -> None:
    assert route.path == PREFIX or not (route.path or "").endswith("/")


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
        "run: python -m app.core.web.problem_pages > docs/errors.md"
    )
