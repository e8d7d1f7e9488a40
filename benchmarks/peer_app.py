"""A plain FastAPI and SQLAlchemy service on our tables, which the peers of A1 and of the load benchmark extend.

It follows the documentation of both: `async def`, an `AsyncSession` per request, a `response_model`. It has the
duties of a plain service: it looks up the key of each request, and a run that it starts belongs to a benchmark
and an agent that exist, and gets a job. It has no roles, rate limits, audit log, idempotency keys, request IDs
and metrics.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import procrastinate
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from sqlalchemy import select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from mosaico.access.models import ApiKey
from mosaico.access.rules import hash_token, is_usable, parse_token
from mosaico.agents.models import Agent
from mosaico.benchmarks.models import Benchmark
from mosaico.core.clock import utc_now
from mosaico.core.engine import libpq_url
from mosaico.core.ids import new_id
from mosaico.core.schemas import Page
from mosaico.jobs.declarations import BeginRun, queue_of
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs.schemas import RunCreate, RunView

PAGE: Final = 50  # runs of a list
PREFIX: Final = "/api/v1"


def sessions_of(request: Request) -> "async_sessionmaker[AsyncSession]":
    sessions: async_sessionmaker[AsyncSession] = request.app.state.sessions
    return sessions


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    async with sessions_of(request)() as session:
        yield session


Opened = Annotated[AsyncSession, Depends(open_session)]


async def check_key(request: Request, session: AsyncSession) -> None:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    parsed = parse_token(token)
    key = await session.get(ApiKey, parsed.key_id) if parsed else None
    if key is None or key.digest != hash_token(token):
        raise HTTPException(401)
    if not is_usable(expires_at=key.expires_at, revoked_at=key.revoked_at, now=utc_now()):
        raise HTTPException(401)


runs = APIRouter(prefix=f"{PREFIX}/benchmark-runs")


@runs.get("/{run_id}", response_model=RunView)
async def get_run(run_id: str, session: Opened) -> Any:
    run = await session.get(BenchmarkRun, run_id)
    if run is None:
        raise HTTPException(404)
    return _view(run)


@runs.get("", response_model=Page[RunView])
async def list_runs(session: Opened, limit: int = PAGE) -> Any:
    newest = select(BenchmarkRun).order_by(BenchmarkRun.seq.desc()).limit(limit)
    return {"items": [_view(run) for run in await session.scalars(newest)]}


@runs.post("", status_code=201, response_model=RunView)
async def start_run(body: RunCreate, session: Opened, request: Request) -> Any:
    benchmark = await session.get(Benchmark, body.benchmark_id)
    agent = await session.get(Agent, body.agent_id)
    if benchmark is None or agent is None:
        raise HTTPException(404)
    if benchmark.archived or agent.archived:
        raise HTTPException(409)
    run = BenchmarkRun(
        id=new_id(),
        benchmark_id=body.benchmark_id,
        agent_id=body.agent_id,
        status="PENDING",
        triggered_by=body.trigger_type,
        run_name=body.run_name,
    )
    session.add(run)
    await session.commit()
    await session.refresh(run)
    jobs: procrastinate.App = request.app.state.jobs
    task = jobs.configure_task(BeginRun.NAME, queue=queue_of(BeginRun.NAME), allow_unknown=True)
    await task.defer_async(**BeginRun(run_id=run.id).arguments())
    return _view(run)


def _view(run: BenchmarkRun) -> RunView:
    columns = {name: getattr(run, name) for name in RunView.model_fields if name != "results"}
    return RunView.model_validate({**columns, "results": f"{runs.prefix}/{run.id}/results"})


def peer_app(
    url: str,
    routes: APIRouter,
    require_key: Callable[..., Awaitable[None]],
    driver: str = "psycopg",
) -> FastAPI:
    """A service with the routes of runs and these, which all need a key."""
    address = make_url(url).set(drivername=f"postgresql+{driver}")
    engine = create_async_engine(address, pool_size=20, max_overflow=20)

    jobs = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=libpq_url(url)))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with jobs.open_async():
            yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(require_key)])
    app.state.jobs = jobs
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    app.include_router(runs)
    app.include_router(routes)
    return app
