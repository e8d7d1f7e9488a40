"""API process: the FastAPI application, its middleware and the server."""

import signal
import socket
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel
from pydantic.warnings import UnsupportedFieldAttributeWarning
from sqlalchemy import QueuePool
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from mosaico import api
from mosaico.access import idempotency
from mosaico.access.audit_middleware import audit_request
from mosaico.access.authentication import AuthenticationMiddleware
from mosaico.access.pages import render_error
from mosaico.access.people import end_withdrawn_sessions
from mosaico.access.service import ensure_first_admin_key
from mosaico.access.stream_revocation import KeyStreamOwners
from mosaico.core import problem_documents
from mosaico.core.encryption import Secret
from mosaico.core.malloc import limit_arenas
from mosaico.core.network_policy import parse_networks
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings
from mosaico.core.web import (
    etag,
    health,
    openapi,
    problem_types,
    prometheus,
    request_body,
    static_files,
)
from mosaico.core.web.client_network import NO_PROXIES, TrustedProxies
from mosaico.core.web.forwarded_headers import ForwardedHeadersMiddleware
from mosaico.core.web.http_protocol import HttpProtocol
from mosaico.core.web.listener import inherited_listener
from mosaico.core.web.request_origin import AllowedHostsMiddleware, HostPolicy, host_policy
from mosaico.core.web.response_headers import ResponseHeadersMiddleware, SecurityHeadersMiddleware
from mosaico.core.web.sse import EventHub
from mosaico.jobs.child_process import close_children
from mosaico.notifications.queries import count_inbox
from mosaico.plugin_loading import load_plugins
from mosaico.startup import opened_resources, set_up_logs

SHUTDOWN_GRACE_S = 2
# Of all API processes together, and at least of each.
API_THREADS = 40
MIN_API_THREADS = 10

DESCRIPTIONS = Path(__file__).parent / "api_descriptions.toml"
EXAMPLES = Path(__file__).parent / "api_examples.json"
RESPONSE_EXAMPLES = Path(__file__).parent / "api_response_examples.json"

DESCRIPTION = """\
Reports every morning whether AI agents got better or worse.

Every request below `/api/v1` needs `Authorization: Bearer <API key>`. Lists return `{items, nextCursor}`; errors are problem documents (RFC 9457) whose `detail` contains the error and its remedy.
"""


class Application(FastAPI):
    """FastAPI with problem documents in the OpenAPI description."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            document = super().openapi()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = problem_documents.PROBLEM_SCHEMA
            for operation in openapi.iter_operations(document):
                etag.document_conditions(operation, problem_documents.document_problem)
                idempotency.document_conflict(operation)
                request_body.document_problems(operation)
            texts = openapi.read_texts(DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES)
            openapi.complete_document(document, texts)
        return super().openapi()


def create_app(
    resources: Resources,
    *,
    show_docs: bool = True,
    hosts: HostPolicy | None = None,
    proxies: TrustedProxies = NO_PROXIES,
) -> FastAPI:
    """The HTTP application; the caller closes the resources.

    `show_docs` makes Swagger UI and the OpenAPI description public. `hosts` are the names of the
    service; default: those of this machine only. `proxies` are those that name the clients of requests.
    """
    app = Application(
        title="MOSAICO",
        version=version("mosaico"),
        description=DESCRIPTION,
        contact={"name": "The operator of this service"},
        servers=[{"url": "/", "description": "this service"}],
        openapi_url="/openapi.json" if show_docs else None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Without the OpenTelemetry spans of FastAPI: the service has its own metrics and logs.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=_lifespan,
        generate_unique_id_function=operation_id,
        routes=list(_routes()),
    )
    app.state.resources = resources
    app.state.commit_hook = audit_request
    app.state.probe = health.HealthProbe(resources.db)
    # A connection of its own: neither requests nor a slow scrape must keep streams of revoked keys open.
    app.state.stream_db = resources.db.open_second_pool("mosaico-streams")
    owners = KeyStreamOwners(app.state.stream_db, resources.clock)
    app.state.hub = EventHub(resources.db.direct_url, owners=owners)
    app.state.render_error = render_error
    app.state.count_inbox = count_inbox
    app.mount(static_files.URL, static_files.HashedStaticFiles(directory=static_files.FOLDER))
    if show_docs:
        openapi.install(app)
    _add_middleware(app, hosts or HostPolicy(), proxies)
    return app


class Server(uvicorn.Server):
    """Uvicorn that ends the open event streams before it waits for running requests."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, FastAPI):
            app.state.hub.close()
        await super().shutdown(sockets)


