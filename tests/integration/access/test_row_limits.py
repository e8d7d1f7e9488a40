"""Keys that see some benchmarks only: a canary in each foreign resource is in no response."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mosaico.core.row_limits import INTERNAL_TABLES, LIMITED_TABLES
from mosaico.table_list import METADATA
from tests.support.browser_sessions import HTML
from tests.support.described_api import api_routes
from tests.support.every_page import EXAMPLES, QUERIES, fill_path, page_paths, write_hostile_pages
from tests.support.service import Service, pair

# The name of every foreign resource contains one of these.
CANARIES = ("gnp.exe", "WWWWWWWW", "warehouse", "Langfuse answered 503")
MINE = "mine"


@pytest.fixture
def tokens(service: Service) -> dict[str, str]:
    """Keys with the roles read and run, which see one benchmark with a run, beside a month of others."""
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    service.create_agent("my-agent", name="Pelican")
    service.create_benchmark(MINE, datasetRef="my-file", evaluates=["my-agent"])
    service.upload([pair(1)], name="my-file", run_name="r", agentId="my-agent")
    service.post("/benchmark-runs", {"benchmarkId": MINE, "agentId": "my-agent", "runName": "r"})
    service.work()
    return {
        role: service.post("/keys", {"name": role, "role": role, "only": [MINE]})["token"]
        for role in ("read", "run")
    }


@pytest.fixture
def reader(service: Service, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A browser and program with the key that reads."""
    address = service.client.base_url
    with httpx.Client(
        base_url=address, trust_env=False, verify=False, timeout=300.0,
        headers={"Authorization": f"Bearer {tokens['read']}"},
    ) as client:  # fmt: skip
        yield client


def api_paths() -> list[str]:
    paths = [route.path or "" for route in api_routes() if "GET" in (route.methods or ())]
    return [_filled(path) for path in paths if not path.endswith("/events")]


def _filled(path: str) -> str:
    query = next((query for page, query in QUERIES.items() if path.endswith(page)), "")
    return f"{fill_path(path, {**EXAMPLES, 'itemId': 'case-000'})}?{query}"


def leaks(response: httpx.Response) -> list[str]:
    return [canary for canary in CANARIES if canary in response.text]


def test_every_table__is_limited_or_internal() -> None:
    assert set(METADATA.tables) == LIMITED_TABLES.keys() | INTERNAL_TABLES
    assert not LIMITED_TABLES.keys() & INTERNAL_TABLES


def test_limited_key__sees_no_foreign_resource(reader: httpx.Client) -> None:
    leaking: dict[str, Any] = {}
    statuses: dict[str, int] = {}
    for path in [*api_paths(), *page_paths()]:
        response = reader.get(path, headers=HTML if not path.startswith("/api/") else {})
        statuses[path] = response.status_code
        if found := leaks(response):
            leaking[path] = found
    import json; open("/tmp/st.json","w").write(json.dumps(statuses))
    print(sorted(statuses.items()))
    assert leaking == {}
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
    # Its own benchmark, or the test would prove nothing.
    assert [run["benchmarkId"] for run in reader.get("/api/v1/benchmark-runs").json()["items"]] == [
        MINE
    ]
    assert "Pelican" in reader.get("/", headers=HTML).text
