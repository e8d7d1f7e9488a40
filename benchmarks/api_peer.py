"""The peer of A1: an asynchronous service after the documentation of FastAPI and SQLAlchemy."""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic.warnings import UnsupportedFieldAttributeWarning
from sqlalchemy import select as select_rows
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from app.access.models import ApiKey
from app.access.rules import hash_token, parse_token
from app.agents.models import Agent
from app.agents.schemas import AgentCreate, AgentView
from app.core.ids import new_id
from app.results.models import BenchmarkRun
from app.runs.schemas import RunCreate, RunView
from app.runs.views import run_view

DEFAULT_LANGFUSE_URL: Final = "https://cloud.langfuse.com"
PAGE: Final = 50  # runs of a list


def orm_app(url: str, driver: str = "psycopg") -> FastAPI:
    """The peer: the same tables and views with routes after the framework's documentation."""
    address = make_url(url).set(drivername=f"postgresql+{driver}")
    engine = create_async_engine(address, pool_size=20, max_overflow=20)
    sessions = async_sessionmaker(engine, expire_on_commit=False)

    async def opened() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session

    Opened = Annotated[AsyncSession, Depends(opened)]  # noqa: N806 - a type

    async def require_key(request: Request, session: Opened) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        parsed = parse_token(token)
        key = await session.get(ApiKey, parsed.key_id) if parsed else None
        if key is None or key.digest != hash_token(token) or key.revoked_at is not None:
            raise HTTPException(401)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    # FastAPI names each body, which pydantic reports for models that are built when they are used.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    app = FastAPI(lifespan=lifespan, dependencies=[Depends(require_key)])

    @app.post("/api/v1/agents", status_code=201, response_model=AgentView)
    async def create_agent(body: AgentCreate, session: Opened) -> Any:
        agent = Agent(**{"id": new_id(), **body.model_dump(exclude_unset=True)})
        session.add(agent)
        await session.commit()
        await session.refresh(agent)
        columns = {name: getattr(agent, name, None) for name in AgentView.model_fields}
        urls = dict.fromkeys(("langfuse_url", "llangfuse_url"), DEFAULT_LANGFUSE_URL)
        return {**columns, **urls, "secret_set": False}

    @app.get("/api/v1/benchmark-runs/{run_id}", response_model=RunView)
    async def get_run(run_id: str, session: Opened) -> Any:
        run = await session.get(BenchmarkRun, run_id)
        if run is None:
            raise HTTPException(404)
        return run_view(run)

    @app.get("/api/v1/benchmark-runs", response_model=dict[str, list[RunView]])
    async def list_runs(session: Opened, limit: int = PAGE) -> Any:
        newest = select_rows(BenchmarkRun).order_by(BenchmarkRun.seq.desc()).limit(limit)
        return {"items": [run_view(run) for run in await session.scalars(newest)]}

    @app.post("/api/v1/benchmark-runs", status_code=201, response_model=RunView)
    async def start_run(body: RunCreate, session: Opened) -> Any:
        run = BenchmarkRun(
            id=new_id(),
            benchmark_id=body.benchmark_id,
            agent_id=body.agent_id,
            status="PENDING",
            triggered_by=body.trigger_type,
        )
        session.add(run)
        await session.commit()
        await session.refresh(run)
        return run_view(run)

    return app
