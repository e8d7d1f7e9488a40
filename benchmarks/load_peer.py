"""The peer of the load benchmark: a plain FastAPI and SQLAlchemy service on the same tables.

It has the body of an upload in memory, and event streams that read their run every few seconds. Its streams
return their connection to the pool between two reads; otherwise 40 of them would block every request.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy import insert

from benchmarks.api import serve_app
from benchmarks.peer_app import PREFIX, Opened, check_key, peer_app, sessions_of
from mosaico.core.ids import new_id
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs.views import run_view
from mosaico.traces.models import CollectedTrace, Collection, LocalDataset
from mosaico.traces.uploads.schemas import LocalDatasetView

POLL_S: Final = 5.0


class UploadedTrace(BaseModel):
    """One line of an upload."""

    model_config = ConfigDict(alias_generator=to_camel)

    trace_id: str
    expected_output: str | None = None
    output: str | None = None


router = APIRouter(prefix=PREFIX)


@router.post("/local-datasets", status_code=201, response_model=LocalDatasetView)
async def upload(request: Request, name: str, runName: str, session: Opened) -> Any:  # noqa: N803 - a query parameter
    content = await request.body()
    lines = content.decode().splitlines()
    traces = [UploadedTrace.model_validate_json(line) for line in lines]
    collection = Collection(source="local", query={}, trace_count=len(traces))
    session.add(collection)
    await session.flush()
    dataset = LocalDataset(
        id=new_id(), name=name, run_name=runName, collection_id=collection.id,
        trace_count=len(traces), size_bytes=len(content),
    )  # fmt: skip
    session.add(dataset)
    await session.flush()
    rows: list[dict[str, object]] = [
        {
            "collection_id": collection.id, "position": position, "trace_id": trace.trace_id,
            "item_id": trace.trace_id, "trial": 0, "outcome": "scored", "tags": [],
            "expected_output": trace.expected_output, "output": trace.output,
        }
        for position, trace in enumerate(traces)
    ]  # fmt: skip
    await session.execute(insert(CollectedTrace), rows)
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


async def require_key(request: Request) -> None:
    # A session of its own: a stream would hold that of the request until it ends.
    async with sessions_of(request)() as session:
        await check_key(request, session)


if __name__ == "__main__":
    serve_app(peer_app(os.environ["DATABASE_URL"], router, require_key))
