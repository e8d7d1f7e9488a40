"""The API without a database, for tests that read its routes or its description: to build it takes a second."""

import warnings
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts

from mosaico.access.deps import RoleRequirement
from mosaico.api import PREFIX
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.resources import Resources
from mosaico.main import create_app
from mosaico.triggers.signatures import verify_langfuse_signature, verify_standard_signature


@cache
def api_without_database() -> FastAPI:
    resources = Resources(
        # No server can listen on port 1: a route that reads the
        # database while it is built fails at once.
        db=Database("postgresql://nobody@127.0.0.1:1/none"),
        secrets=SecretBox.from_keys([b64encode(bytes(range(32))).decode()]),
        data_dir=Path("/nonexistent"),
    )
    return create_app(resources)


@cache
def api_document() -> dict[str, Any]:
    """The OpenAPI description, which is the same for each service; nobody may change it."""
    with warnings.catch_warnings():
        # Two operations of one name have a test of their own.
        warnings.simplefilter("ignore", UserWarning)
        return api_without_database().openapi()


def list_event_streams(document: Mapping[str, Any]) -> set[str]:
    """The operations of an OpenAPI description that respond with server-sent events."""
    return {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
    }


@cache
def api_routes() -> tuple[RouteContext, ...]:
    """The routes below `/api/v1`."""
    return tuple(
        route
        for route in iter_route_contexts(api_without_database().routes)
        if isinstance(route.original_route, APIRoute) and (route.path or "").startswith(PREFIX)
    )


def route_id(route: RouteContext) -> str:
    return f"{'|'.join(sorted(route.methods or ()))} {route.path}"


def roles(dependant: Any) -> list[str]:
    """The roles that a route asks for, in its own and its routers' dependencies."""
    own_roles = [dependant.call.role] if isinstance(dependant.call, RoleRequirement) else []
    return own_roles + [role for inner in dependant.dependencies for role in roles(inner)]


def is_signed(dependant: Any) -> bool:
    """Whether a route checks a signature, byte by byte, in the place of an API key."""
    signature = dependant.call in (verify_langfuse_signature, verify_standard_signature)
    return signature or any(is_signed(inner) for inner in dependant.dependencies)
