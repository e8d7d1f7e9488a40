"""The peer of A1: a plain asynchronous service on our tables, after the documentation of FastAPI and SQLAlchemy.

It has `async def`, an `AsyncSession` per request and a `response_model`, and the duties of a plain service: it
survives a restart of the database (`pool_pre_ping`), looks up the key of each request, and a run that it starts
belongs to a benchmark and an agent that exist, and gets a job. It has no roles, rate limits, audit log, idempotency keys, request IDs and metrics.
"""

import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import procrastinate
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from pydantic.warnings import UnsupportedFieldAttributeWarning
from sqlalchemy import select, union_all
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from mosaico.access.models import ApiKey, Person
from mosaico.access.rules import hash_token, is_usable, parse_token
from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentCreate, AgentView
from mosaico.benchmarks.models import Benchmark
from mosaico.core.clock import utc_now
from mosaico.core.engine import libpq_url
from mosaico.core.ids import new_id
from mosaico.core.schemas import Page
from mosaico.jobs.declarations import BeginRun, queue_of
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs.schemas import RunCreate, RunView

DEFAULT_LANGFUSE_URL: Final = "https://cloud.langfuse.com"
PAGE: Final = 50  # runs of a list
PREFIX: Final = "/api/v1"
RUN_COLUMNS: Final = [
    name for name in RunView.model_fields if name in BenchmarkRun.__table__.columns
]


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    async with request.app.state.sessions() as session:
        yield session


Opened = Annotated[AsyncSession, Depends(open_session)]


async def require_key(request: Request, session: Opened) -> None:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    parsed = parse_token(token)
    key = await session.get(ApiKey, parsed.key_id) if parsed else None
    if key is None or key.digest != hash_token(token):
        raise HTTPException(401)
    if not is_usable(expires_at=key.expires_at, revoked_at=key.revoked_at, now=utc_now()):
        raise HTTPException(401)


router = APIRouter(prefix=PREFIX, dependencies=[Depends(require_key)])


@router.get("/benchmark-runs/{run_id}", response_model=RunView)
async def get_run(run_id: str, session: Opened) -> Any:
    run = await session.get(BenchmarkRun, run_id)
    if run is None:
        raise HTTPException(404)
    return _view(run, await _list_names(session, [run]))


@router.get("/benchmark-runs", response_model=Page[RunView])
async def list_runs(session: Opened, limit: int = PAGE) -> Any:
    newest = select(BenchmarkRun).order_by(BenchmarkRun.seq.desc()).limit(limit)
    runs = (await session.scalars(newest)).all()
    names = await _list_names(session, runs)
    return {"items": [_view(run, names) for run in runs]}


@router.post("/benchmark-runs", status_code=201, response_model=RunView)
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
    return _view(run, {})


async def _list_names(session: AsyncSession, runs: Sequence[BenchmarkRun]) -> dict[str, str]:
    """The names of those who accepted the levels of the runs: of API keys and people."""
    ids = {run.accepted_by for run in runs if run.accepted_by}
    if not ids:
        return {}
    keys = select(ApiKey.id, ApiKey.name).where(ApiKey.id.in_(ids))
    people = select(Person.id, Person.name).where(Person.id.in_(ids))
    return {row.id: row.name for row in await session.execute(union_all(keys, people))}


def _view(run: BenchmarkRun, names: Mapping[str, str]) -> RunView:
    return RunView.model_validate(
        {
            **{name: getattr(run, name) for name in RUN_COLUMNS},
            "accepted_by_name": names.get(run.accepted_by or ""),
            "results": f"{PREFIX}/benchmark-runs/{run.id}/results",
        }
    )


@router.post("/agents", status_code=201, response_model=AgentView)
async def create_agent(body: AgentCreate, session: Opened) -> Any:
    agent = Agent(**{"id": new_id(), **body.model_dump(exclude_unset=True)})
    session.add(agent)
    await session.commit()
    await session.refresh(agent)
    columns = {name: getattr(agent, name, None) for name in AgentView.model_fields}
    urls = dict.fromkeys(("langfuse_url", "llangfuse_url"), DEFAULT_LANGFUSE_URL)
    return {**columns, **urls, "secret_set": False}


def orm_app(url: str) -> FastAPI:
    """The peer: the same tables and views with routes after the framework's documentation."""
    # FastAPI names each body, which pydantic reports for models that are built when they are used.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    address = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_async_engine(address, pool_size=20, max_overflow=20, pool_pre_ping=True)
    jobs = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=libpq_url(url)))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with jobs.open_async():
            yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)
    app.state.jobs = jobs
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    app.include_router(router)
    return app