def serve(
    app: FastAPI,
    *,
    host: str,
    port: int,
    listener: socket.socket | None = None,
    proxies: TrustedProxies = NO_PROXIES,
) -> None:
    """Serve requests until SIGTERM or SIGINT, then finish running requests within two seconds.

    `listener` is a socket that is bound to the address already; without one it is opened.

    Raises: `SystemExit` at the end, so that the caller's context managers release their resources.
    """
    # Uvicorn raises the signal again when it has stopped; the default handler would kill the process
    # before the cleanup of the callers.
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: sys.exit(0))
    config = server_config(app, host=host, port=port, proxies=proxies)
    Server(config).run(sockets=[listener] if listener else None)


def server_config(
    app: ASGIApp, *, host: str, port: int, proxies: TrustedProxies = NO_PROXIES
) -> uvicorn.Config:
    """The server of an application."""

    class Protocol(HttpProtocol):
        """The protocol with the proxies of the settings."""

        trusted_proxies = proxies

    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # `ForwardedHeadersMiddleware` reads them. That of uvicorn takes any text for an address, and reads neither
        # `Forwarded` nor `X-Forwarded-Host`.
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )


def serve_api(settings: Settings) -> None:
    """The API process: logs, plugins, resources, the first admin key, server."""
    # First: arenas that exist are not given back.
    limit_arenas()
    set_up_logs(settings)
    load_plugins()
    pool_size = max(API_THREADS // settings.api_processes, MIN_API_THREADS)
    with opened_resources(settings, name="mosaico-api", pool_size=pool_size) as resources:
        key = settings.admin_key
        ensure_first_admin_key(
            resources.db, settings.data_dir, Secret(key.get_secret_value()) if key else None
        )
        with resources.db.begin() as session:
            end_withdrawn_sessions(session, resources.login.rules)
        hosts = host_policy(
            settings.allowed_hosts,
            bind_host=settings.host,
            public_host=urlsplit(settings.public_url or "").hostname,
        )
        proxies = TrustedProxies(parse_networks(settings.trusted_proxies or ""))
        app = create_app(resources, show_docs=settings.shows_docs, hosts=hosts, proxies=proxies)
        listener = inherited_listener()
        serve(app, host=settings.host, port=settings.port, listener=listener, proxies=proxies)


def operation_id(route: APIRoute) -> str:
    """The OpenAPI operation id: `list_agents` becomes `listAgents`."""
    return to_camel(route.name)


@cache
def _routes() -> list[BaseRoute]:
    """All routes, built once per process: building them takes longer than most requests.

    They are not nested: Starlette would search each level separately for every request.
    """
    # FastAPI ignores this warning about the name of the parameter `body` where it builds a validator; those of
    # bodies are built at their first use.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    routes = APIRouter(redirect_slashes=False, generate_unique_id_function=operation_id)
    api.include_routers(routes)
    health.router.add_to(routes)
    problem_types.router.add_to(routes)
    api.include_pages(routes)
    return routes.routes


def _add_middleware(app: FastAPI, hosts: HostPolicy, proxies: TrustedProxies) -> None:
    """Add the middleware from the inside to the outside: everything sees the client that a proxy names."""
    problem_documents.install(app)
    etag.install(app)
    app.add_middleware(
        request_body.RequestBodyMiddleware, is_streamed=api.is_streamed, is_signed=api.is_signed
    )
    app.add_middleware(
        AuthenticationMiddleware, requires_key=api.requires_key, accepts_key=api.accepts_key
    )
    app.add_middleware(problem_documents.InternalErrorMiddleware)
    prometheus.install(app, app.state.probe.db)
    app.add_middleware(AllowedHostsMiddleware, policy=hosts)
    app.add_middleware(SecurityHeadersMiddleware)
    app.add_middleware(ResponseHeadersMiddleware)
    app.add_middleware(problem_documents.RequestIdMiddleware)
    app.add_middleware(ForwardedHeadersMiddleware, proxies=proxies)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # As many threads as connections: a thread without one would wait for it and fail after two seconds.
    pool = app.state.resources.db.engine.pool
    if isinstance(pool, QueuePool):
        anyio.to_thread.current_default_thread_limiter().total_tokens = pool.size()
    async with app.state.hub.running():
        yield
    close_children()
    app.state.probe.close()
    app.state.stream_db.dispose()
