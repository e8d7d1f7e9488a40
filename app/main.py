"""The API of one process."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import QueuePool

from app import api
from app.core import problems
from app.core.bodies import Bodies
from app.core.db import Database
from app.core.logging import LogFormat, configure
from app.core.resources import Resources
from app.core.secrets import load_or_create_master_key
from app.core.settings import Settings
from app.core.sse import EventHub
from app.postgres.server import EmbeddedPostgres
from app.web import health, metrics, problem_pages, swagger
from app.web.csp import SecurityHeaders

GRACE_S = 2
API_THREADS = 40

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
        return super().openapi()


def create_app(resources: Resources) -> FastAPI:
    """The HTTP application over what this process holds; closing that is left to the caller."""
    app = Application(
        title="MOSAICO",
        version=version("mosaico"),
        description=DESCRIPTION,
        servers=[{"url": "/", "description": "this service"}],
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        generate_unique_id_function=operation_id,
    )
    app.state.resources = resources
    app.state.hub = EventHub(resources.db.url)
    app.state.probe = health.Probe(resources.db.url)
    _add_routes(app)
    _add_layers(app)
    return app


class Server(uvicorn.Server):
    """Uvicorn, except that it ends the open event streams before it waits for requests."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, FastAPI):
            app.state.hub.close()
        await super().shutdown(sockets)


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish those under way, at most two seconds."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    Server(config).run()


def serve_api(settings: Settings) -> None:
    """The API process: logs, resources, server."""
    log_format: LogFormat = "json" if settings.log_format == "json" else "console"
    configure(log_format)
    with opened_resources(settings, name="mosaico-api", pool_size=API_THREADS) as resources:
        serve(create_app(resources), host=settings.host, port=settings.port)


@contextmanager
def opened_resources(settings: Settings, *, name: str, pool_size: int) -> Iterator[Resources]:
    """What a process holds, opened from its settings and closed when the block ends."""
    with _database_url(settings) as url:
        key = settings.master_key
        resources = Resources(
            db=Database(url, pool_size=pool_size, name=name),
            secrets=load_or_create_master_key(
                settings.data_dir,
                key.get_secret_value() if key else None,
                embedded=settings.database_url is None,
            ),
            data_dir=settings.data_dir,
            options={"langfuse_default_url": str(settings.langfuse_default_url)},
        )
        try:
            yield resources
        finally:
            resources.db.dispose()


@contextmanager
def _database_url(settings: Settings) -> Iterator[str]:
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    lease = EmbeddedPostgres(settings.data_dir).acquire()
    try:
        yield lease.url
    finally:
        lease.release()


def operation_id(route: APIRoute) -> str:
    """`list_agents` is `listAgents` to those who generate clients."""
    first, *rest = route.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _add_routes(app: FastAPI) -> None:
    api.include(app)
    app.include_router(health.router)
    app.include_router(problem_pages.router)
    swagger.install(app)


def _add_layers(app: FastAPI) -> None:
    """Each one is outside of those before it: the request id is outermost."""
    problems.install(app)
    app.add_middleware(Bodies, is_streamed=api.is_streamed)
    app.add_middleware(problems.LastResort)
    metrics.install(app, app.state.probe.db)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(problems.RequestIds)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # A thread without a connection would only wait for one, and fail in two seconds.
    pool = app.state.resources.db.engine.pool
    if isinstance(pool, QueuePool):
        anyio.to_thread.current_default_thread_limiter().total_tokens = pool.size()
    async with app.state.hub.running():
        yield
    app.state.probe.close()
