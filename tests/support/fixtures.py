"""Fixtures: one Postgres per test run, one migrated database per test, and the service."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mosaico.core.db import Database
from mosaico.core.resources import Resources
from mosaico.jobs import child_process
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.registry import load_metrics
from mosaico.plugin_loading import load_plugins
from mosaico.project_file import vocabulary
from tests.support.forked_children import fork_spawned_children
from tests.support.postgres import (
    SharedServer,
    cluster,
    make_migrated_database,
    server_below,
    superuser_url_of,
)
from tests.support.recycling import Databases
from tests.support.service import Service, SharedProcessPool, new_resources, running_service
from tests.support.waiting import LIVENESS_S


@pytest.fixture(scope="session", autouse=True)
def forked_children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fork_spawned_children(patch)
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that the processes of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def postgres_server(run_folder: Path) -> Iterator[SharedServer]:
    with cluster(run_folder) as running:
        yield running


@pytest.fixture(scope="session")
def superuser_url(postgres_server: SharedServer, run_folder: Path) -> str:
    return superuser_url_of(server_below(run_folder))


@pytest.fixture(scope="session")
def migrated_template(postgres_server: SharedServer, worker_id: str) -> str:
    """The name of a migrated database that nobody uses, to be copied."""
    name = f"template_{worker_id}"
    make_migrated_database(postgres_server.url, name)
    return name


@pytest.fixture(scope="session")
def databases(
    postgres_server: SharedServer, superuser_url: str, migrated_template: str, worker_id: str
) -> Iterator[Databases]:
    databases = Databases(
        postgres_server.url, superuser_url, migrated_template, prefix=f"test_{worker_id}_"
    )
    yield databases
    databases.close()


@pytest.fixture
def fresh_database(databases: Databases) -> Iterator[str]:
    """The name of a migrated, empty database of the test's own."""
    name = databases.take()
    yield name
    databases.give_back(name)


@pytest.fixture
def fresh_database_url(databases: Databases, fresh_database: str) -> str:
    return databases.url(fresh_database)


@pytest.fixture
def migrated_database(databases: Databases, fresh_database: str) -> Database:
    return databases.client(fresh_database)


@pytest.fixture(scope="module")
def module_database(databases: Databases) -> Iterator[Database]:
    """A migrated database for the tests of a file that only read what one fixture has written."""
    name = databases.take()
    yield databases.client(name)
    databases.give_back(name)


@pytest.fixture(scope="session")
def plugins() -> None:
    """Every metric and source, and the handlers of the jobs."""
    load_plugins()
    importlib.import_module("mosaico.worker")


@pytest.fixture
def service_resources(migrated_database: Database, tmp_path: Path, plugins: None) -> Resources:
    return new_resources(migrated_database, tmp_path)


@pytest.fixture(scope="module")
def cheap_digests() -> Iterator[None]:
    """The digest of a secret of a project file takes 20 ms on purpose; an apply makes dozens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_SCRYPT_COST", 2)
        yield


@pytest.fixture(scope="session")
def metric_pool() -> Iterator[ProcessPool]:
    """A process that computes: metrics for the jobs, and comparisons for the API.

    The API starts a process for each comparison; a new one takes a second of processor time.
    """
    pool = ProcessPool(1, warm_up=load_metrics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "ProcessPool", lambda *_, **__: SharedProcessPool(pool))
        yield pool
    pool.close()


@pytest.fixture(scope="module")
def module_service(
    module_database: Database,
    plugins: None,
    metric_pool: ProcessPool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """The API on `module_database`."""
    resources = new_resources(module_database, tmp_path_factory.mktemp("data"))
    with running_service(resources, metric_pool) as running:
        yield running


@pytest.fixture
def service(service_resources: Resources, metric_pool: ProcessPool) -> Iterator[Service]:
    """The API with an admin key, on a real port and an empty database."""
    with running_service(service_resources, metric_pool) as running:
        yield running


@pytest.fixture
def stranger(service: Service) -> Iterator[httpx.Client]:
    """A client without an API key."""
    # The certificates of the machine take long to load, and the service speaks plain HTTP.
    with httpx.Client(
        base_url=service.client.base_url, trust_env=False, verify=False, timeout=LIVENESS_S
    ) as client:
        yield client
