"""The API of one process."""

import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import QueuePool
from starlette.routing import BaseRoute

from app import api
from app.access.audit_middleware import audit_request
from app.access.service import ensure_first_admin_key
from app.core import problems
from app.core.encryption import Secret
from app.core.resources import Resources
from app.core.settings import Settings
from app.core.web import etag, health, openapi, problem_pages, prometheus
from app.core.web.csp import SecurityHeadersMiddleware
from app.core.web.request_body import RequestBodyMiddleware
from app.core.web.response_headers import ResponseHeadersMiddleware
from app.core.web.sse import EventHub
from app.plugins import load_plugins
from app.startup import opened_resources, set_up_logs

SHUTDOWN_GRACE_S = 2
API_THREADS = 40
GC_THRESHOLD = 10_000

DESCRIPTION = """\
Tells a team, every morning, whether their AI agents got better or worse.

Every request below `/api/v1` needs `Authorization: Bearer <API key>`. Lists answer
`{items, nextCursor}`; errors are problem documents (RFC 9457) whose `detail` says what to do.
"""


class Application(FastAPI):
    """FastAPI, with problem documents in its description of itself."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            document = super().openapi()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = problems.PROBLEM_SCHEMA
            for path in document["paths"].values():
                for operation in path.values():
                    etag.document_conditions(operation, problems.document_problem)
        return super().openapi()


def create_app(resources: Resources, *, show_docs: bool = True) -> FastAPI:
    """The HTTP application over what this process holds; closing that is left to the caller.

    `show_docs` lets everybody read how it is called: Swagger UI and the OpenAPI description.
    """
    app = Application(
        title="MOSAICO",
        version=version("mosaico"),
        description=DESCRIPTION,
        servers=[{"url": "/", "description": "this service"}],
        openapi_url="/openapi.json" if show_docs else None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        generate_unique_id_function=operation_id,
        routes=list(_routes()),
    )
    app.state.resources = resources
    app.state.commit_hook = audit_request
    app.state.hub = EventHub(resources.db.url)
    app.state.probe = health.HealthProbe(resources.db.url)
    if show_docs:
        openapi.install(app)
    _add_middleware(app)
    return app


class Server(uvicorn.Server):
    """Uvicorn, except that it ends the open event streams before it waits for requests."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, FastAPI):
            app.state.hub.close()
        await super().shutdown(sockets)


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish those under way, at most two seconds.

    Raises: `SystemExit` then, so that whoever holds something lets go of it.
    """
    # Uvicorn raises its signal once more when it is done; the default would end us on the spot.
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )
    tune_garbage_collector()
    Server(config).run()


def tune_garbage_collector() -> None:
    """What exists when a process is ready lives as long as it: do not search it for garbage again
    and again while requests are answered, and do not search after every few hundred objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def serve_api(settings: Settings) -> None:
    """The API process: logs, plugins, resources, the first admin key, server."""
    set_up_logs(settings)
    load_plugins()
    with opened_resources(settings, name="mosaico-api", pool_size=API_THREADS) as resources:
        key = settings.admin_key
        ensure_first_admin_key(
            resources.db, settings.data_dir, Secret(key.get_secret_value()) if key else None
        )
        app = create_app(resources, show_docs=settings.shows_docs)
        serve(app, host=settings.host, port=settings.port)


def operation_id(route: APIRoute) -> str:
    """`list_agents` is `listAgents` to those who generate clients."""
    first, *other_words = route.name.split("_")
    return first + "".join(word.capitalize() for word in other_words)


@cache
def _routes() -> list[BaseRoute]:
    """Every route, built once in a process: that takes longer than most requests."""
    routes = APIRouter(redirect_slashes=False, generate_unique_id_function=operation_id)
    api.include_routers(routes)
    routes.include_router(health.router)
    routes.include_router(problem_pages.router)
    return routes.routes


def _add_middleware(app: FastAPI) -> None:
    """Each one is outside of those before it: the request id is outermost."""
    problems.install(app)
    etag.install(app)
    app.add_middleware(RequestBodyMiddleware, is_streamed=api.is_streamed, is_signed=api.is_signed)
    app.add_middleware(problems.InternalErrorMiddleware)
    prometheus.install(app, app.state.probe.db)
    app.add_middleware(SecurityHeadersMiddleware)
    app.add_middleware(ResponseHeadersMiddleware)
    app.add_middleware(problems.RequestIdMiddleware)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # A thread without a connection would only wait for one, and fail in two seconds.
    pool = app.state.resources.db.engine.pool
    if isinstance(pool, QueuePool):
        anyio.to_thread.current_default_thread_limiter().total_tokens = pool.size()
    async with app.state.hub.running():
        yield
    app.state.probe.close()
