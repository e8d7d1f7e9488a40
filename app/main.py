"""The API of one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app import api
from app.core import problems
from app.core.bodies import Bodies
from app.core.resources import Resources
from app.core.sse import EventHub


def create_app(resources: Resources) -> FastAPI:
    """The HTTP application over what this process holds; it owns nothing that must be closed."""
    app = FastAPI(
        title="MOSAICO",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.resources = resources
    app.state.hub = EventHub(resources.db.url)
    api.include(app)
    problems.install(app)
    app.add_middleware(Bodies)
    app.add_middleware(problems.LastResort)
    app.add_middleware(problems.RequestIds)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    resources: Resources = app.state.resources
    anyio.to_thread.current_default_thread_limiter().total_tokens = resources.db.engine.pool.size()  # type: ignore[attr-defined]
    async with app.state.hub.running():
        yield


def _operation_id(route: APIRoute) -> str:
    first, *rest = route.name.split("_")
    return first + "".join(word.capitalize() for word in rest)
