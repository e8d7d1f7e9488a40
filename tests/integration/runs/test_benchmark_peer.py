"""The peer of benchmark A1 gives the answers of the service: otherwise their speeds would not compare."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from benchmarks.api_peer import orm_app
from mosaico.access.models import ApiKey
from mosaico.run_store.models import BenchmarkRun
from tests.support.service import Service, pair


def ask_peer(service: Service, path: str) -> Any:
    async def ask() -> httpx.Response:
        app = orm_app(service.resources.db.url)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://peer",
                headers=service.client.headers,
            ) as client,
        ):
            return await client.get(f"/api/v1{path}")

    response = asyncio.run(ask())
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("is_accepted", [False, True])
def test_orm_app__runs_are_those_of_the_service(service: Service, is_accepted: bool) -> None:
    service.create_agent()
    service.create_benchmark()
    service.upload([pair(1), pair(2)])
    path = f"/benchmark-runs/{service.complete_run()['id']}"
    if is_accepted:
        with service.resources.db.begin() as session:
            key_id = session.scalar(select(ApiKey.id))
            session.execute(update(BenchmarkRun).values(accepted_by=key_id))
    run = service.get(path)
    assert run["acceptedByName"] == ("tests" if is_accepted else None)
    assert ask_peer(service, path) == run
    assert ask_peer(service, "/benchmark-runs")["items"] == [run]
