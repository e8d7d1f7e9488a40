"""Routers of the domains: declared at import, built once by the application that serves them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fastapi import APIRouter
from fastapi.params import Depends
from starlette.concurrency import run_in_threadpool

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class DeclaredRoute(NamedTuple):
    """A route as its decorator names it; `options` are those of `APIRouter.add_api_route`."""

    method: str
    path: str
    endpoint: Callable[..., Any]
    options: Mapping[str, Any]


class Router:
    """The routes of one resource, in the order of their declaration.

    FastAPI analyzes the signature of a route when it is added to a router, and again when that
    router is included. Here a decorator only records the route: the application analyzes it once,
    and a process that serves no requests never does.
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        tags: Sequence[str] = (),
        responses: Mapping[int | str, dict[str, Any]] | None = None,
        dependencies: Sequence[Depends] = (),
    ) -> None:
        self.prefix = prefix
        self.tags = list(tags)
        self.responses = dict(responses or {})
        self.dependencies = list(dependencies)
        self.routes: list[DeclaredRoute] = []

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("POST", path, options)

    def put(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("PUT", path, options)

    def patch(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("PATCH", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("DELETE", path, options)

    def add_to(
        self,
        routes: APIRouter,
        *,
        prefix: str = "",
        dependencies: Sequence[Depends] = (),
        checks: Sequence[Depends] = (),
        responses: Mapping[int | str, dict[str, Any]] | None = None,
        include_in_schema: bool = True,
        has_head: bool = False,
    ) -> None:
        """Add the routes to those of an application.

        `prefix` precedes the prefix of the router, `dependencies` run before those of the router,
        `checks` after those of the route, `responses` are documented where the router documents no other.
        With `has_head`, what answers GET answers HEAD, too; the server leaves out the body.
        """
        for method, path, endpoint, options in self.routes:
            own = {
                **options,
                "tags": [*self.tags, *options.get("tags", ())],
                "responses": {
                    **(responses or {}),
                    **self.responses,
                    **options.get("responses", {}),
                },
                "dependencies": [
                    *dependencies,
                    *self.dependencies,
                    *options.get("dependencies", ()),
                    *checks,
                ],
                "include_in_schema": include_in_schema and options.get("include_in_schema", True),
            }
            routes.add_api_route(
                f"{prefix}{self.prefix}{path}",
                _awaitable(endpoint),
                methods=[method, "HEAD"] if has_head and method == "GET" else [method],
                **own,
            )

    def _declare(
        self, method: str, path: str, options: Mapping[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.routes.append(DeclaredRoute(method, path, endpoint, options))
            return endpoint

        return declare


def _awaitable(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The endpoint, of which a synchronous one runs in a thread.

    FastAPI would take a second thread for each answer of a synchronous endpoint, to check its type.
    """
    if inspect.iscoroutinefunction(endpoint):
        return endpoint

    @functools.wraps(endpoint)
    async def run_endpoint(**arguments: Any) -> Any:
        return await run_in_threadpool(endpoint, **arguments)

    return run_endpoint
