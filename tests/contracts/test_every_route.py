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
from app.api import PREFIX
from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.problem_documents import MEDIA_TYPE, PROBLEMS
from app.core.resources import Resources
from app.core.web.problem_pages import render_errors_page
from app.main import create_app
from app.triggers.signatures import verify_langfuse_signature, verify_standard_signature
from tests.support.http import serving

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
def test_route__documents_its_problems(route: RouteContext, document: dict[str, Any]) -> None:
    for operation in operations(document, route):
        # Those that cannot come are left out: tests/contracts/test_openapi_document.py.
        impossible = {409} if "GET" in (route.methods or ()) else set()
        if "requestBody" not in operation:
            impossible |= {408, 413, 415}
        for status in PROBLEMS.keys() - impossible:
            documented = operation["responses"][str(status)]
            assert list(documented["content"]) == [MEDIA_TYPE]


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
