"""The floor of A1: the least that our libraries need for the duties of the service.

Routes of Starlette alone: they look the key up and count its request as the service does, send the same statements,
the audit log and the job included, and answer with the rows as they are. There are no views, checks of
parameters and bodies, other limits, headers, metrics and logs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.peer_app import PAGE, PREFIX
from mosaico.access.audit import AuditActor, AuditResource, record_action
from mosaico.access.key_cache import KeyCache
from mosaico.access.rate_limits import RequestLimiter
from mosaico.agents.models import Agent
from mosaico.core.clock import utc_now
from mosaico.core.db import Database, insert_row
from mosaico.core.keyset import PageQuery
from mosaico.run_store.queries import get_run_columns
from mosaico.run_store.rules import TriggerType
from mosaico.run_store.run_list import DEFAULT_SORT, RunListFilter, search_runs
from mosaico.runs.service import create_run

CONNECTIONS = 40


def floor_app(url: str) -> Starlette:
    db = Database(url, pool_size=CONNECTIONS, name="bench-floor")
    keys, limiter = KeyCache(db, utc_now), RequestLimiter(db, 1_000_000)

    def route(method: str, path: str, answer: Callable[[Request, str, Any], Any]) -> Route:
        async def respond(request: Request) -> Response:
            token = request.headers["authorization"].removeprefix("Bearer ")
            key = keys.get_cached(token) or await asyncio.to_thread(keys.find_key, token)
            if key is None or limiter.count_request(key.id).exceeded:
                raise HTTPException(401)
            body = await request.json() if method == "POST" else None
            content = await asyncio.to_thread(lambda: to_json(answer(request, key.id, body)))
            return Response(content, media_type="application/json")

        endpoint: Callable[[Request], Awaitable[Response]] = respond
        return Route(f"{PREFIX}/{path}", endpoint, methods=[method])

    def read_run(request: Request, _key: str, _body: Any) -> object:
        return get_run_columns(db, request.path_params["run_id"])

    def read_runs(_request: Request, _key: str, _body: Any) -> object:
        with db.read_statement() as session:
            return search_runs(session, RunListFilter(), DEFAULT_SORT, PageQuery(PAGE)).rows

    def create_agent(_request: Request, key: str, body: Any) -> object:
        with db.begin() as session:
            row = insert_row(session, Agent, body)
            actor, resource = AuditActor(type="key", id=key), AuditResource("agents", body["id"])
            record_action(session, actor, "create_agent", resource, fields=list(body))
            return row

    def start_run(_request: Request, key: str, body: Any) -> object:
        with db.begin() as session:
            run = create_run(
                session, body["benchmarkId"], body["agentId"], trigger=TriggerType.MANUAL
            )
            actor, resource = (
                AuditActor(type="key", id=key),
                AuditResource("benchmark-runs", run.id),
            )
            record_action(session, actor, "start_run", resource, fields=list(body))
            return run

    return Starlette(
        routes=[
            route("GET", "benchmark-runs/{run_id}", read_run),
            route("GET", "benchmark-runs", read_runs),
            route("POST", "benchmark-runs", start_run),
            route("POST", "agents", create_agent),
        ],
        lifespan=_with_threads,
    )


@asynccontextmanager
async def _with_threads(_app: Starlette) -> AsyncIterator[None]:
    """As many threads as connections, as in the service."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CONNECTIONS))
    yield
