"""The toy service on a real server, with and without a database, and the service with a month of runs."""

from collections.abc import Iterator

import httpx
import pytest

from mosaico.core.logging import configure_logging
from tests.integration.edge.toy_things import NOWHERE, ThingStore, toy_app
from tests.support.http import serving
from tests.support.page_data import write_month
from tests.support.postgres import cluster, drop_database, make_database
from tests.support.service import Service


@pytest.fixture(scope="session", autouse=True)
def _logs() -> None:
    configure_logging("json")


@pytest.fixture
def thing_store(served_thing_store: ThingStore) -> ThingStore:
    served_thing_store.things.clear()
    return served_thing_store


@pytest.fixture(scope="module")
def served_thing_store() -> ThingStore:
    return ThingStore()


@pytest.fixture(scope="module")
def client(served_thing_store: ThingStore) -> Iterator[httpx.Client]:
    with serving(toy_app(NOWHERE, served_thing_store)) as served:
        yield served


@pytest.fixture(scope="session")
def database_url(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    base = tmp_path_factory.getbasetemp()
    name = f"edge_{worker_id}"
    with cluster(base if worker_id == "master" else base.parent) as running:
        drop_database(running.url, name)
        yield make_database(running.url, name)
        drop_database(running.url, name)


@pytest.fixture
def month(service: Service) -> Service:
    with service.resources.db.begin() as session:
        write_month(session)
    return service


@pytest.fixture(scope="module")
def read_month(module_service: Service) -> Service:
    """A month that no test changes."""
    with module_service.resources.db.begin() as session:
        write_month(session)
    return module_service
