from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.registry import LoadedPlugin
from app.core.resources import Resources
from app.jobs.process_pool import ProcessPool
from app.metrics.registry import load_metrics
from tests.support.plugins import install_sample, load_sample
from tests.support.service import Service, running_service

MEMORY_BYTES = 512 * 1024**2


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sample distribution is installed."""
    return install_sample(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def failures(plugins: None, monkeypatch: pytest.MonkeyPatch, installed: Path) -> list[LoadedPlugin]:
    """The sample distribution is loaded, and this is what failed."""
    return load_sample(monkeypatch, installed)


@pytest.fixture
def pool(failures: list[LoadedPlugin]) -> Iterator[ProcessPool]:
    """A child process that has loaded the sample distribution, too."""
    pool = ProcessPool(1, warm_up=load_metrics, memory_bytes=MEMORY_BYTES)
    yield pool
    pool.close()


@pytest.fixture
def extended(service_resources: Resources, pool: ProcessPool) -> Iterator[Service]:
    """The service with the sample distribution."""
    with running_service(service_resources, pool) as running:
        yield running
