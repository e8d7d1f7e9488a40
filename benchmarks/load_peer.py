"""The peer of the load benchmark: a plain FastAPI and SQLAlchemy service on the same tables.

It follows the documentation of both: `async def`, an `AsyncSession` per request, a `response_model`,
the body of an upload in memory, and event streams that read their run every few seconds. Its streams
return their connection to the pool between two reads; otherwise 40 of them would block every request.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy import insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from app.access.models import ApiKey
from app.access.rules import hash_token, parse_token
from app.core.ids import new_id
from app.core.schemas import Page
from app.results.models import BenchmarkRun
from app.runs.schemas import RunCreate, RunView
from app.runs.views import run_view
from app.traces.models import LocalDataset, LocalTrace
from app.traces.schemas import LocalDatasetView
from benchmarks.api import serve_app

POLL_S: Final = 5.0


class UploadedTrace(BaseModel):
    """One line of an upload."""

    model_config = ConfigDict(alias_generator=to_camel)

    trace_id: str
    expected_output: str | None = None
    output: str | None = None


def sessions_of(request: Request) -> "async_sessionmaker[AsyncSession]":
    sessions: async_sessionmaker[AsyncSession] = request.app.state.sessions
    return sessions


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    async with sessions_of(request)() as session:
        yield session


async def require_key(request: Request) -> None:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    parsed = parse_token(token)
    # A session of its own: a stream would hold that of the request until it ends.
    async with sessions_of(request)() as session:
        key = await session.get(ApiKey, parsed.key_id) if parsed else None
    if key is None or key.digest != hash_token(token) or key.revoked_at is not None:
        raise HTTPException(401)


Opened = Annotated[AsyncSession, Depends(open_session)]

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_key)])


@router.get("/benchmark-runs/{run_id}", response_model=RunView)
async def get_run(run_id: str, session: Opened) -> Any:
    run = await session.get(BenchmarkRun, run_id)
    if run is None:
        raise HTTPException(404)
    return run_view(run)


@router.get("/benchmark-runs", response_model=Page[RunView])
async def list_runs(session: Opened, limit: int = 50) -> Any:
    newest = select(BenchmarkRun).order_by(BenchmarkRun.created_at.desc()).limit(limit)
    return {"items": [run_view(run) for run in await session.scalars(newest)]}


@router.post("/benchmark-runs", status_code=201, response_model=RunView)
async def start_run(body: RunCreate, session: Opened) -> Any:
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
    return run_view(run)


@router.post("/local-datasets", status_code=201, response_model=LocalDatasetView)
async def upload(request: Request, name: str, runName: str, session: Opened) -> Any:  # noqa: N803 - a query parameter
    content = await request.body()
    lines = content.decode().splitlines()
    traces = [UploadedTrace.model_validate_json(line) for line in lines]
    dataset = LocalDataset(
        id=new_id(), name=name, run_name=runName, trace_count=len(traces), size_bytes=len(content)
    )
    session.add(dataset)
    await session.flush()
    rows = [
        {"dataset_id": dataset.id, "position": position, "trace_id": trace.trace_id, "line": line}
        for position, (trace, line) in enumerate(zip(traces, lines, strict=True))
    ]
    await session.execute(insert(LocalTrace), rows)
    await session.commit()
    await session.refresh(dataset)
    return dataset


@router.get("/benchmark-runs/{run_id}/events")
async def follow_run(run_id: str, request: Request) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        last_data = None
        while True:
            async with sessions_of(request)() as session:
                run = await session.get_one(BenchmarkRun, run_id)
            data = run_view(run).model_dump_json(by_alias=True)
            yield ": still here\n\n" if data == last_data else f"event: run\ndata: {data}\n\n"
            last_data = data
            await asyncio.sleep(POLL_S)

    return StreamingResponse(events(), media_type="text/event-stream")


def peer_app(url: str) -> FastAPI:
    engine = create_async_engine(
        make_url(url).set(drivername="postgresql+psycopg"), pool_size=20, max_overflow=20
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    app.include_router(router)
    return app


if __name__ == "__main__":
    serve_app(peer_app(os.environ["DATABASE_URL"]))
